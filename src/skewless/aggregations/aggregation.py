"""The contract of an aggregation: partial results per group as plain Arrow columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass

import pyarrow as pa

from skewless.arrays import Ints
from skewless.parameters import check_types


class Aggregation(ABC):
    """Makes one value per group of records, through partial results that can be merged.

    A partial result is one row of *state columns*, of plain Arrow types, so it can be shuffled,
    stored and merged anywhere. `codes` says which group each row belongs to, 0 … n_groups − 1;
    every method that takes it returns one row per group, in the order of the groups, even for
    groups without rows.
    """

    def __post_init__(self) -> None:
        """Refuse arguments of other types than the fields of the dataclass declare."""
        if is_dataclass(self):
            check_types(self)

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns that it reads."""

    @property
    def merges(self) -> bool:
        """Whether partial results merge; only a class of a user may say that they do not."""
        return True

    @abstractmethod
    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the types of the state columns; raise ValueError for inputs it cannot take."""

    def result_type(self, input_types: Sequence[pa.DataType]) -> pa.DataType:
        """Return the type of the result: that of what `finish` returns."""
        nothing = [pa.nulls(0, kind) for kind in self.state_types(input_types)]
        return self.finish(nothing).type

    @abstractmethod
    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Return the state columns that sum up records: `columns` are those of `inputs`."""

    @abstractmethod
    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Return the state columns that sum up partial results."""

    @abstractmethod
    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the result of each group."""


@dataclass(frozen=True)
class OfColumn(Aggregation):
    """Reads one column; unless a class says otherwise, its state is the result."""

    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Return the states."""
        return states[0]
