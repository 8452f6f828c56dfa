"""What a routing decision costs: ns per record, as a ratio to `hash` in the same repetition."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter_ns

import numpy as np
import typer
from rich.progress import track

from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown, ratios
from benchmarks.streams import zipf_keys
from skewless import registry
from skewless.arrays import Keys
from skewless.strategy import AnyStrategy

WORKERS = (16, 64, 128, 1024)
EXPONENTS = (0.8, 1.4, 2.0)


def measure(
    names: Sequence[str],
    *,
    n_records: int = 500_000,
    n_keys: int = 100_000,
    repetitions: int = 5,
    workers: Sequence[int] = WORKERS,
    exponents: Sequence[float] = EXPONENTS,
    seed: int = 1,
) -> Iterator[Row]:
    """Yield one raw record per strategy, setting and repetition.

    Repetitions are the outermost loop and strategies the innermost: what disturbs the machine for
    a while disturbs all strategies alike, and `hash` runs beside each of them.
    """
    streams = {z: zipf_keys(z, n_keys, n_records, seed) for z in exponents}
    strategies = [registry.make(name) for name in names]
    for repetition in range(repetitions):
        for z, keys in streams.items():
            for n_workers in workers:
                for strategy in strategies:
                    cell = {"strategy": strategy.name, "workers": n_workers, "z": z}
                    took = _ns_per_record(strategy, keys, n_workers, seed)
                    about = {"repetition": repetition, "records": n_records}
                    yield cell | about | {"ns_per_record": took}


def _ns_per_record(strategy: AnyStrategy, keys: Keys, n_workers: int, seed: int) -> float:
    """Return the time of the second half of the stream: the first one warms up state and caches."""
    half = keys.size // 2
    out = np.empty(half, np.int32)
    state = strategy.start(n_workers, seed)
    strategy.route(keys[:half], state, out)
    begin = perf_counter_ns()
    strategy.route(keys[half : 2 * half], state, out)
    return (perf_counter_ns() - begin) / half


def median_ratios(records: Sequence[Row], to: str = "hash") -> dict[tuple[str, int, float], float]:
    """Return by (strategy, workers, z) the median over repetitions of the ratio to `to`."""
    cells = grouped(records, "strategy", "workers", "z")
    return {
        (name, n, z): statistics.median(
            ratios(mine, cells[to, n, z], lambda r: float(r["ns_per_record"]), "repetition")
        )
        for (name, n, z), mine in cells.items()
    }


def table_to_pkg(records: Sequence[Row], n_workers: int = 128) -> str:
    """Return the ratios to `pkg`, as the papers give them: a column per exponent."""
    found = median_ratios(records, to="pkg")
    exponents = sorted({r["z"] for r in records})
    rows = (
        [name, *(f"{found[name, n_workers, z]:.1f}" for z in exponents)]
        for name in grouped(records, "strategy")
    )
    return markdown(["strategy", *(f"z = {z}" for z in exponents)], rows)


def table(records: Sequence[Row], z: float) -> str:
    """Return the ratios at one exponent: a row per strategy, a column per number of workers."""
    found = median_ratios(records)
    workers = sorted({r["workers"] for r in records})
    rows = (
        [name, *(f"{found[name, n, z]:.1f}" for n in workers)]
        for name in grouped(records, "strategy")
    )
    return markdown(["strategy", *(f"n = {n}" for n in workers)], rows)


REPORT = Report(
    "grouping_cost.jsonl",
    {(BENCHMARKS, f"grouping cost z={z}"): partial(table, z=z) for z in EXPONENTS}
    | {(BENCHMARKS, "grouping cost to pkg"): table_to_pkg},
)


def main() -> None:
    """Measure what a routing decision costs; write the raw records and the tables."""
    names = registry.names()
    n_cells = len(names) * len(WORKERS) * len(EXPONENTS) * 5
    REPORT.write(track(measure(names, repetitions=5), "routing", total=n_cells))


if __name__ == "__main__":
    typer.run(main)
