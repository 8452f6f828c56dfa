"""Measure `aggregate` against plain Spark, `applyInPandas` and hand salting; write raw records.

Everything is a ratio inside one run: the jobs of a comparison take turns, and each record holds
the seconds of one job. The real streams are read from a folder; without it, streams are generated.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.records import (
    BENCHMARKS,
    Report,
    Row,
    grouped,
    markdown,
    ratios,
    seconds,
    times,
    write_records,
)
from benchmarks.streams import cut, real_streams, write_files, zipf_keys
from benchmarks.turns import in_turns, spark_and_folder, timed
from skewless import aggregations as aggs
from skewless.cli.option import option
from skewless.spark import aggregate

AUTO = "auto"
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


def measure(
    stream: str, df: DataFrame, repeats: int, slots: int, kinds: str
) -> Iterator[list[Row]]:
    """Run all jobs of a stream and yield a turn's records; the first turn warms up."""
    jobs: dict[tuple[str, str], Callable[[], DataFrame]] = {}
    for name, (ours, plain) in READY.items():
        jobs[name, AUTO] = partial(aggregate, df, "k", {"r": ours()}, workers=WORKERS)
        jobs[name, "plain"] = partial(df.groupBy("k").agg, plain().alias("r"))
    for name, own in OWN.items():
        jobs[name, AUTO] = partial(aggregate, df, "k", {"r": own()}, workers=WORKERS)
        # Both forms of the own aggregator have the same alternatives, which run once a turn.
        jobs[name, "applyInPandas"] = partial(in_pandas, df)
        jobs[name, "salted applyInPandas"] = partial(salted, df)
    jobs = {place: job for place, job in jobs.items() if re.search(kinds, place[0])}
    told, n_records = Told(), df.count()
    results: dict[int, list[Row]] = {}
    shared: dict[tuple[int, str], tuple[float, pa.Table]] = {}
    answers: dict[str, dict[str, Any]] = {}
    for turn, (aggregation, job) in in_turns(jobs, repeats, stream, first=-1):
        found = shared.get((turn, job)) or timed(lambda run=jobs[aggregation, job]: run().toArrow())
        if "applyInPandas" in job:
            shared[turn, job] = found
        require_equal(answers.setdefault(aggregation, {}), found[1])
        about = {"stream": stream, "aggregation": aggregation, "job": job}
        about["form"] = told.form if job == AUTO else ""
        took = {"turn": turn, "seconds": found[0], "slots": slots, "records": n_records}
        results.setdefault(turn, []).append(about | took)
        if turn >= 0 and len(results[turn]) == len(jobs):
            yield results[turn]
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
    def summed(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        above = (rows["x"] * rows["w"]).sum()
        return pd.DataFrame({"k": [key[0]], "a": [above], "b": [rows["w"].sum()]})

    salt = (F.rand(seed=1) * SALT).cast("int").alias("salt")
    parts = df.select("k", "x", "w", salt).groupBy("k", "salt")
    sums = parts.applyInPandas(summed, "k string, a double, b double")
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


def streams(folder: Path, data: Path | None, n_records: int) -> Iterator[tuple[str, Path]]:
    """Yield files with key k, x and w as numbers, and v to count, four parts each."""
    for name, keys in real_streams(data, n_records):
        yield name, write(folder / name, keys)
    even = zipf_keys(0.0, 100_000, n_records)
    yield "10⁵ keys, even", write(folder / "even", pa.array(even.astype(str)))
    rng = np.random.default_rng(0)
    hot = np.where(rng.random(n_records) < 0.6, 0, rng.integers(0, 1_000, n_records))
    yield "one key of 60 %", write(folder / "hot", pa.array(hot.astype(str)))


def write(folder: Path, keys: Any) -> Path:
    """Write records with these keys; numbers are multiples of 1/4, whose sums are exact."""
    rng = np.random.default_rng(1)
    n = len(keys)
    x, w = rng.integers(0, 4_000, n) / 4, rng.integers(1, 100, n).astype(np.float64)
    return write_files(
        folder, cut(pa.table({"k": keys, "x": x, "w": w, "v": rng.integers(0, 5_000, n)}), 4)
    )


def table(records: Sequence[Row]) -> str:
    """Return one line per stream and aggregation: all jobs as ratios to the best alternative.

    A ratio is taken between jobs of the same turn, and the table has the median over turns. The
    best is the alternative with the smallest median time.
    """
    alternatives = [job for job in grouped(records, "job") if job != AUTO]
    rows = []
    for (stream, aggregation), chosen in grouped(records, "stream", "aggregation").items():
        jobs = grouped(chosen, "job")
        others = (job for job in jobs if job != AUTO)
        best = min(others, key=lambda job: median(map(seconds, jobs[job])))
        cells = [
            times(ratios(jobs[job], jobs[best])) if job in jobs else ""
            for job in (AUTO, *alternatives)
        ]
        rows.append([stream, aggregation, jobs[AUTO][0]["form"], best, *cells])
    headings = ["stream", "aggregation", "auto is", "best other", "auto / best"]
    return markdown([*headings, *[f"{job} / best" for job in alternatives]], rows)


REPORT = Report("on_spark/aggregate_speed.jsonl", {(BENCHMARKS, "spark aggregate"): table})


def main(
    data: Path | None = option(None, "Folder with real streams, Parquet."),
    records: int = option(3_000_000, "At most so many records of a stream."),
    repeats: int = option(3, "Turns of each comparison."),
    slots: int = option(2, "Task slots of the local session."),
    only: str = option("", "Streams to take: a regular expression."),
    kinds: str = option("", "Aggregations to take: the same."),
) -> None:
    """With `only` or `kinds`, what was measured before of others is kept."""
    results = [
        record
        for record in REPORT.read()
        if not (re.search(only, record["stream"]) and re.search(kinds, record["aggregation"]))
    ]
    settings = {"spark.sql.shuffle.partitions": str(WORKERS)}
    with spark_and_folder("aggregate", slots, settings) as (spark, folder):
        for stream, path in streams(folder, data, records):
            if re.search(only, stream):
                df = spark.read.parquet(str(path))
                for measured in measure(stream, df, repeats, slots, kinds):
                    results += measured
                    write_records(REPORT.path, results)  # as soon as it is known: it takes long
    REPORT.write(results)


if __name__ == "__main__":
    typer.run(main)
