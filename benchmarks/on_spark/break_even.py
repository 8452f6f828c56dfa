"""Compute which costs of a key per worker let routing by key pay; write the records and table.

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

from benchmarks.tables import BREAK_EVEN, write_break_even
from skewless import registry, workloads
from skewless.arrays import Keys, Workers
from skewless.experiments.on_spark.alternatives import OURS
from skewless.experiments.on_spark.break_even import PER_PAIR, best_other, costs_that_pay
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

N_RECORDS, N_KEYS, N_FILES = 2_000_000, 10_000, 8
#: Records of a job for each that is counted, where they are generated.
TIMES = 10
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
    records = keys.size * (TIMES if stream.startswith("Zipf") else 1)
    sizes = [part.size for part in np.array_split(keys, N_FILES)]
    sample = SampledKeys(keys, tuple(sizes))
    for slots in SLOTS:
        job = Job(sample, slots, slots, records)
        counted = {
            name: (np.bincount(workers, minlength=n), sample.pairs(workers, n))
            for name, (workers, n) in jobs(job).items()
        }
        last = len(PER_PAIR) - 1
        for per_record in PER_RECORD:
            times = []
            for per_pair in PER_PAIR:
                costs = Costs(per_record, per_pair)
                priced = Job(sample, slots, slots, records, costs)
                times.append(
                    {
                        name: priced.seconds(*found, MOVING.get(name, Moving.SHUFFLED)) or 0.0
                        for name, found in counted.items()
                    }
                )
            pays = costs_that_pay(times)
            yield {
                "stream": stream,
                "slots": slots,
                "per_record": per_record,
                "from": None if pays is None else PER_PAIR[pays[0]],
                "to": None if pays is None else PER_PAIR[pays[1]],
                # What is the best just outside.
                "below": None if pays is None else best_other(times[max(pays[0] - 1, 0)])[0],
                "above": None if pays is None else best_other(times[min(pays[1] + 1, last)])[0],
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
