"""Keys that are too hot for one worker: one side of a join is spread, the other is repeated."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from skewless.plumbing.arguments import MOST_WORKERS, shown, whole
from skewless.spark.columns import internal, quoted
from skewless.spark.records import Records
from skewless.spark.state.spread_records import any_null, in_parts

#: The part of a key is found by comparing it with each spread key in turn.
_MOST_KEYS = 1_000


@dataclass(frozen=True)
class NamedKeys:
    """Keys that the user names, as (values, parts) in the order of their text.

    A left record of such a key goes to one part, chosen by its content, so that a retry sends it
    there again. A right record goes to all parts. So each pair is found in exactly one part.
    """

    keys: tuple[tuple[tuple[Any, ...], int], ...]

    @property
    def column(self) -> str:
        """The column of the part. Its name depends on the keys, so a ledger refuses other keys."""
        return internal(f"part_{zlib.crc32(repr(self.keys).encode()):08x}")

    def with_parts(
        self, df: DataFrame, key: list[str], content: Column, is_right: Column
    ) -> DataFrame:
        """Return the records with their parts, one row for each; `content` is a hash of them."""
        columns = [df[quoted(name)] for name in key]
        n_parts = F.lit(1)
        for values, number in self.keys:
            equal = F.lit(True)
            for column, value in zip(columns, values, strict=True):
                equal = equal & (column == F.lit(value))
            n_parts = F.when(equal, F.lit(number)).otherwise(n_parts)
        return in_parts(df, self.column, n_parts, any_null(key), is_right, content)


def named_keys(
    records: Records, spread: Any, keys: Sequence[StructField], how: str, keeps_right: bool
) -> NamedKeys | None:
    """Return the keys that a user names by `spread`, or None; raise ValueError for bad ones."""
    if spread is None:
        return None
    if not isinstance(spread, dict) or len(spread) > _MOST_KEYS:
        raise ValueError(
            f"spread must be a dict of at most {_MOST_KEYS:,} keys and their parts, like "
            f"{{'hot': 8}}, not {shown(spread)}"
        )
    if keeps_right and spread:
        raise ValueError(
            f"spread: how must be 'inner' or 'left', not {how!r}: records of the right side are in "
            "several parts, and a part does not see the matches of the others; swap the sides"
        )
    found = []
    for given, parts in spread.items():
        values = given if isinstance(given, tuple) else (given,)
        if len(values) != len(keys) or any(value is None for value in values):
            names = ", ".join(field.name for field in keys)
            raise ValueError(f"spread: {shown(given)} is not a key of {names} without nulls")
        number = whole(parts, f"spread: {shown(given)}", least=1, most=MOST_WORKERS)
        try:
            typed = [records.column(f.name) == F.lit(v) for f, v in zip(keys, values, strict=True)]
            records.df.select(*typed)
        except (PySparkException, TypeError, AttributeError) as error:
            raise ValueError(f"spread: {shown(given)} cannot be compared with the key") from error
        found.append((tuple(values), number))
    return NamedKeys(tuple(sorted(found, key=repr))) if found else None
