"""Keys above a worker's limit: balance and moved state, by the literal reading and with pins."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import typer

from benchmarks import records as raw
from benchmarks.records import Row, grouped, markdown
from skewless.arrays import Floats, Keys
from skewless.strategies import Mixed
from skewless.strategy import Report
from skewless.workloads.zipf import zipf_probabilities

_STATE_WINDOWS = 5  # w: how many windows the state of a key reaches back
_FLUCTUATING = 10  # one key in this many exchanges its load with another one between two windows
_RECORDS = 10_000_000

VARIANTS: dict[str, dict[str, Any]] = {
    "literal": {"pin_giants": False, "two_sided": False},
    "pinned": {"pin_giants": True, "two_sided": False},
    "pinned, two-sided": {},
}


class Case(NamedTuple):
    """A Zipf stream on this many workers."""

    n_keys: int
    n_workers: int
    z: float = 0.85


#: In the first two the heaviest key is above the limit of a worker, in the others it is not.
CASES = (Case(10_000, 25), Case(100_000, 40), Case(10_000, 15), Case(100_000, 15))


def reports(case: Case, n_windows: int, seed: int) -> Iterator[Report]:
    """Yield windows in which a tenth of the keys exchange their loads each time."""
    rng = np.random.default_rng(seed)
    keys: Keys = np.unique(rng.integers(0, 2**63, case.n_keys).astype(np.uint64))
    loads: Floats = rng.permutation(_RECORDS * zipf_probabilities(case.z, keys.size))
    history = [loads] * _STATE_WINDOWS
    for _ in range(n_windows):
        yield Report(keys, loads, np.sum(history, axis=0))
        swapped = rng.permutation(keys.size)[: keys.size // _FLUCTUATING]
        loads = loads.copy()
        loads[swapped] = rng.permutation(loads[swapped])
        history = [*history[1:], loads]


def measure(
    *, cases: Sequence[Case] = CASES, n_windows: int = 10, seeds: Sequence[int] = (1, 2, 3)
) -> Iterator[Row]:
    """Yield one raw record per case, variant, seed and window."""
    for case in cases:
        for variant, parameters in VARIANTS.items():
            strategy = Mixed(**parameters)
            for seed in seeds:
                state = strategy.start(case.n_workers, seed)
                for window, report in enumerate(reports(case, n_windows, seed)):
                    state, moves = strategy.rebalance(report, state)
                    owners = np.empty(report.keys.size, np.int32)
                    strategy.route(report.keys, state, owners)
                    loads = np.bincount(owners, report.loads, minlength=case.n_workers)
                    moving = np.isin(report.keys, moves.keys)
                    mean = float(loads.mean())
                    yield case._asdict() | {
                        "variant": variant,
                        "seed": seed,
                        "window": window,
                        "largest_key": float(report.loads.max()) / mean,
                        "largest": float(loads.max()) / mean,
                        "smallest": float(loads.min()) / mean,
                        "moved": float(report.state_sizes[moving].sum() / report.state_sizes.sum()),
                        "entries": int(state.n_entries[0]),
                    }


def table(records: Sequence[Row]) -> str:
    """Return means over windows and seeds: a row per case and variant.

    Nothing is in the table before the first window, so its moves are not counted.
    """
    rows = []
    cells = grouped(records, "n_keys", "n_workers", "z", "variant")
    for (n_keys, n_workers, z, variant), mine in cells.items():
        loads = [
            statistics.fmean(r[column] for r in mine)
            for column in ("largest_key", "largest", "smallest")
        ]
        moved = statistics.fmean(r["moved"] for r in mine if r["window"] > 0)
        entries = statistics.fmean(r["entries"] for r in mine)
        stream = f"K = {n_keys:,}, n = {n_workers}, z = {z}"
        shown = [f"{load:.2f}" for load in loads]
        rows.append([stream, variant, *shown, f"{100 * moved:.2f} %", f"{entries:,.0f}"])
    headings = "stream | reading | largest key | max / mean | min / mean | moved | entries"
    return markdown(headings, rows)


REPORT = raw.Report("giants.jsonl", {("docs/strategies/mixed.md", "giants"): table})


def main() -> None:
    """Measure what pinned giants do to balance and moves; write the raw records and the table."""
    REPORT.write(measure())


if __name__ == "__main__":
    typer.run(main)
