"""Measure `aggregate` with partial results of 32 KB per key; write raw records and the table.

Records are routed, and then partial results are shuffled a second time to be merged. Keys that are
whole on a worker need no merge. Bytes are those that Spark writes for its second shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import pyarrow as pa
import typer
from pyspark.sql import DataFrame

from benchmarks.records import (
    BENCHMARKS,
    Report,
    Row,
    grouped,
    markdown,
    range_of,
    ratios,
    seconds,
    times,
)
from benchmarks.streams import cut, write_files, zipf_keys
from benchmarks.turns import QUIET, in_turns, spark_and_folder, timed
from skewless.aggregations import Aggregator
from skewless.cli.option import option
from skewless.spark import aggregate

N_KEYS, N_RECORDS, SLOTS, WORKERS, SKETCH = 2_000, 200_000, 2, 8, 32_768
JOBS = ("hash", "plan", "cascade-ahead")
SKEWS = (0.0, 1.0, 1.4)


def sketch() -> Any:
    """Return an aggregator whose state is a count and a sketch; Spark gets its class by value."""

    class Sketch(Aggregator[Any]):
        """Counts records; its state has a fixed size."""

        inputs = ("key",)
        state = "struct<n: bigint, sketch: binary>"
        result = "bigint"

        def zero(self) -> Any:
            return {"n": 0, "sketch": b"0" * SKETCH}

        def update(self, state: Any, records: Any) -> Any:
            return {**state, "n": state["n"] + records.num_rows}

        def merge(self, one: Any, other: Any) -> Any:
            return {**one, "n": one["n"] + other["n"]}

        def finish(self, state: Any) -> Any:
            return state["n"]

    return Sketch()


def merged_bytes(df: DataFrame) -> int:
    """Sum up the bytes that the shuffles of a finished query wrote, but for that of routing."""
    found = []

    def walk(plan: Any) -> None:
        if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        while plan.getClass().getSimpleName().endswith("QueryStageExec"):
            plan = plan.plan()
        is_shuffle = plan.getClass().getSimpleName() == "ShuffleExchangeExec"
        if is_shuffle and "PassThrough" not in plan.outputPartitioning().getClass().getSimpleName():
            found.append(int(plan.metrics().apply("dataSize").value()))
        for place in range(plan.children().size()):
            walk(plan.children().apply(place))

    walk(df._jdf.queryExecution().executedPlan())
    return sum(found)


def run(df: DataFrame, job: str) -> Row:
    """Aggregate; what a plan counts beforehand is part of its time."""

    def collected() -> tuple[DataFrame, int]:
        results = aggregate(df, "key", {"n": sketch()}, strategy=job, workers=WORKERS, seed=1)
        return results, sum(row["n"] for row in results.collect())

    taken, (results, n_records) = timed(collected)
    assert n_records == N_RECORDS
    return {"seconds": taken, "bytes_merged": merged_bytes(results)}


def measure(turns: int) -> Iterator[Row]:
    with spark_and_folder("whole-keys", SLOTS, QUIET) as (spark, folder):
        for z in SKEWS:
            keys = pa.table({"key": pa.array(zipf_keys(z, N_KEYS, N_RECORDS).astype(str))})
            df = spark.read.parquet(str(write_files(folder / f"zipf-{z}", cut(keys, SLOTS))))
            for turn, job in in_turns(JOBS, turns, f"Zipf {z}", first=-1):
                found = run(df, job)
                if turn >= 0:
                    yield {"stream": f"Zipf {z}", "job": job, "turn": turn, **found}


def table(records: Sequence[Row]) -> str:
    """Return one line per stream and job; ratios are within one turn."""
    by_job = grouped(records, "stream", "job")
    rows = []
    for (stream, job), mine in by_job.items():
        to_hash = ratios(mine, by_job[stream, "hash"], within="turn")
        merged = median(row["bytes_merged"] for row in mine) / 2**20
        taken = f"{median(map(seconds, mine)):.2f}"
        rows.append([stream, job, f"{merged:.1f}", taken, times(to_hash), range_of(to_hash)])
    headings = (
        "stream | strategy | MB shuffled a second time | seconds | to hash | lowest to highest"
    )
    return markdown(headings, rows, n_left=2)


REPORT = Report("on_spark/whole_keys.jsonl", {(BENCHMARKS, "whole keys"): table})


def main(turns: int = option(3, "Times that each job is measured.", min=1)) -> None:
    """Measure `aggregate` with partial results of 32 KB per key."""
    REPORT.write(measure(turns))


if __name__ == "__main__":
    typer.run(main)
