"""A join of two tables where one customer is hot on both sides: all tasks make as many pairs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.spark import join, plan_join, session

N_WORKERS = 8

spark = session("pairs", master="local[2]")
# Large tables are not broadcast; these are small, so Spark must be told.
spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
spark.conf.set("spark.sql.shuffle.partitions", N_WORKERS)
customer = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 1000).alias("customer")
orders = spark.range(4_000).select(customer, F.col("id").alias("order"))
visits = spark.range(2_000).select(customer, F.col("id").alias("visit"))


def busiest(pairs: DataFrame) -> float:
    """Return the pairs of the busiest task, as a multiple of the mean."""
    sizes = [row["count"] for row in pairs.groupBy(F.spark_partition_id()).count().collect()]
    return float(max(sizes) * N_WORKERS / sum(sizes))


plain = orders.join(visits, "customer")
# Without the plan, `join` would leave tables of a few thousand rows to Spark: that is faster.
plan = plan_join(orders, visits, "customer", workers=N_WORKERS)
spread = join(orders, visits, "customer", plan=plan)
print(plan)
print(f"busiest task / mean: Spark {busiest(plain):.1f}, skewless {busiest(spread):.1f}")
same = spread.exceptAll(plain).isEmpty() and plain.exceptAll(spread).isEmpty()
print(f"the same rows: {same}")
