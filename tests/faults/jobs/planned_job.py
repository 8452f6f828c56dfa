"""A batch, or a join, that is planned first, on a session that is not configured, and its faults.

Started as a process of its own with the path of a JSON file: see `test_planned_routing`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORKERS = 8


def routed(case: str, df: Any) -> Any:
    """Return the records with their worker: of a scan, after a shuffle, of a join, or by dice."""
    from pyspark.sql import functions as F

    from skewless.spark import join, plan_join, plan_keys, route

    if case == "scan":
        return route(df, "k", workers=WORKERS, seed=1)
    if case == "shuffled":
        plan = plan_keys(df, "k", WORKERS, seed=1)
        assert plan.split
        return route(df.repartition(4, "v").select("k", "v", "ts"), "k", plan=plan)
    if case == "joined":
        df.sparkSession.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        # Each record has one match, or none if its key is null: it must be there once.
        left = df.repartition(4, "v").select("k", "v", "ts")
        right = df.select("k").distinct()
        plan = plan_join(left, right, "k", how="left", workers=WORKERS, seed=1)
        assert any(len(key.workers) > 1 for key in plan.keys), plan
        joined = join(left, right, "k", how="left", plan=plan)
        return joined.withColumn("worker", F.spark_partition_id())
    import random

    dice = F.udf(lambda: random.randrange(WORKERS), "int").asNondeterministic()
    return df.withColumn("worker", dice()).repartitionById(WORKERS, F.col("worker"))


def main(config: Path) -> None:
    """Run the cases; in each, one worker breaks something once while others are through."""
    from pyspark import TaskContext, cloudpickle
    from pyspark.sql import SparkSession

    from faults.jobs import bombs

    cloudpickle.register_pickle_by_value(bombs)  # Spark's workers cannot import the tests
    about = json.loads(config.read_text())
    builder = SparkSession.builder.master(about["master"])
    for name, value in about["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    df = spark.read.parquet(about["input"])
    for case, action in about["cases"]:
        folder = Path(about["folder"]) / case
        folder.mkdir()
        (folder / "local.path").write_text(spark.conf.get("spark.local.dir") or "")

        def work(batches: Iterator[Any], folder: Path = folder, action: str = action) -> Any:
            context = TaskContext.get()
            if context is not None and context.partitionId() == WORKERS - 3:
                bombs.once(folder, action)
            yield from batches

        found = routed(case, df)
        found.mapInArrow(work, found.schema).write.parquet(str(folder / "out"))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
