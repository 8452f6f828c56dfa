"""Measure cascade-ahead against what a user could write instead; write raw records and the table.

Each job partitions the same records in its own way, then does the same work with them. The jobs of
a cell take turns, so that all numbers are ratios inside one run. The raw records of a cell replace
those of an earlier run; other cells stay as they are (`--only` measures some cases). The case with
a real server needs `redis-server` in the path, and is left out where there is none.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.progress import track

from benchmarks.tables import ALTERNATIVES, write_alternatives
from skewless import workloads
from skewless.experiments.tables import Row, read_records, write_records
from skewless.spark import hot_keys, route, session

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
SALTS = (2, 4, 8, 16, 32)
N_FILES = 8
WITHIN_S = 10.0  # a server of Redis starts in less than one
_SCHEMA = pa.schema([("records", pa.int64()), ("keys", pa.int64())])
_SKETCH = 32_768  # bytes of a partial result


@dataclass(frozen=True)
class Case:
    """Some work: what a record costs, and what a key costs on each worker that has it.

    A task waits for something outside, computes, calls a server, or makes a partial result for
    each key, which is shuffled and merged afterwards. What calls and partial results cost is
    measured here, for `hot_keys` to predict with.
    """

    name: str
    per_record: float
    per_pair: float
    records: int
    slots: tuple[int, ...]
    kind: Literal["waits", "computes", "calls", "sketches"]
    n_keys: int = 2_000  # of the generated streams


CASES = (
    Case("computing, 5 µs per record", 5e-6, 0.0, 1_000_000, (2,), "computes"),
    Case("computing, 20 µs per record", 20e-6, 0.0, 400_000, (2,), "computes"),
    Case("computing, 100 µs per record", 100e-6, 0.0, 100_000, (2,), "computes"),
    Case("a call to Redis per record", 0.0, 0.0, 300_000, (8,), "calls"),
    Case("an outside call, 100 µs per record", 100e-6, 0.0, 400_000, (8, 32), "waits"),
    Case("a partial result of 32 KB per key", 1e-6, 0.0, 200_000, (8,), "sketches"),
    Case("a model per key: 5 ms, and 50 µs per record", 50e-6, 5e-3, 400_000, (8, 32), "waits"),
    Case(
        "a model per key: 5 ms, and 50 µs per record; 10,000 keys",
        50e-6,
        5e-3,
        800_000,
        (16,),
        "waits",
        n_keys=10_000,
    ),
)


def main(
    repeats: Annotated[int, typer.Option(help="Turns of each comparison.")] = 3,
    data: Annotated[Path | None, typer.Option(help="A folder of Parquet files with `key`.")] = None,
    only: Annotated[str, typer.Option(help="Cases whose name has this text.")] = "",
    most: Annotated[int, typer.Option(help="Records of a stream, at most.")] = 1 << 30,
) -> None:
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        port = stack.enter_context(redis())
        for case in CASES:
            if only not in case.name or (case.kind == "calls" and port is None):
                continue
            n_records = min(case.records, most)
            streams = dict(written_streams(Path(name), n_records, case.n_keys, data))
            for slots in case.slots:
                spark = session("alternatives", master=f"local[{slots}]")
                job: Job | None = None
                for stream, path in streams.items():
                    df = spark.read.parquet(str(path)).cache()
                    df.count()
                    job = job or Job.of(case, port, df, slots)  # by the first stream, which is even
                    keep(measured(job, stream, df, slots, repeats))
                    df.unpersist()
                spark.stop()
            shutil.rmtree(name)
            Path(name).mkdir()
    print(f"raw records: {ALTERNATIVES}")
    write_alternatives()


def keep(cell: list[Row]) -> None:
    """Write the raw records of a cell in place of those that are there, in the order of `CASES`."""
    there = read_records(ALTERNATIVES) if ALTERNATIVES.exists() else []
    same = ("case", "stream", "slots")
    others = [one for one in there if any(one[name] != cell[0][name] for name in same)]
    order = {case.name: place for place, case in enumerate(CASES)}
    kept = sorted(
        [*others, *cell],
        key=lambda one: (order.get(one["case"], len(order)), one["slots"], one["stream"]),
    )
    write_records(ALTERNATIVES, kept)


def written_streams(
    folder: Path, n_records: int, n_keys: int, data: Path | None
) -> Iterator[tuple[str, Path]]:
    """Yield streams by name: Zipf, and the real ones in a folder."""
    for z in (0.0, 1.0, 1.4):
        workload = workloads.make("zipf", z=z, n_keys=n_keys, n_records=n_records)
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


@dataclass(frozen=True)
class Job:
    """A case on this machine: its work, and what that costs."""

    case: Case
    work: Work
    per_record: float
    per_pair: float

    @classmethod
    def of(cls, case: Case, port: int | None, even: DataFrame, slots: int) -> Job:
        """Return the job; costs that are not given are measured on a stream of even keys."""
        if case.kind == "waits":
            return cls(case, waiting(case), case.per_record, case.per_pair)
        if case.kind == "computes":
            return cls(case, computing(case), case.per_record, 0.0)
        if case.kind == "calls":
            assert port is not None
            work = calling(port)
            return cls(case, work, seconds_of_a_call(port), 0.0)
        job = cls(case, sketching(), case.per_record, 0.0)
        few, many = (
            [job.run(jobs_of(even, slots)[name]()) for _ in range(2)][1]
            for name in ("hash", "round-robin")
        )
        per_pair = max(0.0, slots * (many[0] - few[0]) / (many[2] - few[2]))
        return cls(case, job.work, case.per_record, per_pair)

    def run(self, df: DataFrame) -> tuple[float, int, int]:
        """Run it; return its seconds, and how many records and (key, worker) pairs it saw."""
        begin = time.perf_counter()
        keys = df.select("key")
        if self.case.kind == "sketches":
            partial = keys.mapInArrow(self.work, "key string, records bigint, sketch binary")
            merged = partial.groupBy("key").agg(
                F.sum("records").alias("records"),
                F.count("*").alias("keys"),
                F.max("sketch").alias("sketch"),
            )
            rows = merged.agg(F.sum("records"), F.sum("keys"), F.max(F.length("sketch")))
            n_records, n_pairs, _ = rows.first() or (0, 0, 0)
            return time.perf_counter() - begin, int(n_records), int(n_pairs)
        rows = keys.mapInArrow(self.work, "records bigint, keys bigint").toArrow()
        seconds = time.perf_counter() - begin
        return seconds, sum(rows["records"].to_pylist()), sum(rows["keys"].to_pylist())


def measured(job: Job, stream: str, df: DataFrame, slots: int, repeats: int) -> list[Row]:
    """Return the raw records of one cell."""
    case = job.case
    predicted = hot_keys(
        df,
        "key",
        workers=slots,
        strategies=["cascade-ahead", "cascade", "pd-stream"],
        per_record=job.per_record,
        per_pair=job.per_pair,
    ).fastest
    jobs = jobs_of(df, slots)
    job.run(jobs["cascade"]())  # starts the Python workers of all slots
    results = []
    # Backwards in every second turn: a machine that becomes busy hits others.
    turns = [(turn, name) for turn in range(repeats) for name in list(jobs)[:: 1 - 2 * (turn % 2)]]
    for turn, name in track(turns, f"{case.name}, {stream}, {slots} slots"):
        seconds, n_records, n_pairs = job.run(jobs[name]())
        results.append(
            {
                "case": case.name,
                "stream": stream,
                "slots": slots,
                "job": name,
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


def sketching() -> Work:
    """Return work that makes a partial result for each key of the task."""
    size = _SKETCH

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: dict[str, int] = {}
        for batch in batches:
            for count in batch.column(0).value_counts().to_pylist():
                counts[count["values"]] = counts.get(count["values"], 0) + count["counts"]
        keys = list(counts)
        for begin in range(0, len(keys), 1000):
            some = keys[begin : begin + 1000]
            sketches = [key.encode()[:size].ljust(size, b"0") for key in some]
            columns = [pa.array(some), pa.array([counts[key] for key in some]), pa.array(sketches)]
            yield pa.RecordBatch.from_arrays(columns, ["key", "records", "sketch"])

    return work


@contextlib.contextmanager
def redis() -> Iterator[int | None]:
    """Start a server of Redis on this machine alone; yield its port, None without one."""
    program = shutil.which("redis-server")
    if program is None:
        print("redis-server was not found: the case that calls it is left out")
        yield None
        return
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        wait_for(server, port)
        yield port
    finally:
        server.terminate()
        server.wait()


def wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    """Return when the server answers; end the program if it has ended, or takes too long."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), connection(port):
            return
        if server.poll() is not None:
            raise SystemExit(f"redis-server ended with exit code {server.returncode} as it started")
        time.sleep(0.05)
    raise SystemExit(f"redis-server did not answer on port {port} within {WITHIN_S:g} s")


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def calling(port: int) -> Work:
    """Return work that counts each record in Redis, and waits for each answer."""
    schema = _SCHEMA

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import socket

        known: set[str] = set()
        n_records = 0
        server = socket.create_connection(("127.0.0.1", port))
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with server:
            for batch in batches:
                for key in batch.column(0).to_pylist():
                    known.add(key)
                    name = key.encode()
                    server.sendall(b"*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n" % (len(name), name))
                    answer = server.recv(64)
                    assert answer.startswith(b":"), answer
                n_records += batch.num_rows
        yield pa.RecordBatch.from_pylist([{"records": n_records, "keys": len(known)}], schema)

    return work


def seconds_of_a_call(port: int) -> float:
    """Return how long one call takes, from one connection."""
    batch = pa.RecordBatch.from_pydict({"key": ["a"] * 5_000})
    begin = time.perf_counter()
    list(calling(port)(iter([batch])))
    return (time.perf_counter() - begin) / batch.num_rows


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
