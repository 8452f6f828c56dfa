"""Measure `aggregate` against plain Spark, `applyInPandas` and hand salting; write raw records.

Everything is a ratio inside one run: the jobs of a comparison take turns, and each record holds
the seconds of one job. The real streams are read from a folder; without it, streams are generated.
"""

from __future__ import annotations

import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.progress import track

from benchmarks.tables import AGGREGATE_SPEED, write_spark_tables
from skewless import aggregations as aggs
from skewless import workloads
from skewless.experiments.tables import read_records, write_records
from skewless.spark import aggregate, session

SALT = 8
WORKERS = 8


class Vwap(aggs.Aggregator[Any]):
    """As a user writes it: one key at a time, with numpy inside."""

    inputs = ("x", "w")
    state = "struct<a: double, b: double>"
    result = "double"

    def zero(self) -> Any:
        return {"a": 0.0, "b": 0.0}

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        x, w = (records[name].to_numpy(zero_copy_only=False) for name in self.inputs)
        return {"a": state["a"] + float((x * w).sum()), "b": state["b"] + float(w.sum())}

    def merge(self, a: Any, b: Any) -> Any:
        return {"a": a["a"] + b["a"], "b": a["b"] + b["b"]}

    def finish(self, state: Any) -> Any:
        return state["a"] / state["b"] if state["b"] else None


class VectorVwap(aggs.VectorAggregator):
    """The same over columns."""

    inputs = ("x", "w")
    state = "a double, b double"
    result = "double"

    def update(self, records: pa.RecordBatch, keys: Any, n_keys: int) -> Any:
        x, w = (records[name].to_numpy(zero_copy_only=False) for name in self.inputs)
        return {"a": np.bincount(keys, x * w, n_keys), "b": np.bincount(keys, w, n_keys)}

    def merge(self, states: pa.RecordBatch, keys: Any, n_keys: int) -> Any:
        return {name: np.bincount(keys, states[name].to_numpy(), n_keys) for name in "ab"}

    def finish(self, states: pa.RecordBatch) -> Any:
        a, b = states["a"].to_numpy(), states["b"].to_numpy()
        return pa.array(a / np.where(b == 0, 1, b), mask=b == 0)


READY: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "distinct": (lambda: aggs.distinct("v"), lambda: F.count_distinct("v")),
    "approximate distinct": (
        lambda: aggs.distinct("v", exact=False),
        lambda: F.approx_count_distinct("v", 0.05),
    ),
    "vwap": (lambda: aggs.vwap("x", "w"), lambda: F.sum(F.col("x") * F.col("w")) / F.sum("w")),
    "top 3": (lambda: aggs.top_k("x", 3), lambda: F.max_by("x", "x", 3)),
    "variance": (lambda: aggs.variance("x"), lambda: F.variance("x")),
}
OWN: dict[str, Callable[[], Any]] = {"own": Vwap, "own, over columns": VectorVwap}


def main(
    data: Annotated[Path | None, typer.Option(help="Folder with real streams, Parquet.")] = None,
    records: Annotated[int, typer.Option(help="At most so many records of a stream.")] = 3_000_000,
    repeats: Annotated[int, typer.Option(help="Turns of each comparison.")] = 3,
    slots: Annotated[int, typer.Option(help="Task slots of the local session.")] = 2,
    only: Annotated[str, typer.Option(help="Streams to take: a regular expression.")] = "",
    kinds: Annotated[str, typer.Option(help="Aggregations to take: the same.")] = "",
) -> None:
    """With `only` or `kinds`, what was measured before of others is kept."""
    settings = {"spark.sql.shuffle.partitions": str(WORKERS)}
    spark = session("aggregate", master=f"local[{slots}]", settings=settings)
    results: list[dict[str, Any]] = []
    if (only or kinds) and AGGREGATE_SPEED.exists():
        results = [
            record
            for record in read_records(AGGREGATE_SPEED)
            if not (re.search(only, record["stream"]) and re.search(kinds, record["aggregation"]))
        ]
    with tempfile.TemporaryDirectory() as name:
        for stream, path in streams(Path(name), data, records).items():
            if re.search(only, stream):
                df = spark.read.parquet(str(path))
                for measured in measure(stream, df, repeats, slots, kinds):
                    results += measured
                    if measured:  # of the warm-up nothing is kept, and nothing may be lost for it
                        write_records(AGGREGATE_SPEED, results)
    spark.stop()
    print(f"raw records: {AGGREGATE_SPEED}")
    write_spark_tables()


def measure(
    stream: str, df: DataFrame, repeats: int, slots: int, kinds: str
) -> Iterator[list[dict[str, Any]]]:
    """Run all jobs of a stream and yield a turn's records; the first turn warms up."""
    jobs: dict[tuple[str, str], Callable[[], DataFrame]] = {}
    for name, (ours, plain) in READY.items():
        jobs[name, "auto"] = lambda a=ours: aggregate(df, "k", {"r": a()}, workers=WORKERS)
        jobs[name, "plain"] = lambda p=plain: df.groupBy("k").agg(p().alias("r"))
    for name, own in OWN.items():
        jobs[name, "auto"] = lambda a=own: aggregate(df, "k", {"r": a()}, workers=WORKERS)
        jobs[name, "applyInPandas"] = lambda: in_pandas(df)
        jobs[name, "salted applyInPandas"] = lambda: salted(df)
    jobs = {place: job for place, job in jobs.items() if re.search(kinds, place[0])}
    told, n_records = Told(), df.count()
    for turn in track(range(-1, repeats), stream):
        answers: dict[str, dict[str, Any]] = {}
        results = []
        shared: dict[str, tuple[float, pa.Table]] = {}
        for (aggregation, job), make in jobs.items():
            # Both forms of the own aggregator have the same alternatives, which run once a turn.
            if job not in shared:
                begin = time.perf_counter()
                table = make().toArrow()
                seconds = time.perf_counter() - begin
                if "applyInPandas" in job:
                    shared[job] = seconds, table
            else:
                seconds, table = shared[job]
            require_equal(answers.setdefault(aggregation, {}), table)
            form = told.form if job == "auto" else ""
            if turn >= 0:
                results.append(
                    {
                        "stream": stream,
                        "aggregation": aggregation,
                        "job": job,
                        "form": form,
                        "turn": turn,
                        "seconds": seconds,
                        "slots": slots,
                        "records": n_records,
                    }
                )
        yield results
    told.end()


class Told(logging.Handler):
    """Keeps what `aggregate` logged last."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.form = ""
        self.logger = logging.getLogger("skewless")
        self.logger.addHandler(self)
        self.logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"aggregate: strategy '([\w-]+)'", record.getMessage())
        self.form = found[1] if found else self.form

    def end(self) -> None:
        self.logger.removeHandler(self)


def in_pandas(df: DataFrame) -> DataFrame:
    def vwap(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        size = rows["w"].sum()
        result = (rows["x"] * rows["w"]).sum() / size if size else None
        return pd.DataFrame({"k": [key[0]], "r": [result]})

    return df.select("k", "x", "w").groupBy("k").applyInPandas(vwap, "k string, r double")


def salted(df: DataFrame) -> DataFrame:
    def partial(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        above = (rows["x"] * rows["w"]).sum()
        return pd.DataFrame({"k": [key[0]], "a": [above], "b": [rows["w"].sum()]})

    salt = (F.rand(seed=1) * SALT).cast("int").alias("salt")
    parts = df.select("k", "x", "w", salt).groupBy("k", "salt")
    sums = parts.applyInPandas(partial, "k string, a double, b double")
    merged = sums.groupBy("k").agg(F.sum("a").alias("a"), F.sum("b").alias("b"))
    return merged.select("k", F.when(F.col("b") != 0, F.col("a") / F.col("b")).alias("r"))


def require_equal(answer: dict[str, Any], table: pa.Table) -> None:
    """Raise unless a job has the results of the first one of its comparison, but for rounding."""
    found = dict(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
    if not answer:
        answer.update(found)
    assert answer.keys() == found.keys()
    for key, value in found.items():
        if isinstance(value, float) and isinstance(answer[key], float):
            assert np.isclose(value, answer[key], rtol=1e-6, equal_nan=True), key
        else:
            assert value == answer[key], key


def streams(folder: Path, data: Path | None, n_records: int) -> dict[str, Path]:
    """Return files with key k, x and w as numbers, and v to count, four parts each."""
    found: dict[str, Path] = {}
    for path in sorted(data.glob("*.parquet")) if data else []:
        table = pq.read_table(path).slice(0, n_records)
        found[path.stem] = write(folder / path.stem, table.column("key"))
    zipf = {"10⁵ keys, even": (0.0, 100_000), "one key of 60 %": (None, 1_000)}
    for name, (z, n_keys) in zipf.items():
        if z is None:
            rng = np.random.default_rng(0)
            keys = np.where(rng.random(n_records) < 0.6, 0, rng.integers(0, n_keys, n_records))
        else:
            stream = workloads.make("zipf", z=z, n_keys=n_keys, n_records=n_records)
            keys = np.concatenate(list(stream.chunks(seed=0)))
        found[name] = write(folder / re.sub(r"\W", "-", name), pa.array(keys.astype(str)))
    return found


def write(folder: Path, keys: Any) -> Path:
    """Write records with these keys; numbers are multiples of 1/4, whose sums are exact."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    n = len(keys)
    table = pa.table(
        {
            "k": keys,
            "x": rng.integers(0, 4_000, n) / 4,
            "w": rng.integers(1, 100, n).astype(np.float64),
            "v": rng.integers(0, 5_000, n),
        }
    )
    size = -(-n // 4)
    for number in range(4):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
    return folder


if __name__ == "__main__":
    typer.run(main)
