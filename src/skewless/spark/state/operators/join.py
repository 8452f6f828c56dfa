"""Joins by event time: records of two streams with equal keys and times near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from skewless.planning.pairs import KEPT
from skewless.plumbing.arguments import shown
from skewless.spark.columns import can_be_hashed, internal, quoted
from skewless.spark.records import Records
from skewless.spark.state.arguments import Placement, event_time, free_names, span
from skewless.spark.state.operators.join_processor import LEFT, RIGHT, SIDE, TIME, Join, Side
from skewless.spark.state.planning.spread_keys import SpreadRule
from skewless.spark.state.planning.spread_records import Parts
from skewless.spark.state.process import processed

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The column of the part: plans spread hot keys over several.
_PART = internal("part")
#: Streams are joined in these ways.
_HOW = ("inner", "left", "right", "full")


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
    **placement: Unpack[Placement],
) -> DataFrame:
    """Return the pairs whose times are at most `within` apart: see `skewless.spark.join`."""
    ours, theirs = both_records(left, right)
    if not isinstance(how, str) or how not in _HOW:
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
    sides = (
        Side(LEFT, StructType([f for f in ours.schema if f.name not in names])),
        Side(RIGHT, StructType([f for f in theirs.schema if f.name not in names])),
    )
    result = [*keys, *sides[0].fields]
    result += renamed(sides[1].fields.fields, [field.name for field in result], suffix)
    processor = Join(StructType(result), names, sides, KEPT[how], length)
    # A side whose records are returned without a match must not be repeated in several parts.
    may = (not KEPT[how][1], not KEPT[how][0])
    rule = SpreadRule(may, length)
    contents = [
        (side.name, [f.name for f in side.fields if can_be_hashed(f.dataType)]) for side in sides
    ]
    parts = Parts(rule, _PART, names, SIDE, (contents[0], contents[1]))
    both = _both(left, right, names, (time, other), sides)
    records = Records.of(both).by([*names, _PART])
    at = (TIME, f"{delay} microseconds")
    clocks = [left.select(left[quoted(time)])]
    if left is not right or other != time:
        clocks.append(right.select(right[quoted(other)]))
    return processed(records, processor, placement, watermark=at, parts=parts, clocks=clocks)


def _both(
    left: DataFrame,
    right: DataFrame,
    names: list[str],
    times: tuple[str, str],
    sides: tuple[Side, Side],
) -> DataFrame:
    """Return the records of both sides: key, time, side, and the record in a column of its side."""

    def chosen(df: DataFrame, is_right: Column, mine: Sequence[int]) -> DataFrame:
        """Return the records of one side, or of both; `mine` are the numbers of the sides."""
        time, rows = F.lit(None), []
        for number, side in enumerate(sides):
            row = F.lit(None).cast(side.fields)
            if number in mine:
                is_own = is_right == F.lit(bool(number))
                time = F.when(is_own, F.col(quoted(times[number]))).otherwise(time)
                row = F.when(is_own, F.struct(*[df[quoted(name)] for name in side.fields.names]))
            rows.append(row.alias(side.name))
        columns = [*[df[quoted(name)] for name in names], F.lit(0).alias(_PART)]
        return df.select(*columns, is_right.alias(SIDE), time.alias(TIME), *rows)

    if left is right:
        twice = left.select("*", F.explode(F.array(F.lit(False), F.lit(True))).alias(SIDE))
        return chosen(twice, F.col(SIDE), (0, 1))
    return chosen(left, F.lit(False), (0,)).union(chosen(right, F.lit(True), (1,)))


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
