"""A stream of clicks with a hot user: sessions, whose states move between workers as it runs."""

import tempfile
from pathlib import Path

from pyspark.sql import functions as F

from skewless.spark import read_state, session, sessions

GAP = "30 minutes"

spark = session("sessions", master="local[2]")
with tempfile.TemporaryDirectory() as folder:
    clicks, out, ledger = (str(Path(folder, name)) for name in ("clicks", "out", "ledger"))
    user = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 100)
    time = F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id") * 60)
    for day in range(4):  # a file for each micro-batch
        made = spark.range(day * 1440, (day + 1) * 1440, 1, 1)
        made.select(user.alias("user"), time.alias("ts")).write.mode("append").parquet(clicks)
    stream = spark.readStream.schema("user bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    found = sessions(
        stream.parquet(clicks),
        "user",
        GAP,
        watermark=("ts", "10 minutes"),
        workers=4,
        ledger=ledger,
    )
    query = (
        found.writeStream.option("checkpointLocation", str(Path(folder, "checkpoint")))
        .trigger(availableNow=True)
        .format("parquet")
        .start(out)
    )
    query.awaitTermination()
    ended, still_open = spark.read.parquet(out).count(), read_state(spark, ledger).count()
    of_spark = spark.read.parquet(clicks).groupBy("user", F.session_window("ts", GAP)).count()
    print(f"{ended} sessions ended, the state holds {still_open} users")
    longest = spark.read.parquet(out).agg(F.max("records")).collect()[0][0]
    print(f"the longest of these has {longest} clicks; plain Spark finds {of_spark.count()} in all")
