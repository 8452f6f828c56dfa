"""A model per customer, loaded on first use: the hot one has all workers, the others one each."""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import functions as F

from skewless.spark import route, session


def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load the model of each new customer, 5 ms, and score its orders, 50 µs each."""
    models: set[int] = set()
    for batch in batches:
        new = set(batch["customer"].to_pylist()) - models
        models |= new
        time.sleep(0.005 * len(new) + 50e-6 * batch.num_rows)
        yield batch


spark = session("scores", master="local[8]")
customer = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 1000)
orders = spark.range(0, 100_000, 1, 8).select(customer.alias("customer"), "id")
by_hash = orders.repartition(8, "customer")
routed = route(orders, "customer", workers=8).drop("worker")
for name, tasks in (("hash", by_hash), ("route", routed)):
    began = time.monotonic()
    scores = tasks.mapInArrow(score, orders.schema).count()
    print(f"{name}: {scores} scores in {time.monotonic() - began:.1f} s")
