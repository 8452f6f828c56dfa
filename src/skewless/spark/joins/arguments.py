"""The two sides of a batch join: their keys, and the columns of the result, resolved once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.planning.pairs import KEPT, WITHOUT_PAIRS
from skewless.plumbing.arguments import shown
from skewless.spark.columns import internal, is_collated, nullable, quoted
from skewless.spark.records import GroupingKey, Records, first_line
from skewless.spark.routing.planned.counting import seeded_hash
from skewless.spark.state.operators.join import both_records, key_names, renamed

#: Other names of the kinds of join, as Spark has them; with or without "_".
_OTHER_NAMES = {
    **{"leftouter": "left", "rightouter": "right", "outer": "full", "fullouter": "full"},
    **{"leftsemi": "semi", "leftanti": "anti"},
}
#: Where Spark keeps the type of a CHAR or VARCHAR, which is text otherwise.
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True)
class JoinSide:
    """One side of a join."""

    df: DataFrame  # its columns have other names than those of the other side
    key: tuple[str, ...]  # the columns of the key, as `df` names them
    common: GroupingKey | None  # cast to the type in which Spark compares them; None: not known
    kept: bool  # whether rows without a match are returned

    @property
    def no_null(self) -> str:
        """Whether no column of the key is null: else the row has no match."""
        return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.key)

    def hash(self, seed: int, *, untrusted: bool) -> Column:
        """Return the hash of the key, null if a part of it is null."""
        assert self.common is not None
        hashed = seeded_hash(self.common, seed, untrusted=untrusted)
        return F.when(F.expr(self.no_null), hashed)


@dataclass(frozen=True)
class Sides:
    """Both sides of a join, and what the result has of them.

    Expressions are texts: each operator on a Column is about ten calls of the JVM.
    """

    left: JoinSide
    right: JoinSide
    on: tuple[str, ...]
    how: str
    result: tuple[str, ...]
    problem: str | None  # why the keys cannot be hashed as Spark compares them

    @property
    def equal_keys(self) -> str:
        """The condition of the join, for rows of both sides."""
        pairs = zip(self.left.key, self.right.key, strict=True)
        return " AND ".join(f"{quoted(one)} = {quoted(other)}" for one, other in pairs)

    @cached_property
    def plain(self) -> DataFrame:
        """Spark's own join."""
        joined = self.left.df.join(self.right.df, F.expr(self.equal_keys), self.how)
        return joined.selectExpr(*self.result)


def require_tables(left: Any, right: Any) -> tuple[Records, Records]:
    """Return the records of two batch DataFrames; raise ValueError if they are something else."""
    sides = both_records(left, right)
    if sides[0].is_stream:
        raise ValueError(
            "within: a join of streams pairs records by event time: say how far apart they may be, "
            "like within='1 hour', and watermark=(time column, delay)"
        )
    return sides


def both_sides(left: DataFrame, right: DataFrame, on: Any, how: Any, suffix: Any) -> Sides:
    """Return the sides of a batch join; raise ValueError for bad arguments."""
    kind = _kind(how)
    ours, theirs = require_tables(left, right)
    ours.require_names("left")
    theirs.require_names("right")
    names = key_names(ours, theirs, on)
    keys = [side.by(names).key for side in (ours, theirs)]
    taken = [*names, *(name for name in ours.names if name not in names)]
    others = [field for field in theirs.schema.fields if field.name not in names]
    if kind in WITHOUT_PAIRS:
        others = []
    new = [field.name for field in renamed(others, taken, suffix)]
    aliases = [internal(f"key_{number}") for number in range(len(names))]
    renaming = dict(zip([*names, *(field.name for field in others)], [*aliases, *new], strict=True))
    columns = [f"{quoted(name)} AS {quoted(alias)}" for name, alias in renaming.items()]
    kinds, problem = _common_types(left, names, keys)
    kept = KEPT[kind]
    common = [_common(*given, kinds) for given in zip((names, aliases), keys, strict=True)]
    first = JoinSide(left, tuple(names), common[0], kept[0])
    second = JoinSide(right.selectExpr(*columns), tuple(aliases), common[1], kept[1])
    result = _keys_of_result(names, aliases, kind)
    result += map(quoted, [*taken[len(names) :], *new])
    sides = Sides(first, second, tuple(names), kind, tuple(result), problem)
    try:
        _ = sides.plain.columns
    except PySparkException as error:
        raise ValueError(f"on: Spark cannot compare the keys: {first_line(error)}") from error
    return sides


def _kind(how: Any) -> str:
    name = how.lower().replace("_", "") if isinstance(how, str) else ""
    name = _OTHER_NAMES.get(name, name)
    if name not in KEPT:
        allowed = ", ".join(map(repr, KEPT))
        raise ValueError(f"how must be one of {allowed}, not {shown(how)}")
    return name


def _keys_of_result(names: Sequence[str], aliases: Sequence[str], how: str) -> list[str]:
    """Return the columns of the key, as Spark returns them where a join names its columns."""
    ours, theirs = (list(map(quoted, some)) for some in (names, aliases))
    if how not in ("right", "full"):
        return ours
    both = [f"coalesce({one}, {other})" for one, other in zip(ours, theirs, strict=True)]
    keys = theirs if how == "right" else both
    return [f"{key} AS {name}" for key, name in zip(keys, ours, strict=True)]


def _common(
    names: Sequence[str], key: GroupingKey, kinds: Sequence[Any] | None
) -> GroupingKey | None:
    if kinds is None:
        return None
    fields = tuple(map(T.StructField, names, kinds))
    columns = []
    for field, own in zip(fields, key.fields, strict=True):
        column = F.col(quoted(field.name))
        is_same = field.dataType.simpleString() == own.dataType.simpleString()
        columns.append(column if is_same else column.cast(field.dataType))
    return GroupingKey(tuple(columns), tuple(names), fields)


def _common_types(
    df: DataFrame, names: Sequence[str], keys: Sequence[GroupingKey]
) -> tuple[list[T.DataType] | None, str | None]:
    """Return the types in which Spark compares the columns; or None, and which one is unknown."""
    found = []
    for name, *fields in zip(names, *(key.fields for key in keys), strict=True):
        one, other = (field.dataType for field in fields)
        if is_collated(one) or is_collated(other):
            return None, f"column {name!r} is collated text, which has no hash"
        lengths = {str(field.metadata.get(_LENGTH)) for field in fields}
        if len(lengths) > 1:
            return None, f"column {name!r} is CHAR or VARCHAR of several lengths, which Spark pads"
        kind = _common_type(df, one, other)
        if kind is None:
            kinds = f"{one.simpleString()} and {other.simpleString()}"
            return None, f"column {name!r} is {kinds}: cast one of them"
        found.append(kind)
    return found, None


def _common_type(df: DataFrame, one: T.DataType, other: T.DataType) -> T.DataType | None:
    """Return the type in which Spark compares two columns, None where this is not sure.

    For numbers, and for dates and times, it is the type that Spark's `coalesce` gives them. Texts
    are compared with other types in ways that depend on settings; decimals of too many digits are
    rounded.
    """
    if one.simpleString() == other.simpleString():
        kind: T.DataType = nullable(one)  # what is null on one side alone has the same text
        return kind
    alike = (T.NumericType, T.DateType | T.TimestampType | T.TimestampNTZType)
    if not any(isinstance(one, kinds) and isinstance(other, kinds) for kinds in alike):
        return None
    nulls = [F.lit(None).cast(kind) for kind in (one, other)]
    kind = df.sparkSession.range(0).select(F.coalesce(*nulls)).schema.fields[0].dataType
    is_rounded = isinstance(kind, T.DecimalType) and kind.precision >= 38  # the most digits
    return None if is_rounded else kind
