"""The job that the tests submit: a stream through `aggregate`, and the same by plain Spark.

`spark-submit … job.py RECORDS PLACE` reads the Parquet files of RECORDS, two in a micro-batch. It
leaves in PLACE: `ledger`, `checkpoint`, `out/N` with the results of micro-batch N, `plain` with
those of `groupBy` over all files, and `pythons`, which Python each worker ran. In micro-batch 1 one
executor kills itself, once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark import aggregate, configure

SCHEMA = "k string, v bigint, ts timestamp"


class Spread(aggs.Aggregator[Any]):
    """The largest value less the smallest; kills its executor where `killed` is not there yet."""

    inputs = ("v",)
    state = "struct<low: bigint, high: bigint>"
    result = "bigint"

    def __init__(self, place: str) -> None:
        self.place = place

    def zero(self) -> Any:
        return None

    def update(self, state: Any, records: Any) -> Any:
        self.kill_once()
        values = records["v"].drop_null().to_pylist()
        return self.merge(state, {"low": min(values), "high": max(values)}) if values else state

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return {"low": min(a["low"], b["low"]), "high": max(a["high"], b["high"])}

    def finish(self, state: Any) -> int | None:
        return None if state is None else state["high"] - state["low"]

    def kill_once(self) -> None:
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None or context.getLocalProperty("streaming.sql.batchId") != "1":
            return
        try:
            os.close(os.open(Path(self.place) / "killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        # Spark's Java process starts a daemon, which forks the workers.
        status = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)


def main() -> None:
    records, place = sys.argv[1:]
    spark = configure(SparkSession.builder.appName("cluster"), daemon=True).getOrCreate()
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(records)
    results = aggregate(
        files,
        "k",
        {"n": aggs.count(), "spread": Spread(place)},
        strategy="cascade",
        workers=4,
        ledger=f"{place}/ledger",
    )

    def write(rows: Any, number: int) -> None:
        rows.write.mode("overwrite").parquet(f"{place}/out/{number}")

    writer = results.writeStream.outputMode("update").foreachBatch(write)
    query = writer.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
    query.start().awaitTermination()
    whole = spark.read.schema(SCHEMA).parquet(records).groupBy("k")
    spread = (F.max("v") - F.min("v")).alias("spread")
    whole.agg(F.count(F.lit(1)).alias("n"), spread).write.parquet(f"{place}/plain")
    python = F.udf(lambda _: f"{sys.prefix}\n{aggs.__file__}", "string", useArrow=False)
    pythons = spark.range(0, 4, 1, 4).select(python("id")).distinct().collect()
    Path(place, "pythons").write_text("\n".join(row[0] for row in pythons))
    spark.stop()


if __name__ == "__main__":
    main()
