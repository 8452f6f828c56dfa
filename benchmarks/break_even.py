"""Compute from which cost of a key per worker on routing by key pays; write the records and table.

Nothing is timed. The loads and (key, worker) pairs of each job are counted as `hot_keys` counts
them, and the costs are turned into seconds as it does. `spark_alternatives.py` measures some of
these cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from skewless import registry, workloads
from skewless.arrays import Keys, Workers
from skewless.experiments.alternatives import OURS
from skewless.experiments.break_even import PER_PAIR, best_other_before, first_that_pays
from skewless.experiments.tables import Row, write_records
from skewless.keys import hash_keys
from skewless.spark.diagnosis.alternatives import (
    LOCAL,
    ROUND_ROBIN,
    partition_of,
    round_robin,
    salted,
)
from skewless.spark.diagnosis.costs import Costs, Moving
from skewless.spark.diagnosis.predicting import BASELINE, Job, routed
from skewless.spark.diagnosis.sampled_keys import SampledKeys
from tables import BREAK_EVEN, write_break_even

N_RECORDS, N_KEYS, N_FILES = 400_000, 2_000, 8
SLOTS = (8, 32, 128)
PER_RECORD = (0.0, 5e-6, 50e-6, 500e-6)
MOVING = {LOCAL: Moving.NONE, ROUND_ROBIN: Moving.DEALT, OURS: Moving.ROUTED}


def main(
    data: Annotated[Path | None, typer.Option(help="A folder of Parquet files with `key`.")] = None,
) -> None:
    results = [row for name, keys in streams(data) for row in measured(name, keys)]
    write_records(BREAK_EVEN, results)
    print(f"raw records: {BREAK_EVEN}")
    write_break_even()


def streams(data: Path | None) -> Iterator[tuple[str, Keys]]:
    """Yield the key hashes of streams by name: Zipf, and the real ones in a folder."""
    for z in (0.6, 0.8, 1.0, 1.2, 1.4):
        workload = workloads.make("zipf", z=z, n_keys=N_KEYS, n_records=N_RECORDS)
        yield f"Zipf {z}", np.concatenate(list(workload.chunks(seed=0)))
    for file in sorted(data.glob("*.parquet")) if data else ():
        column = pq.read_table(file, columns=["key"]).slice(0, N_RECORDS).column("key")
        yield file.stem, hash_keys(pa.chunked_array(column))


def measured(stream: str, keys: Keys) -> Iterator[Row]:
    """Yield a raw record for each number of slots and cost of a record."""
    sizes = [part.size for part in np.array_split(keys, N_FILES)]
    sample = SampledKeys(keys, tuple(sizes))
    for slots in SLOTS:
        job = Job(sample, slots, slots, keys.size)
        counted = {
            name: (np.bincount(workers, minlength=n), sample.pairs(workers, n))
            for name, (workers, n) in jobs(job).items()
        }
        for per_record in PER_RECORD:
            times = []
            for per_pair in PER_PAIR:
                costs = Costs(per_record, per_pair)
                priced = Job(sample, slots, slots, keys.size, costs)
                times.append(
                    {
                        name: priced.seconds(*found, MOVING.get(name, Moving.SHUFFLED)) or 0.0
                        for name, found in counted.items()
                    }
                )
            first = first_that_pays(times)
            yield {
                "stream": stream,
                "slots": slots,
                "per_record": per_record,
                "per_pair": None if first is None else PER_PAIR[first],
                "before": best_other_before(times, first),
            }


def jobs(job: Job) -> dict[str, tuple[Workers, int]]:
    """Return where each job sends the records, and over how many tasks."""
    partitions, n_partitions = partition_of(job.sample)
    plain = {
        BASELINE: routed(job, registry.make(BASELINE)),
        ROUND_ROBIN: round_robin(job.sample, job.n_workers),
        **dict(salted(job.sample, job.n_workers)),
    }
    return {
        OURS: (routed(job, registry.make(OURS)), job.n_workers),
        **{name: (workers, job.n_workers) for name, workers in plain.items()},
        LOCAL: (partitions.astype(np.int32), n_partitions),
    }


if __name__ == "__main__":
    typer.run(main)
