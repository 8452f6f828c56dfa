"""Joins by event time: records of two streams with equal keys and times near each other."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from skewless.plumbing.arguments import MOST_WORKERS, shown, whole
from skewless.spark.columns import internal, quoted
from skewless.spark.records import Records
from skewless.spark.state.arguments import Placement, event_time, free_names, span
from skewless.spark.state.operators.join_processor import LEFT, RIGHT, SIDE, TIME, Join, Side
from skewless.spark.state.planning.spread_keys import SpreadRule
from skewless.spark.state.planning.spread_records import Parts, any_null, hashable, in_parts
from skewless.spark.state.process import processed

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The column of the part, unless the user names the keys: plans spread hot keys that they detect.
_PART = internal("part")
#: The most keys that a user names: each record is compared with them in turn.
_MOST_KEYS = 1_000
#: Whether records without a match are returned: of the left side, of the right side.
_KEPT = {
    "inner": (False, False),
    "left": (True, False),
    "left_outer": (True, False),
    "right": (False, True),
    "right_outer": (False, True),
    "full": (True, True),
    "full_outer": (True, True),
    "outer": (True, True),
}


def join_within(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    *,
    within: str,
    how: str = "inner",
    watermark: tuple[str, str] | None = None,
    right_time: str | None = None,
    suffix: str = "_right",
    spread: dict[Any, int] | None = None,
    **placement: Unpack[Placement],
) -> DataFrame:
    """Return the pairs whose times are at most `within` apart: see `skewless.spark.join`."""
    ours, theirs = both_records(left, right)
    if not isinstance(how, str) or how not in _KEPT:
        raise ValueError(f"how must be 'inner', 'left', 'right' or 'full', not {shown(how)}")
    keys = _key_columns(ours, theirs, on)
    names = [field.name for field in keys]
    time, delay = event_time(ours, watermark, "join")
    other = theirs.existing(time if right_time is None else right_time, "right_time")
    kind, other_kind = ours.schema[time].dataType, theirs.schema[other].dataType
    if other_kind != kind:
        raise ValueError(
            f"right_time: column {other!r} must be of the same type as {time!r} of the left side, "
            f"{kind.simpleString()}, not {other_kind.simpleString()}"
        )
    if time in names or other in names:
        raise ValueError("on: the event time cannot be a part of the key: use Spark's own join")
    length = span(within, "within")
    named = named_keys(ours, spread, keys, how, _KEPT[how][1])
    sides = (
        Side(LEFT, StructType([f for f in ours.schema if f.name not in names])),
        Side(RIGHT, StructType([f for f in theirs.schema if f.name not in names])),
    )
    result = [*keys, *sides[0].fields]
    result += renamed(sides[1].fields.fields, [field.name for field in result], suffix)
    processor = Join(StructType(result), names, sides, _KEPT[how], length)
    # A side whose records are returned without a match must not be repeated in several parts.
    may = (not _KEPT[how][1], not _KEPT[how][0])
    rule = SpreadRule(may, length, detects=spread is None)
    contents = [(side.name, hashable(_kinds(side))) for side in sides]
    parts = Parts(rule, _PART, names, SIDE, (contents[0], contents[1]))
    both = _both(left, right, names, (time, other), sides, named)
    records = Records.of(both).by([*names, _PART if named is None else named.column])
    at = (TIME, f"{delay} microseconds")
    own = parts if named is None else None
    clocks = [left.select(left[quoted(time)])]
    if left is not right or other != time:
        clocks.append(right.select(right[quoted(other)]))
    return processed(records, processor, placement, watermark=at, parts=own, clocks=clocks)


def _both(
    left: DataFrame,
    right: DataFrame,
    names: list[str],
    times: tuple[str, str],
    sides: tuple[Side, Side],
    named: NamedKeys | None,
) -> DataFrame:
    """Return the records of both sides: key, time, side, and the record in a column of its side."""

    def chosen(df: DataFrame, is_right: Column, mine: Sequence[int]) -> DataFrame:
        """Return the records of one side, or of both; `mine` are the numbers of the sides."""
        part, with_parts = _PART, df.withColumn(_PART, F.lit(0))
        if named is not None:
            # There is always a column to hash: the time.
            fields = hashable(_kinds(sides[mine[0]]))
            content = F.xxhash64(*[df[quoted(name)] for name in fields])
            part, with_parts = named.column, named.with_parts(df, names, content, is_right)
        time, rows = F.lit(None), []
        for number, side in enumerate(sides):
            row = F.lit(None).cast(side.fields)
            if number in mine:
                is_own = is_right == F.lit(bool(number))
                time = F.when(is_own, F.col(quoted(times[number]))).otherwise(time)
                row = F.when(is_own, F.struct(*[df[quoted(name)] for name in side.fields.names]))
            rows.append(row.alias(side.name))
        columns = [with_parts[quoted(name)] for name in [*names, part]]
        return with_parts.select(*columns, is_right.alias(SIDE), time.alias(TIME), *rows)

    if left is right:
        twice = left.select("*", F.explode(F.array(F.lit(False), F.lit(True))).alias(SIDE))
        return chosen(twice, F.col(SIDE), (0, 1))
    return chosen(left, F.lit(False), (0,)).union(chosen(right, F.lit(True), (1,)))


def _kinds(side: Side) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in side.fields}


def both_records(left: Any, right: Any) -> tuple[Records, Records]:
    """Return the records of both sides; raise ValueError unless both are streams or neither is."""
    sides = Records.with_names(left, "left"), Records.with_names(right, "right")
    if left.isStreaming != right.isStreaming:
        stream, table = ("left", "right") if left.isStreaming else ("right", "left")
        raise ValueError(
            f"{table} must be a stream as {stream} is, not a batch DataFrame: a stream and a table "
            "are joined by Spark's own join"
        )
    return sides


def key_names(left: Records, right: Records, on: Any) -> list[str]:
    """Return the names of the key's columns; raise ValueError unless both sides have them."""
    names = [on] if isinstance(on, str) else on
    if not isinstance(names, list | tuple) or not names:
        raise ValueError(f"on must be the name of a column, or several, not {shown(on)}")
    for name in names:
        left.existing(name, "on: left")
        right.existing(name, "on: right")
    return list(names)


def _key_columns(left: Records, right: Records, on: Any) -> list[StructField]:
    """Return the columns of the key; raise ValueError unless they have the same types."""
    names = key_names(left, right, on)
    for name in names:
        kinds = [side.schema[name].dataType.simpleString() for side in (left, right)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"on: column {name!r} is {kinds[0]} on the left side and {kinds[1]} on the right "
                "side: cast one of them"
            )
    return left.by(names).key.named_fields


def renamed(fields: Sequence[StructField], taken: list[str], suffix: Any) -> list[StructField]:
    """Return the columns of the right side, renamed where the left side has the name."""
    if not isinstance(suffix, str):
        raise ValueError(f"suffix must be a text, not {shown(suffix)}")
    lower = {name.lower() for name in taken}
    found = [
        StructField(f.name + suffix if f.name.lower() in lower else f.name, f.dataType)
        for f in fields
    ]
    for number, field in enumerate(found):
        free_names([field.name], taken + [f.name for f in found[:number]], "suffix")
    return found


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
