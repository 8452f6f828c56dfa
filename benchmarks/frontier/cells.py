"""The cells of the frontier, and what is measured in each.

A cell is a stream with a number of workers and sources. Four groups of cells: `grid` (Zipf, from
no skew to strong skew), `sources` (many that exchange nothing), `real` (drift, and traces from a
folder) and `speeds` (workers that differ). One raw record per cell and strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Row
from skewless import registry
from skewless.diagnosis.ways import SampledKeys
from skewless.simulator import Cluster, simulate
from skewless.strategy import Rescales
from skewless.workloads import EvolvingZipf, Trace, Workload, Zipf

GROUPS = ("grid", "sources", "real", "speeds")
HIGH_SKEW = (1.2, 1.4, 1.6, 1.8, 2.0)
LOW_SKEW = (0.0, 0.5, 0.8, 1.0)
GRID_WORKERS = (128, 32, 64, 16)  # the most important first, in case time is short
REAL_WORKERS = (128, 64, 16)
SEED = 1
#: Cascade has to meet its budget with each of them; all else is measured with the first.
BUDGET_SEEDS = (1, 2, 3)
MANY_SOURCES = 32
FOR_MANY_SOURCES = ("cascade", "cascade-ahead", "w-choices", "pd-stream", "fish")
N_KEYS = 10_000_000
N_RECORDS = 10_000_000
DRIFTING = EvolvingZipf(z=1.4, n_keys=100_000, n_records=2_000_000, period=500_000)
N_RECORDS_SPEEDS = 2_000_000
#: Their controllers plan by key, which takes up to seconds per window where there are many keys.
#: In these groups they get this many records instead, and `shorter` in their records says so.
SHORTER: dict[str, dict[str, int]] = {
    "mixed": {"grid": 200_000, "speeds": 1_000_000},
    "min-table": {"grid": 200_000, "speeds": 1_000_000},
    "min-mig": {"grid": 200_000, "speeds": 1_000_000},
    "simple": {"grid": 200_000, "speeds": 200_000},
    "mixed-bf": {"grid": 100_000, "speeds": 100_000, "real": 500_000},
    "readj": {"grid": 100_000, "speeds": 100_000, "real": 500_000},
}


@dataclass(frozen=True)
class Cell:
    """One stream through one strategy."""

    group: str
    stream: str  # "zipf", "evolving-zipf", or the name of a trace
    z: float | None
    workers: int
    sources: int
    seed: int
    strategy: str

    @property
    def limit(self) -> int | None:
        """At most this many records, or None where the strategy gets them all."""
        return SHORTER.get(self.strategy, {}).get(self.group)

    def workload(self, data: Path | None = None) -> Workload:
        """Return the stream; traces are files in the folder `data`."""
        if self.stream == "zipf":
            most = N_RECORDS_SPEEDS if self.group == "speeds" else N_RECORDS
            n_records = most if self.limit is None else min(most, self.limit)
            return Zipf(z=self.z or 0.0, n_keys=N_KEYS, n_records=n_records)
        if self.stream == DRIFTING.name:
            return DRIFTING if self.limit is None else replace(DRIFTING, n_records=self.limit)
        if data is None:
            raise ValueError(f"data must be the folder of {self.stream}.parquet, not None")
        return Trace(path=str(data / f"{self.stream}.parquet"), key=("key",), limit=self.limit)


def cell_of(record: Row) -> Cell:
    return Cell(**{field.name: record[field.name] for field in fields(Cell)})


def cells(names: Sequence[str], traces: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of these strategies, those that matter most and cost least first."""
    for name in names:
        registry.get(name)  # refuses a name that it does not know
    chosen = _all(names, traces)
    return sorted(
        chosen, key=lambda cell: (cell.strategy in SHORTER, cell.workers not in (128, 32))
    )


def _all(names: Sequence[str], traces: Sequence[str]) -> Iterator[Cell]:
    for z in (*HIGH_SKEW, *LOW_SKEW):
        for n in GRID_WORKERS:
            for name in names:
                yield Cell("grid", "zipf", z, n, 1, SEED, name)
            if z in HIGH_SKEW and "cascade" in names:
                for seed in BUDGET_SEEDS[1:]:
                    yield Cell("grid", "zipf", z, n, 1, seed, "cascade")
    for z in (1.4, 2.0):
        for name in names:
            if name in FOR_MANY_SOURCES:
                yield Cell("sources", "zipf", z, 128, MANY_SOURCES, SEED, name)
    for stream in (DRIFTING.name, *traces):
        for n in REAL_WORKERS:
            for name in names:
                z_of = DRIFTING.z if stream == DRIFTING.name else None
                yield Cell("real", stream, z_of, n, 4, SEED, name)
    for z in (1.0, 1.4):
        for name in names:
            if isinstance(registry.make(name), Rescales):
                yield Cell("speeds", "zipf", z, 64, 1, SEED, name)


def measure(todo: Iterable[Cell], data: Path | None = None) -> Iterator[Row]:
    """Yield one raw record per cell; neighbours with the same stream share it."""
    last: tuple[Workload, int] | None = None
    for cell in todo:
        workload = cell.workload(data)
        if last != (workload, cell.seed):
            kept = SampledKeys(np.concatenate(list(workload.chunks(cell.seed))))
            last = workload, cell.seed
        twice_as_fast = [1.0 + worker % 2 for worker in range(cell.workers)]  # half of them
        run = simulate(
            registry.make(cell.strategy),
            kept,
            n_workers=cell.workers,
            n_sources=cell.sources,
            seed=cell.seed,
            cluster=Cluster(twice_as_fast if cell.group == "speeds" else None),
            # Balance is judged over the whole stream, or by windows.
            horizon=kept.keys.size if cell.group in ("grid", "sources") else 0,
        )
        about = {"group": cell.group, "stream": cell.stream, "z": cell.z, **run.summary()}
        yield about | {"workload": workload.name, "shorter": run.n_records == cell.limit}


def in_order(records: Iterable[Row]) -> list[Row]:
    """Return the records in an order that does not depend on when each was measured."""
    place = {name: i for i, name in enumerate((*GROUPS, *registry.names()))}

    def key(record: Row) -> tuple[Any, ...]:
        z = -1.0 if record["z"] is None else record["z"]
        cell = (record["stream"], z, record["workers"], record["sources"], record["seed"])
        return (place[record["group"]], *cell, place[record["strategy"]])

    return sorted(records, key=key)
