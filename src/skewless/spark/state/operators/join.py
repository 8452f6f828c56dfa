"""Joins by event time: records of two streams with equal keys and times near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from skewless.plumbing.arguments import shown
from skewless.spark.columns import existing, grouping_key, quoted
from skewless.spark.state.arguments import free_names, unique_columns
from skewless.spark.state.operators.join_processor import (
    LEFT,
    RIGHT,
    SIDE,
    TIME,
    Join,
    Side,
)
from skewless.spark.state.operators.options import Placement, event_time, span
from skewless.spark.state.operators.spreading import (
    PART,
    PlannedKeys,
    Spreading,
    named_keys,
)
from skewless.spark.state.planning.spread_keys import SpreadRule
from skewless.spark.state.process import processed
from skewless.spark.state.spread_records import Parts, hashable

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
    require_both(left, right)
    if not isinstance(how, str) or how not in _KEPT:
        raise ValueError(f"how must be 'inner', 'left', 'right' or 'full', not {shown(how)}")
    unique_columns(left)
    unique_columns(right)
    keys = _key_columns(left, right, on)
    time, delay, kind = event_time(left, watermark, "join")
    other = existing(right, time if right_time is None else right_time, "right_time")
    right_kind = right.schema[other].dataType
    if right_kind != kind:
        raise ValueError(
            f"right_time: column {other!r} must be of the same type as {time!r} of the left side, "
            f"{kind.simpleString()}, not {right_kind.simpleString()}"
        )
    if time in keys or other in keys:
        raise ValueError("on: the event time cannot be a part of the key: use Spark's own join")
    length = span(within, "within")
    named = named_keys(left, spread, list(keys.values()), how, _KEPT[how][1])
    names = [field.name for field in keys.values()]
    ours = Side(LEFT, StructType([f for f in left.schema.fields if f.name not in names]))
    theirs = Side(RIGHT, StructType([f for f in right.schema.fields if f.name not in names]))
    taken = [*names, *ours.fields.names]
    result = [*keys.values(), *ours.fields.fields]
    result += renamed(theirs.fields.fields, taken, suffix)
    processor = Join(StructType(result), names, (ours, theirs), _KEPT[how], length)
    # A side whose records are returned without a match must not be repeated in several parts.
    may = (not _KEPT[how][1], not _KEPT[how][0])
    rule = SpreadRule(may, length, detects=spread is None)
    contents = [(side.name, hashable(_kinds(side))) for side in (ours, theirs)]
    parts = Parts(rule, PART, names, SIDE, (contents[0], contents[1]))
    chosen: Spreading = PlannedKeys() if named is None else named
    both = _both(left, right, names, (time, other), (ours, theirs), chosen)
    return processed(
        both,
        grouping_key(both, [*names, chosen.column]),
        processor,
        watermark=(TIME, f"{delay} microseconds"),
        parts=parts if named is None else None,
        **placement,
    )


def _both(
    left: DataFrame,
    right: DataFrame,
    names: list[str],
    times: tuple[str, str],
    sides: tuple[Side, Side],
    spreading: Spreading,
) -> DataFrame:
    """Return the records of both sides: key, time, side, and the record in a column of its side."""

    def content(df: DataFrame, side: Side) -> Column:
        # There is always a column to hash: the time.
        return F.xxhash64(*[df[quoted(name)] for name in hashable(_kinds(side))])

    def whole(df: DataFrame, side: Side) -> Column:
        return F.struct(*[df[quoted(name)] for name in side.fields.names])

    def chosen(
        df: DataFrame, is_right: Column, content: Column, time: Column, rows: list[Column]
    ) -> DataFrame:
        with_parts = spreading.with_parts(df, names, content, is_right)
        columns = [with_parts[quoted(name)] for name in [*names, spreading.column]]
        return with_parts.select(*columns, is_right.alias(SIDE), time.alias(TIME), *rows)

    if left is right:
        twice = left.select("*", F.explode(F.array(F.lit(False), F.lit(True))).alias(SIDE))
        is_right = F.col(SIDE)
        time = F.when(is_right, F.col(quoted(times[1]))).otherwise(F.col(quoted(times[0])))
        mine = F.when(~is_right, whole(twice, sides[0])).alias(LEFT)
        rows = [mine, F.when(is_right, whole(twice, sides[1])).alias(RIGHT)]
        return chosen(twice, is_right, content(twice, sides[0]), time, rows)
    parts = []
    for number, (df, time_name) in enumerate(zip((left, right), times, strict=True)):
        rows = [
            (whole(df, side) if place == number else F.lit(None).cast(side.fields)).alias(side.name)
            for place, side in enumerate(sides)
        ]
        own = content(df, sides[number])
        parts.append(chosen(df, F.lit(bool(number)), own, F.col(quoted(time_name)), rows))
    return parts[0].union(parts[1])


def _kinds(side: Side) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in side.fields}


def require_both(left: Any, right: Any) -> None:
    """Raise ValueError unless these are two streams or two batch DataFrames."""
    for df, name in ((left, "left"), (right, "right")):
        if not isinstance(df, DataFrame):
            raise ValueError(f"{name} must be a Spark DataFrame, not {shown(df)}")
    if left.isStreaming != right.isStreaming:
        stream, table = ("left", "right") if left.isStreaming else ("right", "left")
        raise ValueError(
            f"{table} must be a stream as {stream} is, not a batch DataFrame: a stream and a table "
            "are joined by Spark's own join"
        )


def _key_columns(left: DataFrame, right: DataFrame, on: Any) -> dict[str, StructField]:
    """Return the columns of the key by name; raise ValueError unless both sides have them."""
    names = [on] if isinstance(on, str) else on
    if not isinstance(names, list | tuple) or not names:
        raise ValueError(f"on must be the name of a column, or several, not {shown(on)}")
    for name in names:
        existing(left, name, "on: left")
        existing(right, name, "on: right")
        kinds = [df.schema[name].dataType.simpleString() for df in (left, right)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"on: column {name!r} is {kinds[0]} on the left side and {kinds[1]} on the right "
                "side: cast one of them"
            )
    return {field.name: field for field in grouping_key(left, list(names)).named_fields}


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
