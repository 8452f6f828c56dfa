"""Measure cascade-ahead against what a user could write instead; write raw records and the table.

Each job partitions the same records in its own way, then does the same work with them. The jobs of
a cell take turns, so that all numbers are ratios inside one run.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.progress import track

from skewless import workloads
from skewless.experiments.tables import write_records
from skewless.spark import hot_keys, route, session
from tables import ALTERNATIVES, write_alternatives

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
SALTS = (2, 4, 8, 16, 32)
N_FILES = 8
_SCHEMA = pa.schema([("records", pa.int64()), ("keys", pa.int64())])


@dataclass(frozen=True)
class Case:
    """Some work: what a record costs, and what a key costs on each worker that has it."""

    name: str
    per_record: float
    per_pair: float
    records: int
    slots: tuple[int, ...]
    waits: bool  # for something outside; else it computes


CASES = (
    Case("computing, 5 µs per record", 5e-6, 0.0, 1_000_000, (2,), waits=False),
    Case("computing, 20 µs per record", 20e-6, 0.0, 400_000, (2,), waits=False),
    Case("computing, 100 µs per record", 100e-6, 0.0, 100_000, (2,), waits=False),
    Case("an outside call, 100 µs per record", 100e-6, 0.0, 400_000, (8, 32), waits=True),
    Case("a model per key: 5 ms, and 50 µs per record", 50e-6, 5e-3, 400_000, (8, 32), waits=True),
    Case("a file per key: 20 ms, and 5 µs per record", 5e-6, 20e-3, 400_000, (32,), waits=True),
)


def main(
    repeats: Annotated[int, typer.Option(help="Turns of each comparison.")] = 3,
    data: Annotated[Path | None, typer.Option(help="A folder of Parquet files with `key`.")] = None,
    only: Annotated[str, typer.Option(help="Cases whose name has this text.")] = "",
    most: Annotated[int, typer.Option(help="Records of a stream, at most.")] = 1 << 30,
) -> None:
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for case in CASES:
            if only not in case.name:
                continue
            streams = dict(written_streams(Path(name), min(case.records, most), data))
            for slots in case.slots:
                spark = session("alternatives", master=f"local[{slots}]")
                for stream, path in streams.items():
                    df = spark.read.parquet(str(path)).cache()
                    df.count()
                    results += measured(case, stream, df, slots, repeats)
                    df.unpersist()
                spark.stop()
            shutil.rmtree(name)
            Path(name).mkdir()
    write_records(ALTERNATIVES, results)
    print(f"raw records: {ALTERNATIVES}")
    write_alternatives()


def written_streams(folder: Path, n_records: int, data: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield streams by name: Zipf, and the real ones in a folder."""
    for z in (0.0, 1.0, 1.4):
        workload = workloads.make("zipf", z=z, n_keys=2_000, n_records=n_records)
        keys = np.concatenate(list(workload.chunks(seed=0)))
        yield f"Zipf {z}", write_files(folder / f"zipf-{z}", pa.array(keys.astype(str)))
    for file in sorted(data.glob("*.parquet")) if data else ():
        table = pq.read_table(file, columns=["key"]).slice(0, n_records)
        yield file.stem, write_files(folder / file.stem, table.column("key"))


def write_files(folder: Path, keys: Any) -> Path:
    """Write the keys in their order, as files of equal size."""
    folder.mkdir()
    size = -(-len(keys) // N_FILES)
    for number in range(N_FILES):
        part = keys[number * size : (number + 1) * size]
        pq.write_table(pa.table({"key": part}), folder / f"{number}.parquet")
    return folder


def measured(
    case: Case, stream: str, df: DataFrame, slots: int, repeats: int
) -> list[dict[str, Any]]:
    """Return the raw records of one cell."""
    work = waiting(case) if case.waits else computing(case)
    predicted = hot_keys(
        df,
        "key",
        workers=slots,
        strategies=["cascade-ahead", "cascade", "pd-stream"],
        per_record=case.per_record,
        per_pair=case.per_pair,
    ).fastest
    jobs = jobs_of(df, slots)
    run(jobs["cascade"](), work)  # starts the Python workers of all slots
    results = []
    turns = [(turn, job) for turn in range(repeats) for job in jobs]
    for turn, job in track(turns, f"{case.name}, {stream}, {slots} slots"):
        seconds, n_records, n_pairs = run(jobs[job](), work)
        results.append(
            {
                "case": case.name,
                "stream": stream,
                "slots": slots,
                "job": job,
                "turn": turn,
                "seconds": seconds,
                "records": n_records,
                "pairs": n_pairs,
                "predicted": predicted.strategy if predicted else None,
            }
        )
    return results


def jobs_of(df: DataFrame, slots: int) -> dict[str, Callable[[], DataFrame]]:
    """Return the ways to partition the records, each as a function."""

    def salted(n_salts: int) -> DataFrame:
        salt = (F.rand(seed=1) * n_salts).cast("int")
        return df.withColumn("salt", salt).repartition(slots, "key", "salt").drop("salt")

    return {
        "hash": lambda: df.repartition(slots, "key"),
        "round-robin": lambda: df.repartition(slots),
        **{
            f"salt-{n_salts}": lambda n_salts=n_salts: salted(n_salts)
            for n_salts in SALTS
            if n_salts <= slots
        },
        "local": lambda: df,
        "pd-stream": lambda: route(df, "key", strategy="pd-stream", workers=slots, seed=0),
        "cascade": lambda: route(df, "key", strategy="cascade", workers=slots, seed=0),
        "cascade-ahead": lambda: route(df, "key", strategy="cascade-ahead", workers=slots, seed=0),
    }


def run(df: DataFrame, work: Work) -> tuple[float, int, int]:
    """Run the job; return its seconds, and how many records and (key, worker) pairs it saw."""
    begin = time.perf_counter()
    rows = df.select("key").mapInArrow(work, "records bigint, keys bigint").toArrow()
    seconds = time.perf_counter() - begin
    return seconds, sum(rows["records"].to_pylist()), sum(rows["keys"].to_pylist())


def waiting(case: Case) -> Work:
    """Return work that waits, for each record and for each key that is new to the task."""
    per_record, per_pair, schema = case.per_record, case.per_pair, _SCHEMA

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: set[str] = set()
        n_records = 0
        for batch in batches:
            before = len(known)
            known.update(batch.column(0).unique().to_pylist())
            n_records += batch.num_rows
            time.sleep(batch.num_rows * per_record + (len(known) - before) * per_pair)
        yield pa.RecordBatch.from_pylist([{"records": n_records, "keys": len(known)}], schema)

    return work


def computing(case: Case) -> Work:
    """Return work that computes as long for each record, by as many rounds as that takes here."""
    rounds, schema = rounds_for(case.per_record), _SCHEMA

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import zlib

        known: set[str] = set()
        n_records = 0
        block = b"x" * 1024
        for batch in batches:
            for key in batch.column(0).to_pylist():
                known.add(key)
                sum_ = 0
                for _ in range(rounds):
                    sum_ = zlib.crc32(block, sum_)
            n_records += batch.num_rows
        yield pa.RecordBatch.from_pylist([{"records": n_records, "keys": len(known)}], schema)

    return work


def rounds_for(seconds: float) -> int:
    """Return how many checksums of a kilobyte take so long on this machine."""
    import zlib

    block, n = b"x" * 1024, 20_000
    begin = time.process_time()
    for _ in range(n):
        zlib.crc32(block)
    return max(1, round(seconds * n / (time.process_time() - begin)))


if __name__ == "__main__":
    typer.run(main)
