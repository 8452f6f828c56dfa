"""Small streams whose records sleep, by `aggregate` on Spark and in the simulator.

A record that sleeps needs no core, so two cores do for sixteen workers. The second half of the
workers may be slow: a task whose partition has such a number sleeps longer. So the number pins what
is slow. On a cluster nothing does: Spark runs a partition on whichever slot is free, and a slow
machine then slows another worker in every micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from benchmarks.streams import write_files
from benchmarks.turns import batch_times, file_stream, run_to_end, throw_away
from skewless import registry
from skewless.aggregations import VectorAggregator
from skewless.arrays import Floats, Ints
from skewless.keys import hash_keys
from skewless.simulator.syncing import MicroBatches
from skewless.spark import aggregate
from skewless.spark.ledger import Ledger
from skewless.spark.ledger.names import WORKERS
from skewless.spark.routing.speeds import uses_speeds
from skewless.strategy import Merges, Rebalances
from skewless.workloads import Ranked

SEED = 3
#: A file is a source.
SETTINGS = {"spark.sql.files.openCostInBytes": str(1 << 30)}
#: Micro-batches after which plans on Spark know how long the workers took.
_KNOWN_AFTER = 3


@dataclass(frozen=True)
class Job:
    """A stream, and what its records take."""

    stream: Ranked
    n_records: int  # of a micro-batch
    n_workers: int = 16
    n_sources: int = 4
    record_s: float = 0.004
    slowed: float = 1.0  # how many times as long records take in the slow half
    told: bool = True  # whether plans use the times of the workers' reports

    @property
    def slower(self) -> Floats:
        """How many times as long a record takes each worker."""
        slow = np.arange(self.n_workers) >= self.n_workers // 2
        return np.where(slow, self.slowed, 1.0)

    def batches(self) -> Iterator[list[Ints]]:
        """Yield the keys of each source in each micro-batch, as ranks."""
        for keys in self.stream.ranks(SEED, self.n_records):
            yield [keys[source :: self.n_sources] for source in range(self.n_sources)]


class Found(NamedTuple):
    """What a run has done; the first three columns are about each record."""

    keys: Any  # hashes
    workers: Any
    batches: Any
    longest: Floats  # seconds of the worker that took longest, by micro-batch
    walls: list[float]  # seconds of each micro-batch, on Spark

    @property
    def work_seconds(self) -> float:
        """How long the work takes in all micro-batches but the first, which starts Python."""
        return float(self.longest[1:].sum())


class Sleeping(VectorAggregator):
    """Counts the records of a key; each record takes time."""

    inputs = ()
    state = "n bigint"
    result = "bigint"

    def __init__(self, job: Job) -> None:
        self.slower, self.record_s = job.slower, job.record_s

    def update(self, records: Any, keys: Any, n_keys: int) -> Any:
        """Count the records, for as long as this worker takes."""
        context = TaskContext.get()
        times = float(self.slower[0 if context is None else context.partitionId()])
        time.sleep(keys.size * self.record_s * times)
        return {"n": np.bincount(keys, minlength=n_keys)}

    def merge(self, states: Any, keys: Any, n_keys: int) -> Any:
        """Add the counts."""
        return {"n": np.bincount(keys, states["n"].to_numpy(), n_keys).astype(np.int64)}

    def finish(self, states: Any) -> Any:
        """Return the counts."""
        return states["n"]


def on_spark(spark: SparkSession, folder: Path, name: str, job: Job) -> Found:
    """Run a stream to its end; read what it did from the reports of its workers."""
    # A file for each source of each micro-batch.
    write_files(folder / "in", (pa.table({"key": k}) for batch in job.batches() for k in batch))
    spark.conf.set("spark.skewless.measuredSpeeds", str(job.told).lower())
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    ledger = str(folder / "ledger")
    counts = aggregate(
        file_stream(spark, "key long", folder / "in", job.n_sources),
        "key",
        {"n": Sleeping(job)},
        strategy=name,
        workers=job.n_workers,
        ledger=ledger,
        seed=SEED,
        mode="update",
    )
    written, walls = batch_times(lambda rows, batch: throw_away(rows))
    run_to_end(counts, folder, "update", written)
    keys, workers, batches, longest = [], [], [], []
    for batch in range(len(walls)):
        reports = dict(Ledger(ledger).reports(WORKERS, batch))
        longest.append(max(report.about["seconds"] for report in reports.values()))
        for worker, report in reports.items():
            counted = report.arrays["counted_records"]
            assert counted.sum() == report.about["records"], "a report lists too few keys"
            keys.append(np.repeat(report.arrays["counted"], counted))
            workers.append(np.full(keys[-1].size, worker))
            batches.append(np.full(keys[-1].size, batch))
    columns = [np.concatenate(parts) for parts in (keys, workers, batches)]
    return Found._make([*columns, np.array(longest), walls])


def simulated(name: str, job: Job) -> Found:
    """Route the same micro-batches of the same sources; each waits for its last worker."""
    strategy: Any = registry.make(name)
    merging = isinstance(strategy, (Merges, Rebalances))
    sources = MicroBatches(strategy, job.n_workers, SEED, merging=merging)
    keys, workers, batches, longest = [], [], [], []
    for number, batch in enumerate(job.batches()):
        hashed = [hash_keys(part) for part in batch]
        found = np.concatenate(sources.route(hashed))
        loads = np.bincount(found, minlength=job.n_workers)
        longest.append((loads * job.slower).max() * job.record_s)
        if job.told and number + 1 >= _KNOWN_AFTER and uses_speeds(strategy):
            strategy.observe(sources.plan, seconds_per_record=job.record_s * job.slower)
        keys.append(np.concatenate(hashed))
        workers.append(found)
        batches.append(np.full(found.size, number))
    columns = [np.concatenate(parts) for parts in (keys, workers, batches)]
    return Found._make([*columns, np.array(longest), []])
