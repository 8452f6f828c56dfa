"""Micro-batches without data: states end when the watermark passes them, and not with more data.

Spark runs such a micro-batch only for operators of its own with a state and a watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.spark.columns import internal, quoted
from skewless.spark.records import Records

#: Where Spark keeps the delay of a watermark, in the metadata of its column.
_DELAY = "spark.watermarkDelayMs"


def closed(
    records: Records, clocks: Sequence[DataFrame], time: str, delay_us: int, result: StructType
) -> tuple[DataFrame, DataFrame]:
    """Return the records with a watermark, and no rows of the result, by an operator with a state.

    Spark then runs all tasks without data as well. `clocks` are the event times of the stream, as
    streams of their own. Raises ValueError if a stream has a watermark already.
    """
    clocks = clocks or [records.df.select(records.column(time))]
    if any(_DELAY in field.metadata for df in (records.df, *clocks) for field in df.schema):
        raise ValueError(
            "closes_without_data: the stream has a watermark already, and Spark allows only "
            "one: leave out withWatermark; watermark= sets it"
        )
    one, clock_time, delay = internal("one"), internal("clock"), f"{delay_us} microseconds"
    seen = [
        clock.toDF(clock_time).withColumn(one, F.lit(0)).withWatermark(clock_time, delay)
        for clock in clocks
    ]
    # No row passes. Spark does not push this filter below the watermark, which sees all times.
    none = reduce(DataFrame.union, seen).where(F.spark_partition_id() < 0)
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in result.fields]
    none = none.dropDuplicatesWithinWatermark([one]).select(*columns)
    return records.df.withWatermark(quoted(time), delay), none
