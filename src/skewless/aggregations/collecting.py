"""Distinct counts, and values gathered into lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, overload

import pyarrow as pa

from skewless.aggregations.aggregation import OfColumn
from skewless.aggregations.columns import exploded, list_lengths, list_of, lists, without_nulls
from skewless.aggregations.grouping import distinct_pairs
from skewless.arrays import Ints
from skewless.parameters import check_types, require
from skewless.plumbing.arguments import shown


@dataclass(frozen=True)
class Collect(OfColumn):
    """All values that are not null, as a list in no promised order; empty where there are none.

    State: the list.
    """

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the type of the list."""
        return [list_of(input_types[0])]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Gather values."""
        return [lists(*without_nulls(columns[0], codes), n_groups)]

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Join lists."""
        return [lists(*exploded(states[0], codes), n_groups)]


@dataclass(frozen=True)
class CollectSet(Collect):
    """The distinct values that are not null, as a list in no promised order.

    NaN equals NaN and −0.0 equals 0.0. State: the list.
    """

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Gather each value once."""
        owners, values = distinct_pairs(columns[0], codes)
        return [lists(values, owners, n_groups)]

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Join lists, each value once."""
        values, value_codes = exploded(states[0], codes)
        return self.update([values], value_codes, n_groups)


@dataclass(frozen=True)
class Distinct(CollectSet):
    """How many distinct values there are, null not counted; exact.

    NaN equals NaN and −0.0 equals 0.0. State: the list of distinct values, so it grows with them.
    """

    def result_type(self, input_types: Sequence[pa.DataType]) -> pa.DataType:
        """Return int64."""
        return pa.int64()

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the lengths of the lists."""
        return pa.array(list_lengths(states[0]))


@dataclass(frozen=True)
class ApproxDistinct:
    """About how many distinct values there are: a request for the engine's own sketch.

    There is no state here. The engine sketches the deduplicated pairs instead of all records, so a
    hot value of a hot key costs it one insertion per batch.
    """

    merges: ClassVar[bool] = True

    column: str
    relative_error: float = 0.05

    def __post_init__(self) -> None:
        """Refuse an error that no sketch has."""
        check_types(self)
        error = self.relative_error
        is_share = isinstance(error, float) and 0.0 < error < 1.0
        require(self, "relative_error", is_share, "a float between 0 and 1, both excluded")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)


@overload
def distinct(column: str, exact: Literal[True] = True) -> Distinct: ...
@overload
def distinct(column: str, exact: Literal[False]) -> ApproxDistinct: ...
def distinct(column: str, exact: bool = True) -> Distinct | ApproxDistinct:
    """Return the number of distinct values of a column, exact or by the engine's sketch."""
    if not isinstance(exact, bool):
        raise ValueError(f"distinct: exact must be True or False, not {shown(exact)}")
    return Distinct(column) if exact else ApproxDistinct(column)
