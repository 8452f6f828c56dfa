"""Keyed state that moves, on Mixed's generator: balance, throughput, moves, other workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from skewless.arrays import Workers
from skewless.experiments.tables import Row, markdown
from skewless.metrics import imbalance
from skewless.simulator import simulate
from skewless.strategies import Mixed
from skewless.workloads import FluctuatingZipf

SEED = 0
Z, F = 0.85, 1.0
#: How many micro-batches the state of a key reaches back, as in the paper (w).
STATE_BATCHES = 5
#: Micro-batches between two changes of the keys' frequencies.
CHANGES_EVERY = 3
#: The worker that becomes slow, and how many times its work takes then.
SLOW_WORKER, SLOWED = 3, 2.0
#: Within this many micro-batches after an event, balance must be back.
RECOVERY = 3


@dataclass(frozen=True)
class Size:
    """How large a measurement is."""

    n_workers: int = 16
    n_keys: int = 100_000
    n_records: int = 240_000  # of a micro-batch
    n_batches: int = 12
    work_us: float = 100.0  # of a record

    @property
    def event(self) -> int:
        """The micro-batch from which on a worker is slow, or in which others join."""
        return self.n_batches // 3


#: For a trial that takes less than three minutes, even on a slow machine.
SMALL = Size(n_workers=8, n_keys=5_000, n_records=16_000, n_batches=6)


@dataclass(frozen=True)
class Scenario:
    """What happens during a stream, and by which strategy keys are placed."""

    name: str
    strategy: str
    f: float = 0.0
    cost: str = "records"
    slows: bool = False
    joins: bool = False  # half of the workers are there only after the event

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.name}, {self.strategy}"


SCENARIOS = (
    Scenario("fluctuation", "hash", f=F),
    Scenario("fluctuation", "mixed", f=F),
    Scenario("slow worker", "hash", cost="seconds", slows=True),
    Scenario("slow worker", "mixed", cost="seconds", slows=True),
    Scenario("new workers", "mixed", joins=True),
)


class PlacedZipf(FluctuatingZipf):
    """Mixed's generator for keys whose first workers are given: those that a query has on Spark."""

    first_workers: ClassVar[Workers]  # of each key, set by `stream`

    def first_owners(self, seed: int) -> Workers:
        """Return the given workers."""
        return self.first_workers


def stream(size: Size, f: float, first_workers: Workers | None = None) -> FluctuatingZipf:
    """Return the keys of all micro-batches; without `first_workers`, as the simulator has them."""
    settings: dict[str, Any] = {
        "z": Z,
        "n_keys": size.n_keys,
        "n_records": size.n_records * size.n_batches,
        "interval": size.n_records * CHANGES_EVERY,
        "f": f,
        "n_workers": size.n_workers,
    }
    if first_workers is None:
        return FluctuatingZipf(**settings)
    placed = type("PlacedZipf", (PlacedZipf,), {"first_workers": first_workers})
    found: FluctuatingZipf = placed(**settings)
    return found


def measure_simulated(size: Size) -> Iterator[Row]:
    """Yield a raw record for each micro-batch of the simulator, in which Mixed moves keys."""
    run = simulate(
        Mixed(),
        stream(size, F),
        n_workers=size.n_workers,
        window=size.n_records,
        seed=SEED,
        state_windows=STATE_BATCHES,
    )
    moved = {one.window + 1: one.moved_share for one in run.rebalances}
    for batch, found in enumerate(run.by_window()["window_imbalance"]):
        yield {
            "scenario": "simulator",
            "strategy": "mixed",
            "batch": batch,
            "imbalance": found,
            "moved": moved.get(batch, 0.0),
        }


def record(
    scenario: Scenario,
    batch: int,
    event: int,
    *,
    loads: Sequence[float],
    seconds: Sequence[float],
    wall: float,
    moved: float,
    planned: float,
) -> Row:
    """Return the raw record of one micro-batch on Spark.

    Parameters
    ----------
    scenario, batch, event
        What ran, the micro-batch, and the one in which something happens.
    loads, seconds
        The records of each worker, and how long it worked on them.
    wall
        Seconds of the whole micro-batch.
    moved
        The share of the state that moved.
    planned
        The imbalance that the plan has for the loads that it was made from.
    """
    return {
        "scenario": scenario.name,
        "strategy": scenario.strategy,
        "batch": batch,
        "event": event,
        "loads": list(loads),
        "seconds": list(seconds),
        "wall": wall,
        "moved": moved,
        "planned": planned,
        "imbalance": imbalance(seconds if scenario.cost == "seconds" else loads),
    }


def table(records: Sequence[Row]) -> str:
    """Return one line per scenario and strategy, one of the simulator, and how large it was."""
    rows = []
    for scenario, strategy in dict.fromkeys((r["scenario"], r["strategy"]) for r in records):
        mine = [r for r in records if (r["scenario"], r["strategy"]) == (scenario, strategy)]
        changed = [r for r in mine[1:] if _is_disturbed(r)]
        calm = [r for r in mine[1:] if not _is_disturbed(r)]
        rows.append(
            [
                f"{scenario}, {strategy}",
                _mean(changed, "imbalance"),
                _mean(calm, "imbalance"),
                _mean(mine[1:], "planned"),
                _throughput(records, mine, strategy),
                _share(mine[1:]),
                _recovered(mine),
            ]
        )
    headings = (
        "stream",
        "imbalance when loads change",
        "imbalance otherwise",
        "imbalance of plans",
        "throughput / hash",
        "state moved by a plan",
        "recovers after",
    )
    sizes = {round(sum(r["loads"])) for r in records if "loads" in r}
    text = " or ".join(f"{size:,}" for size in sorted(sizes))
    return f"{markdown(headings, rows)}\n\nRecords in a micro-batch: {text or 'none'}."


def _is_disturbed(row: Row) -> bool:
    """Return whether loads are new in this micro-batch, so that no plan can know them."""
    if "event" in row and row["scenario"] != "fluctuation":
        return bool(row["event"] <= row["batch"] < row["event"] + RECOVERY)
    return bool(row["batch"] % CHANGES_EVERY == 0)


def _mean(rows: Sequence[Row], name: str) -> str:
    values = [row[name] for row in rows if name in row]
    return f"{fmean(values):.3f}" if values else ""


def _share(rows: Sequence[Row]) -> str:
    return f"{100 * fmean(row['moved'] for row in rows):.2f} %" if rows else ""


def _throughput(records: Sequence[Row], mine: Sequence[Row], strategy: str) -> str:
    """Return the records per second of micro-batches as a ratio to hash on the same stream.

    From the second micro-batch on: the first one starts Python, and nothing is planned yet.
    """
    others = [
        r for r in records if r["scenario"] == mine[0]["scenario"] and r["strategy"] == "hash"
    ]
    if strategy == "hash" or not others or "wall" not in mine[0]:
        return ""
    ours, theirs = (sum(r["wall"] for r in some[1:]) for some in (mine, others))
    longest = [sum(max(r["seconds"]) for r in some[1:]) for some in (mine, others)]
    return f"{theirs / ours:.2f} (work alone {longest[1] / longest[0]:.2f})"


def _recovered(mine: Sequence[Row]) -> str:
    """Return after how many micro-batches balance is what it was before the event, or nearly."""
    if "event" not in mine[0] or mine[0]["scenario"] == "fluctuation":
        return ""
    event = mine[0]["event"]
    before = [r["imbalance"] for r in mine[1:event]]
    limit = 1.25 * max(before, default=0.0) + Mixed().tolerance
    for row in mine[event:]:
        if row["imbalance"] <= limit:
            return f"{row['batch'] - event} micro-batches"
    return "not"
