"""The job that the tests disturb: `python -m faults.job config.json` runs queries one by one.

A query streams Parquet files through `aggregate`, or through plain Spark to compare with, and
leaves in its folder: `checkpoint`, `ledger`, `out`, and at the end `done` or `failed`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faults.bombs import STRATEGIES, Spread, pass_by

SCHEMA = "k string, v bigint, ts timestamp"
WINDOW = ("ts", "60 seconds")
WATERMARK = "20 seconds"


def main() -> None:
    from skewless.spark.session import session

    config = json.loads(Path(sys.argv[1]).read_text())
    local = Path(config["folder"]) / "local"
    fixed = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        # One file, one partition, one source: whatever the number of cores.
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.local.dir": str(local),
        "spark.sql.warehouse.dir": str(local / "warehouse"),
    }
    spark = session(
        "faults", master=config["master"], memory="1g", settings=fixed | config.get("settings", {})
    )
    for query in config["queries"]:
        folder = Path(config["folder"]) / query["name"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "driver.pid").write_text(str(os.getpid()))
        (folder / "local.path").write_text(str(local))
        for name, value in query.get("settings", {}).items():
            spark.conf.set(name, value)
        try:
            run(spark, config["input"], folder, query)
            (folder / "done").touch()
        except Exception:
            (folder / "failed").write_text(traceback.format_exc())
    spark.stop()


def run(spark: Any, records: str, folder: Path, query: dict[str, Any]) -> None:
    """Run one query until it has read all files."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
    results = results_of(reader.parquet(records), folder, query)
    out = folder / "out"

    def write(batch: Any, number: int) -> None:
        pass_by(str(folder), "before_write", number)
        batch.write.mode("overwrite").parquet(str(out / f"batch={number}"))
        pass_by(str(folder), "after_write", number)

    writer = results.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if query["windows"]:
        writer = writer.outputMode("append").format("parquet").option("path", str(out))
    else:
        writer = writer.outputMode("update").foreachBatch(write)
    writer.trigger(availableNow=True).start().awaitTermination()


def results_of(df: Any, folder: Path, query: dict[str, Any]) -> Any:
    """Return the results, all of them whole numbers, so that no order of adding shows."""
    from pyspark.sql import functions as F

    from skewless import aggregations as aggs
    from skewless.spark.aggregating import aggregate
    from skewless.spark.routing import route

    if query["strategy"] == "plain":
        keys = ["k"]
        if query["windows"]:
            df = df.withWatermark(WINDOW[0], WATERMARK)
            keys = [F.window(*WINDOW), "k"]
        return df.groupBy(*keys).agg(
            F.count(F.lit(1)).alias("n"),
            F.sum("v").alias("s"),
            (F.max("v") - F.min("v")).alias("spread"),
            F.size(F.collect_set("v")).cast("bigint").alias("distinct"),
        )
    strategy = STRATEGIES[query["strategy"]](folder=str(folder))
    ledger = str(folder / "ledger")
    if query["merging"] == "none":

        def passed(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                pass_by(str(folder), "work")
                yield batch

        routed = route(df, "k", strategy=strategy, workers=8, ledger=ledger)
        return routed.mapInArrow(passed, f"{SCHEMA}, worker int")
    chosen: dict[str, Any] = {"n": aggs.count(), "s": aggs.sum("v")}
    if query["merging"] == "blocks":
        chosen["spread"] = Spread(str(folder))
    else:
        chosen["distinct"] = aggs.distinct("v")
    return aggregate(
        df,
        "k",
        chosen,
        window=WINDOW if query["windows"] else None,
        watermark=WATERMARK if query["windows"] else None,
        strategy=strategy,
        workers=8,
        ledger=ledger,
    )


if __name__ == "__main__":
    main()
