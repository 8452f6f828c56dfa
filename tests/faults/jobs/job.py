"""The job that the tests disturb: `python -m faults.jobs.job config.json` runs queries one by one.

A query streams Parquet files through `aggregate`, or through plain Spark to compare with, and
leaves in its folder: `checkpoint`, `ledger`, `out`, and at the end `done` or `failed`. A query that
has ended already is left out, so that a driver that was killed can be started again as it was.
A query with steps does these one by one instead of reading all files at once.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faults.jobs.bombs import STRATEGIES, Chain, Spread, Wanders, pass_by
from faults.jobs.operators import COLUMNS, operated

SCHEMA = "k string, v bigint, ts timestamp"
FILES_PER_BATCH = 2
WINDOW = ("ts", "60 seconds")
WATERMARK = "20 seconds"


def main() -> None:
    from skewless.spark.configuring import session

    config = json.loads(Path(sys.argv[1]).read_text())
    local = Path(config["folder"]) / "local"
    chosen = {
        "spark.sql.session.timeZone": "UTC",
        "spark.skewless.seed": "0",  # ledgers of several queries are compared
        # One file, one partition, one source: whatever the number of cores.
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.local.dir": str(local),
        "spark.sql.warehouse.dir": str(local / "warehouse"),
    }
    chosen |= config["settings"]
    spark = session("faults", master=config["master"], memory="1g", settings=chosen)
    for query in config["queries"]:
        folder = Path(config["folder"]) / query["name"]
        if (folder / "done").exists() or (folder / "failed").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "driver.pid").write_text(str(os.getpid()))
        (folder / "local.path").write_text(str(local))
        for name, value in query.get("settings", {}).items():
            spark.conf.set(name, value)
        try:
            if query["steps"]:
                take_steps(spark, Path(config["input"]), folder, query)
            else:
                run(spark, config["input"], folder, query)
            (folder / "done").touch()
        except Exception:
            (folder / "failed").write_text(traceback.format_exc())
    spark.stop()


def take_steps(spark: Any, records: Path, folder: Path, query: dict[str, Any]) -> None:
    """Do what the steps of a query say; their paths begin at the folder of the job.

    `run, n` lets the query read the first n micro-batches and stop; `refuse, n` is the same, but
    it must fail, and its error is written to `refused`. Changes of the query may follow.
    """
    for verb, *arguments in query["steps"]:
        paths = [folder.parent / str(argument) for argument in arguments]
        if verb == "copy":
            shutil.rmtree(paths[1], ignore_errors=True)
            shutil.copytree(paths[0], paths[1])
        elif verb == "delete":
            shutil.rmtree(paths[0])
        elif verb == "set":
            spark.conf.set(*arguments)
        else:
            n_batches, *changes = arguments
            show_files(records, folder / "input", n_batches)
            changed = {name: value for change in changes for name, value in change.items()}
            try:
                run(spark, str(folder / "input"), folder, query | changed)
            except Exception:
                if verb != "refuse":
                    raise
                (folder / "refused").write_text(traceback.format_exc())
            else:
                if verb == "refuse":
                    raise AssertionError(f"the query was not refused: {query | changed}")


def show_files(records: Path, shown: Path, n_batches: int) -> None:
    """Copy the files of the first micro-batches, of which some may be there, with their times."""
    shown.mkdir(exist_ok=True)
    for file in sorted(records.glob("*.parquet"))[: FILES_PER_BATCH * n_batches]:
        if not (shown / file.name).exists():
            shutil.copy2(file, shown / file.name)


def run(spark: Any, records: str, folder: Path, query: dict[str, Any]) -> None:
    """Run one query until it has read all files."""
    n_files = query.get("files", FILES_PER_BATCH)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", n_files)
    results = results_of(reader.parquet(records), folder, query)
    out = folder / "out"

    def write(batch: Any, number: int) -> None:
        pass_by(str(folder), "before_write", number)
        batch.write.mode("overwrite").parquet(str(out / f"batch={number}"))
        pass_by(str(folder), "after_write", number)

    writer = results.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if query["mode"] == "append":
        writer = writer.outputMode("append").format("parquet").option("path", str(out))
    else:
        writer = writer.outputMode("update").foreachBatch(write)
    writer.trigger(availableNow=True).start().awaitTermination()


def results_of(df: Any, folder: Path, query: dict[str, Any]) -> Any:
    """Return the results of plain Spark, or of a routed query with bombs in all its stages."""
    if query["strategy"] == "plain":
        return in_whole_numbers(plain_results(df, query))
    laid = str(folder) if query["bombed"] else ""
    if query["merging"] in ("state", "state in source order"):
        return chained_results(df, folder, laid, query)
    if query["merging"] in COLUMNS:
        return operated(df, folder, laid, query)
    strategy = STRATEGIES[query["strategy"]](folder=laid)
    places = {
        "strategy": strategy,
        "workers": query["workers"],
        "ledger": str(folder / "ledger") if query["ledger"] else None,
    }
    if query["merging"] == "none":
        from skewless.spark.routing.route import route

        results = route(df, "k", **places)
    else:
        results = in_whole_numbers(merged_results(df, laid, query, places))

    def passed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            pass_by(laid, "work")
            yield batch

    return results.mapInArrow(passed, results.schema)


def chained_results(df: Any, folder: Path, laid: str, query: dict[str, Any]) -> Any:
    """Run `process` with a processor that chains the records of a key."""
    from skewless.spark import process

    return process(
        df,
        "k",
        Chain(laid),
        strategy=Wanders(),
        workers=query["workers"],
        max_workers=8,
        order_by=["ts", "v"] if query["merging"] == "state" else [],
        ledger=str(folder / "ledger"),
    )


def plain_results(df: Any, query: dict[str, Any]) -> Any:
    """Compute all results by Spark's own `groupBy`."""
    from pyspark.sql import functions as F

    keys: list[Any] = ["k"]
    if query["windows"]:
        df = df.withWatermark(WINDOW[0], WATERMARK)
        keys = [F.window(*WINDOW), "k"]
    return df.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"),
        F.sum("v").alias("s"),
        (F.max("v") - F.min("v")).alias("spread"),
        F.size(F.collect_set("v")).cast("bigint").alias("distinct"),
        F.var_samp("v").alias("variance"),
    )


def merged_results(df: Any, laid: str, query: dict[str, Any], places: dict[str, Any]) -> Any:
    """Run `aggregate`: two results, and one that chooses the way of merging."""
    from skewless import aggregations as aggs
    from skewless.spark.aggregation.aggregate import aggregate

    spread = Spread(laid)
    spread.state = query["state"] or Spread.state
    chosen: dict[str, Any] = {
        "blocks": {"spread": spread},
        "native": {"distinct": aggs.distinct("v")},
        "variance": {"variance": aggs.variance("v")},
    }[query["merging"]]
    return aggregate(
        df,
        "k",
        {"n": aggs.count(), "s": aggs.sum("v"), **chosen},
        window=WINDOW if query["windows"] else None,
        watermark=WATERMARK if query["windows"] else None,
        mode=query["mode"],
        **places,
    )


def in_whole_numbers(results: Any) -> Any:
    """Return the results without the last digits of variances, which depend on the order of adding.

    The odd number keeps fractions with small denominators away from the place where `floor` jumps.
    """
    from pyspark.sql import functions as F

    if "variance" not in results.columns:
        return results
    return results.withColumn("variance", F.floor(F.col("variance") * 100 + 0.3217))


if __name__ == "__main__":
    main()
