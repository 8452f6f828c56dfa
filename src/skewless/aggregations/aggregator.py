"""Aggregations that users write: plain Python, one key at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from skewless.aggregations.aggregation import Aggregation
from skewless.aggregations.columns import by_group, plain
from skewless.aggregations.types import parse_type
from skewless.arrays import Ints
from skewless.plumbing.arguments import shown

S = TypeVar("S")


class Aggregator(ABC, Generic[S]):
    """A user's aggregation: how the records of one key become a state, and states one result.

    A state is a plain Python value that Arrow can hold as the type `state`: a number, a text, a
    dict for a struct or a map, a list, None. It travels as an Arrow column and is never pickled. It
    may be None only if `zero()` is None, so that a forgotten `return` is found.

    The laws, which `check_aggregator` tests: merging with `zero()` changes nothing, merging is
    associative and commutative, and records may be cut into parts and ordered in any way. `update`
    and `merge` may change their first state and return it; nothing else may be changed, and
    `zero()` is a new value each time.

    Examples
    --------
    >>> class Range(Aggregator[dict[str, float] | None]):
    ...     inputs = ("price",)
    ...     state = "struct<low: double, high: double>"
    ...     result = "double"
    ...
    ...     def zero(self):
    ...         return None
    ...
    ...     def update(self, state, records):
    ...         prices = records["price"].drop_null().to_pylist()
    ...         if not prices:
    ...             return state
    ...         return self.merge(state, {"low": min(prices), "high": max(prices)})
    ...
    ...     def merge(self, a, b):
    ...         if a is None or b is None:
    ...             return b if a is None else a
    ...         low, high = min(a["low"], b["low"]), max(a["high"], b["high"])
    ...         return {"low": low, "high": high}
    ...
    ...     def finish(self, state):
    ...         return None if state is None else state["high"] - state["low"]
    >>> from skewless.aggregations import check_aggregator
    >>> len(check_aggregator(Range(), types={"price": "double"})) > 5
    True
    """

    #: The names of the columns that `update` reads.
    inputs: tuple[str, ...]
    #: The type of a state, as Spark's DDL text (or an Arrow type).
    state: str | pa.DataType
    #: The type of the result, as Spark's DDL text (or an Arrow type).
    result: str | pa.DataType
    #: False where states cannot be merged, such as an exact median: then `merge` is never called,
    #: all records of a key come to one `update`, and neither streams, sliding windows nor
    #: strategies that split keys are possible.
    merges: bool = True

    @abstractmethod
    def zero(self) -> S:
        """Return the state of no records."""

    @abstractmethod
    def update(self, state: S, records: pa.RecordBatch) -> S:
        """Return the state after some more records of the key, at least one."""

    def merge(self, a: S, b: S) -> S:
        """Return the state of the records of both; not needed with `merges = False`."""
        raise NotImplementedError(f"{type(self).__name__} has no method merge")

    @abstractmethod
    def finish(self, state: S) -> Any:
        """Return the result."""


def class_name(aggregator: Any) -> str:
    """Return the name of the user's class, even if a class of ours wraps it."""
    return type(getattr(aggregator, "wrapped", aggregator)).__name__


def require_declared(aggregator: Any, base: type[Any]) -> None:
    """Raise ValueError unless a user's aggregator says what it reads, holds and returns."""
    name = class_name(aggregator)
    for attribute in ("inputs", "state", "result"):
        if not hasattr(aggregator, attribute):
            raise ValueError(f"{name}: the attribute {attribute!r} is missing")
    inputs: Any = aggregator.inputs
    if not isinstance(inputs, tuple) or not all(isinstance(i, str) for i in inputs):
        raise ValueError(f"{name}: inputs must be a tuple of column names, not {inputs!r}")
    if not isinstance(aggregator.merges, bool):
        raise ValueError(f"{name}: merges must be True or False, not {shown(aggregator.merges)}")
    if aggregator.merges and type(aggregator).merge is base.merge:
        raise ValueError(f"{name}: the method 'merge' is missing; without it, set merges = False")


def require_returned(states: Sequence[Any], aggregator: Aggregator[Any], method: str) -> None:
    """Raise ValueError if a method has returned None, unless that is the state of no records."""
    if any(state is None for state in states) and aggregator.zero() is not None:
        raise ValueError(f"{class_name(aggregator)}: {method} must return the new state, not None")


def to_arrow(values: Iterable[Any], kind: pa.DataType, owner: object, what: str) -> Any:
    """Return Python values as an Arrow array, or raise a `ValueError` that names their owner."""
    values, name = list(values), class_name(owner)
    if _holds_integers(kind):
        for value in values:
            if _has_fraction(value, kind):
                raise ValueError(
                    f"{name}: the {what} {value!r} is not of the declared type {kind}: "
                    "a whole number would lose its fraction"
                )
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        culprit = next((value for value in values if not _fits(value, kind)), values)
        raise ValueError(
            f"{name}: the {what} {culprit!r} is not of the declared type {kind}: {error}"
        ) from error


def _holds_integers(kind: pa.DataType) -> bool:
    inner = (kind.field(i).type for i in range(kind.num_fields))
    return pt.is_integer(kind) or any(_holds_integers(part) for part in inner)


def _has_fraction(value: Any, kind: pa.DataType) -> bool:
    """Return whether a float for an integer type has a fraction, which Arrow silently drops."""
    if pt.is_integer(kind):
        return isinstance(value, float | np.floating) and not float(value).is_integer()
    if pt.is_struct(kind) and isinstance(value, dict):
        return any(_has_fraction(value.get(field.name), field.type) for field in kind)
    if pt.is_map(kind) and isinstance(value, dict):
        keys, items = (kind.key_type, value.keys()), (kind.item_type, value.values())
        return any(_has_fraction(part, inner) for inner, parts in (keys, items) for part in parts)
    if pt.is_list(kind) and isinstance(value, list | tuple):
        return any(_has_fraction(part, kind.value_type) for part in value)
    return False


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def to_python(column: Any) -> list[Any]:
    """Return the values of an Arrow array, or the rows of a table; a map is a dict."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"a text is not valid UTF-8 and cannot become a str of Python: {error.object!r}. "
            "Repair it with pyspark.sql.functions.make_valid_utf8, or work on Arrow columns "
            "(Processor instead of KeyProcessor, VectorAggregator instead of Aggregator)"
        ) from None
    return values


@dataclass(frozen=True)
class PerKey(Aggregation):
    """Runs an `Aggregator` group by group. State: one column of the aggregator's state type."""

    aggregator: Aggregator[Any]

    def __post_init__(self) -> None:
        """Refuse an aggregator that does not say what it reads and holds."""
        if not isinstance(self.aggregator, Aggregator):
            raise ValueError(
                f"PerKey: aggregator must be an object of a class derived from Aggregator, "
                f"not {shown(self.aggregator)}"
            )
        require_declared(self.aggregator, Aggregator)
        name = class_name(self.aggregator)
        for attribute in ("state", "result"):
            try:
                parse_type(getattr(self.aggregator, attribute))
            except ValueError as error:  # noqa: PERF203 - twice
                raise ValueError(f"{name}: {attribute}: {error}") from error

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the aggregator reads."""
        return self.aggregator.inputs

    @property
    def merges(self) -> bool:
        """What the aggregator says."""
        return self.aggregator.merges

    def state_types(self, input_types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """Return the declared type of the state."""
        return [parse_type(self.aggregator.state)]

    def result_type(self, input_types: Sequence[pa.DataType]) -> pa.DataType:
        """Return the declared type of the result."""
        return parse_type(self.aggregator.result)

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Give each group's records to the aggregator; sorted once, sliced without copying."""
        order = by_group(codes)
        # A batch without columns has no length, so an aggregator that reads none gets the codes.
        arrays = [plain(column) for column in columns] or [pa.array(codes)]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self.inputs) or [""])
        batch = batch.take(pa.array(order))
        ends = np.cumsum(np.bincount(codes, minlength=n_groups)).tolist()
        states = []
        begin = 0
        for end in ends:
            state = self.aggregator.zero()
            if end > begin:
                state = self.aggregator.update(state, batch.slice(begin, end - begin))
            states.append(state)
            begin = end
        return [self._held(states, "update")]

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Merge the states of each group in the order of the rows."""
        merged = [self.aggregator.zero() for _ in range(n_groups)]
        is_first = [True] * n_groups
        try:
            for code, state in zip(codes.tolist(), to_python(plain(states[0])), strict=True):
                first, so_far = is_first[code], merged[code]
                merged[code] = state if first else self.aggregator.merge(so_far, state)
                is_first[code] = False
        except Exception:  # of a merge that got None from the one before
            require_returned(merged, self.aggregator, "merge")
            raise
        return [self._held(merged, "merge")]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Let the aggregator finish each state."""
        results = [self.aggregator.finish(state) for state in to_python(plain(states[0]))]
        return to_arrow(results, parse_type(self.aggregator.result), self.aggregator, "result")

    def _held(self, states: list[Any], method: str) -> Any:
        require_returned(states, self.aggregator, method)
        return to_arrow(states, parse_type(self.aggregator.state), self.aggregator, "state")
