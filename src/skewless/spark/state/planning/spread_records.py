"""Parts of spread keys, in the JVM: a record becomes one row for each part that it goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.spark.columns import internal, quoted
from skewless.spark.state.planning.spread_keys import SpreadRule

_PARTS = internal("parts")


@dataclass(frozen=True)
class Parts:
    """How the plans of a stream spread keys, and the columns that this needs."""

    rule: SpreadRule
    part: str  # the last column of the key
    key: Sequence[str]  # the others
    side: str  # true for records of the right side
    #: For each side, the column that holds its records as structs, and the fields to hash.
    contents: tuple[tuple[str, Sequence[str]], tuple[str, Sequence[str]]]

    def counts(self, df: DataFrame) -> tuple[Column, Column]:
        """Return 1 for records that can match, without nulls, and for those of the right side."""
        known = ~any_null(self.key)
        return known.cast("int"), (known & df[quoted(self.side)]).cast("int")

    def taken(
        self, df: DataFrame, inputs: Mapping[str, str], hashed: str, spread: str | None
    ) -> DataFrame:
        """Return the records, one row for each part that they go to by the plan.

        They are all in part 0, and the column `hashed` becomes the hash of the part. `inputs` has
        the present names of the columns. `spread` is the column of the plan that holds the hashes
        of spread keys, and their parts; None: no key is spread. If the number of parts is below 0,
        the records of the right side are spread, and those of the left side go to all parts. A
        record with a null in its key matches nothing, so it need not be on one worker. A hash of
        its content chooses the part of a record, so that a retry sends it there again.
        """
        missing = any_null([inputs[name] for name in self.key])
        part = inputs[self.part]
        own = F.xxhash64(F.col(hashed), F.col(part))
        of_part = F.when(F.col(part) == 0, F.col(hashed)).otherwise(own)
        if spread is None:
            rows = df.withColumn(part, F.when(missing, F.spark_partition_id()).otherwise(F.lit(0)))
            return rows.withColumn(hashed, of_part)
        left, right = (
            F.xxhash64(*[F.col(inputs[column])[name] for name in names])
            for column, names in self.contents
        )
        is_right = F.col(inputs[self.side])
        content = F.when(is_right, right).otherwise(left)
        n_parts = F.coalesce(F.try_element_at(F.col(spread), F.col(hashed)), F.lit(1))
        number = F.abs(n_parts)
        # Most keys are not spread: their records need not be hashed.
        one = F.when(number == 1, F.lit(0)).otherwise(F.pmod(content, number).cast("int"))
        every = F.sequence(F.lit(0), number - 1)
        goes_everywhere = (is_right == (n_parts > 0)) & ~missing
        chosen = F.when(goes_everywhere, every).otherwise(F.array(one))
        rows = df.select("*", F.explode(chosen).alias(_PARTS))
        taken = F.when(missing, F.spark_partition_id()).otherwise(F.col(_PARTS))
        return rows.withColumn(part, taken).drop(_PARTS).withColumn(hashed, of_part)


def any_null(key: Sequence[str]) -> Column:
    """Return whether a column of the key is null."""
    return F.expr(" OR ".join(["false", *(f"{quoted(name)} IS NULL" for name in key)]))
