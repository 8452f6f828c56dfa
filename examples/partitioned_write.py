"""A partitioned write: the hot tenant has several tasks, and every other tenant one file."""

import tempfile
from pathlib import Path

from pyspark.sql import functions as F

from skewless.spark import route, session

N_TASKS = 8

spark = session("write", master="local[2]")
tenant = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 100)
rows = spark.range(100_000).select("id", tenant.alias("tenant"))
ways = {
    "repartition(n, key)": rows.repartition(N_TASKS, "tenant"),
    "repartition(n)": rows.repartition(N_TASKS),
    "route": route(rows, "tenant", workers=N_TASKS).drop("worker"),
}
with tempfile.TemporaryDirectory() as folder:
    for name, tasks in ways.items():
        table = str(Path(folder, name))
        tasks.write.partitionBy("tenant").parquet(table)
        written = spark.read.parquet(table)
        files = written.groupBy(F.input_file_name()).count().agg(F.count("*"), F.max("count"))
        n_files, largest = files.collect()[0]
        print(f"{name}: {written.count()} rows in {n_files} files, the largest has {largest}")
