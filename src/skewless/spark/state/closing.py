"""Micro-batches without data: states end when the watermark passes them, and not with more data.

Spark runs such a micro-batch only for operators of its own with a state and a watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.spark.columns import internal, quoted
from skewless.spark.records import Records

#: Where Spark keeps the delay of a watermark, in the metadata of its column.
_DELAY = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class Closing:
    """The event times of a stream, as streams of their own, and the delay of the watermark."""

    time: str
    delay: str
    clocks: Sequence[DataFrame]

    @classmethod
    def of(cls, records: Records, clocks: Sequence[DataFrame], time: str, delay_us: int) -> Closing:
        """Build it for records; raise ValueError if a stream has a watermark already."""
        clocks = clocks or [records.df.select(records.column(time))]
        if any(_DELAY in field.metadata for df in (records.df, *clocks) for field in df.schema):
            raise ValueError(
                "closes_without_data: the stream has a watermark already, and Spark allows only "
                "one: leave out withWatermark; watermark= sets it"
            )
        return cls(time, f"{delay_us} microseconds", clocks)

    def kept_awake(self, df: DataFrame) -> DataFrame:
        """Return the records with a watermark: Spark then runs the tasks above without data."""
        return df.withWatermark(quoted(self.time), self.delay)

    def no_rows(self, result: StructType) -> DataFrame:
        """Return no rows, by an operator of Spark with a state and a watermark.

        No row passes the filter. Spark does not push it below the watermark, which sees all times.
        """
        one, time = internal("one"), internal("clock")
        seen = [
            clock.toDF(time).withColumn(one, F.lit(0)).withWatermark(time, self.delay)
            for clock in self.clocks
        ]
        none = reduce(DataFrame.union, seen).where(F.spark_partition_id() < 0)
        columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in result.fields]
        return none.dropDuplicatesWithinWatermark([one]).select(*columns)
