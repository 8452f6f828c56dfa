"""Values that are kept: the smallest, the largest, the distinct ones, or all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

import numpy as np
import pyarrow as pa

from skewless.aggregations.aggregation import OfColumn
from skewless.aggregations.columns import (
    exploded,
    list_lengths,
    lists,
    plain_type,
    without_nulls,
)
from skewless.aggregations.grouping import distinct_pairs
from skewless.aggregations.ordering import is_orderable, order_keys
from skewless.aggregations.sums import count_rows
from skewless.arrays import Ints
from skewless.parameters import check_types, require
from skewless.plumbing.arguments import shown


class _Extreme(OfColumn):
    """What Min and Max share: the first of the records whose key no other in the group beats."""

    _reverses: ClassVar[bool]  # whether the largest key wins

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        kind = plain_type(input_types[0])
        if not is_orderable(kind):
            name = self.column
            raise ValueError(f"{self!r}: column {name!r} must have an order, and {kind} has none")
        return [kind]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        self.state_types([columns[0].type])
        values, codes = without_nulls(columns[0], codes)
        keys = order_keys(values)
        keys = ~keys if self._reverses else keys  # without overflow
        best = np.full(n_groups, np.iinfo(np.int64).max)
        np.minimum.at(best, codes, keys)
        winners = np.flatnonzero(keys == best[codes])[::-1]
        rows = np.zeros(n_groups, np.int64)
        rows[codes[winners]] = winners  # the last assignment stays: the first winner
        nothing = count_rows(codes, n_groups) == 0
        return [values.take(pa.array(rows, mask=nothing))]

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        return self.update(states, codes, n_groups)


@dataclass(frozen=True)
class Min(_Extreme):
    """The smallest of the values that are not null; null where there are none.

    Every type that has an order; NaN is above every number. State: the smallest value.
    """

    _reverses = False


@dataclass(frozen=True)
class Max(_Extreme):
    """The largest of the values that are not null; null where there are none.

    Every type that has an order; NaN is above every number. State: the largest value.
    """

    _reverses = True


@dataclass(frozen=True)
class Collect(OfColumn):
    """All values that are not null, as a list in no promised order; empty where there are none.

    State: the list.
    """

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the type of a list of these values."""
        return [pa.list_(plain_type(input_types[0]))]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """List values."""
        return [self._kept(*without_nulls(columns[0], codes), n_groups)]

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Join lists."""
        return [self._kept(*exploded(states[0], codes), n_groups)]

    def _kept(self, values: Any, codes: Ints, n_groups: int) -> Any:
        """Keep what the aggregation needs of the values of each group, none of them null."""
        return lists(values, codes, n_groups)


@dataclass(frozen=True)
class CollectSet(Collect):
    """The distinct values that are not null, as a list in no promised order.

    NaN equals NaN and −0.0 equals 0.0. State: the list.
    """

    def _kept(self, values: Any, codes: Ints, n_groups: int) -> Any:
        owners, distinct_values = distinct_pairs(values, codes)
        return lists(distinct_values, owners, n_groups)


@dataclass(frozen=True)
class Distinct(CollectSet):
    """How many distinct values there are, null not counted; exact.

    NaN equals NaN and −0.0 equals 0.0. State: the list of distinct values, so it grows with them.
    """

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
