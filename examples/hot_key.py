"""A hot key on Spark: one line changes, `groupBy` becomes `aggregate`."""

from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark import aggregate, session

spark = session("hot key")
customer = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 1000)
orders = spark.range(100_000).select(customer.alias("customer"), (F.col("id") % 77).alias("item"))
# orders.groupBy("customer").agg(F.count_distinct("item").alias("items"))
items = aggregate(orders, "customer", {"items": aggs.distinct("item")}, workers=4)
items.orderBy("customer").show(3)
