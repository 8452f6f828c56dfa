"""Aggregations that users write over whole columns: many keys at once, no Python value per key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from skewless.aggregations.aggregation import Aggregation
from skewless.aggregations.columns import plain
from skewless.aggregations.python_values import class_name, to_arrow
from skewless.aggregations.types import parse_fields, parse_type
from skewless.arrays import Ints
from skewless.plumbing.arguments import shown

#: A column as a user's code returns it.
Column: TypeAlias = Any


class VectorAggregator(ABC):
    """A user's aggregation over columns: the records of many keys become a row of state each.

    The keys of a call are numbered 0 … n_keys − 1, and `keys` holds the number of each row. Every
    method returns whole columns, as Arrow arrays, numpy arrays or lists. `update` and `merge`
    return one value per key in each column of the state. A key without a row gets the state of no
    records, and merging with that changes nothing. `bincount`, `add.at` and `minimum.at` of numpy
    do so.

    The laws are those of `Aggregator`, and one more: a key's result does not depend on the other
    keys of the call. `check_aggregator` tests them all.

    Examples
    --------
    >>> class Vwap(VectorAggregator):
    ...     inputs = ("price", "size")
    ...     state = "paid double, size double"
    ...     result = "double"
    ...
    ...     def update(self, records, keys, n_keys):
    ...         price = records["price"].fill_null(0).to_numpy(zero_copy_only=False)
    ...         size = records["size"].fill_null(0).to_numpy(zero_copy_only=False)
    ...         paid = np.bincount(keys, price * size, n_keys)
    ...         return {"paid": paid, "size": np.bincount(keys, size, n_keys)}
    ...
    ...     def merge(self, states, keys, n_keys):
    ...         return {
    ...             name: np.bincount(keys, states[name].to_numpy(), n_keys)
    ...             for name in ("paid", "size")
    ...         }
    ...
    ...     def finish(self, states):
    ...         paid, size = (states[name].to_numpy() for name in ("paid", "size"))
    ...         return pa.array(paid / np.where(size == 0, 1, size), mask=size == 0)
    >>> from skewless.aggregations import check_aggregator
    >>> "keys_do_not_mix" in check_aggregator(Vwap())
    True
    """

    #: The names of the columns that `update` reads.
    inputs: tuple[str, ...]
    #: The columns of the state as Spark's DDL text, such as "n bigint, total double".
    state: str | pa.DataType
    #: The type of the result, as Spark's DDL text (or an Arrow type).
    result: str | pa.DataType
    #: False where states cannot be merged: as for `Aggregator`.
    merges: bool = True

    @abstractmethod
    def update(self, records: pa.RecordBatch, keys: Ints, n_keys: int) -> Mapping[str, Column]:
        """Return the columns of the state of each key, from records; without inputs see `keys`."""

    def merge(self, states: pa.RecordBatch, keys: Ints, n_keys: int) -> Mapping[str, Column]:
        """Return the columns of the state of each key, from rows of states."""
        raise NotImplementedError(f"{type(self).__name__} has no method merge")

    @abstractmethod
    def finish(self, states: pa.RecordBatch) -> Column:
        """Return the result of each row of states."""


@dataclass(frozen=True)
class PerColumn(Aggregation):
    """Runs a `VectorAggregator`. State: the columns that it declares."""

    aggregator: VectorAggregator
    #: What the user's class is derived from.
    _base: ClassVar[type[Any]] = VectorAggregator

    @staticmethod
    def _fields_of(state: str | pa.DataType) -> list[pa.Field]:
        return parse_fields(state)

    def __post_init__(self) -> None:
        """Refuse an aggregator that does not say what it reads, holds and returns."""
        one: Any = self.aggregator
        if not isinstance(one, self._base):
            raise ValueError(
                f"{type(self).__name__}: aggregator must be an object of a class derived from "
                f"{self._base.__name__}, not {shown(one)}"
            )
        name = class_name(one)
        for attribute in ("inputs", "state", "result"):
            if not hasattr(one, attribute):
                raise ValueError(f"{name}: the attribute {attribute!r} is missing")
        if not isinstance(one.inputs, tuple) or not all(isinstance(i, str) for i in one.inputs):
            raise ValueError(f"{name}: inputs must be a tuple of column names, not {one.inputs!r}")
        if not isinstance(one.merges, bool):
            raise ValueError(f"{name}: merges must be True or False, not {shown(one.merges)}")
        if one.merges and type(one).merge is self._base.merge:
            raise ValueError(
                f"{name}: the method 'merge' is missing; without it, set merges = False"
            )
        for attribute, parse in (("state", self._fields_of), ("result", parse_type)):
            try:
                found = parse(getattr(one, attribute))
            except ValueError as error:
                raise ValueError(f"{name}: {attribute}: {error}") from error
            if found == []:
                raise ValueError(f"{name}: state must have at least one column, such as 'n bigint'")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the aggregator reads."""
        return self.aggregator.inputs

    @property
    def merges(self) -> bool:
        """What the aggregator says."""
        return self.aggregator.merges

    @cached_property
    def fields(self) -> list[pa.Field]:
        """The columns of the state."""
        return self._fields_of(self.aggregator.state)

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the declared types of the state's columns."""
        return [field.type for field in self.fields]

    def result_type(self, input_types: Sequence[pa.DataType]) -> pa.DataType:
        """Return the declared type of the result."""
        return parse_type(self.aggregator.result)

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Give all records to the aggregator at once."""
        batch = pa.RecordBatch.from_arrays(
            [plain(column) for column in columns], names=list(self.inputs)
        )
        return self._held(self.aggregator.update(batch, codes, n_groups), "update", n_groups)

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Give all states to the aggregator at once."""
        merged = self.aggregator.merge(self._rows(states), codes, n_groups)
        return self._held(merged, "merge", n_groups)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Let the aggregator finish all states at once."""
        rows = self._rows(states)
        results = self.aggregator.finish(rows)
        return self._column(results, self.result_type([]), "finish", "result", rows.num_rows)

    def _rows(self, states: Sequence[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([plain(s) for s in states], schema=pa.schema(self.fields))

    def _held(self, columns: Any, method: str, n_groups: int) -> list[pa.Array]:
        names = [field.name for field in self.fields]
        if not isinstance(columns, Mapping) or set(columns) != set(names):
            given = sorted(columns) if isinstance(columns, Mapping) else shown(columns)
            raise ValueError(
                f"{type(self.aggregator).__name__}: {method} must return a mapping with the "
                f"columns {', '.join(names)}, not {given}"
            )
        return [
            self._column(columns[field.name], field.type, method, f"state {field.name!r}", n_groups)
            for field in self.fields
        ]

    def _column(self, values: Any, kind: pa.DataType, method: str, what: str, n_rows: int) -> Any:
        """Return a user's column as an Arrow array, or raise a ValueError that names its owner."""
        name = type(self.aggregator).__name__
        if not isinstance(values, pa.Array | pa.ChunkedArray | np.ndarray | list):
            raise ValueError(f"{name}: {method} must return columns, and {what} is {shown(values)}")
        if len(values) != n_rows:
            raise ValueError(
                f"{name}: {method} must return one value per key: {what} has {len(values)} values "
                f"for {n_rows} keys"
            )
        try:
            if isinstance(values, np.ndarray) and values.dtype != object:
                values = pa.array(values)
            if isinstance(values, pa.Array | pa.ChunkedArray):
                column = plain(values)
                return column if column.type == kind else column.cast(kind)
        except (pa.ArrowException, TypeError) as error:
            raise ValueError(
                f"{name}: {method}: {what} is not of the declared type {kind}: {error}"
            ) from error
        return to_arrow(values, kind, self.aggregator, what)
