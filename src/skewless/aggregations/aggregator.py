"""Aggregations that users write in plain Python: one key, or one record, at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import in_order, plain
from skewless.aggregations.python_values import class_name, to_arrow, to_python
from skewless.aggregations.types import parse_type
from skewless.aggregations.vector_aggregator import PerColumn
from skewless.arrays import Ints
from skewless.plumbing.arguments import shown

S = TypeVar("S")
_METHODS = ("zero", "reduce", "merge", "finish")


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


def require_returned(states: Sequence[Any], aggregator: Aggregator[Any], method: str) -> None:
    """Raise ValueError if a method has returned None, unless that is the state of no records."""
    if any(state is None for state in states) and aggregator.zero() is not None:
        raise ValueError(f"{class_name(aggregator)}: {method} must return the new state, not None")


@dataclass(frozen=True)
class PerKey(PerColumn):
    """Runs an `Aggregator` key by key. State: one column of the aggregator's state type."""

    aggregator: Aggregator[Any]  # type: ignore[assignment]
    _base: ClassVar[type[Any]] = Aggregator

    @staticmethod
    def _fields_of(state: str | pa.DataType) -> list[pa.Field]:
        return [pa.field("state", parse_type(state))]

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Give each key's records to the aggregator; sorted once, sliced without copying."""
        arrays, names = [plain(column) for column in columns], list(self.inputs)
        if not names:  # a batch without columns has no length
            arrays, names = [pa.array(codes)], [""]
        batch = pa.RecordBatch.from_arrays(arrays, names=names).take(pa.array(in_order(codes)))
        states = []
        begin = 0
        for end in np.cumsum(np.bincount(codes, minlength=n_groups)).tolist():
            state = self.aggregator.zero()
            if end > begin:
                state = self.aggregator.update(state, batch.slice(begin, end - begin))
            states.append(state)
            begin = end
        return self._states(states, "update")

    def merge(self, states: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Merge the states of each key in the order of the rows."""
        one = self.aggregator
        merged = [one.zero() for _ in range(n_groups)]
        is_first = [True] * n_groups
        try:
            for key, state in zip(codes.tolist(), to_python(plain(states[0])), strict=True):
                merged[key] = state if is_first[key] else one.merge(merged[key], state)
                is_first[key] = False
        except Exception:  # of a merge that got None from the one before
            require_returned(merged, one, "merge")
            raise
        return self._states(merged, "merge")

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        """Let the aggregator finish each state."""
        results = [self.aggregator.finish(state) for state in to_python(plain(states[0]))]
        return to_arrow(results, self.result_type([]), self.aggregator, "result")

    def _states(self, states: list[Any], method: str) -> list[pa.Array]:
        require_returned(states, self.aggregator, method)
        return [to_arrow(states, self.fields[0].type, self.aggregator, "state")]


def is_reducer(value: object) -> bool:
    """Return whether this is an object, or a class, with the four methods of Spark's Aggregator."""
    return not isinstance(value, Aggregator) and all(
        callable(getattr(value, name, None)) for name in _METHODS
    )


def reducing(
    reducer: Any,
    *,
    inputs: str | tuple[str, ...] | None = None,
    state: str | pa.DataType | None = None,
    result: str | pa.DataType | None = None,
) -> Reducing:
    """Return an object with zero, reduce, merge and finish as an `Aggregator`.

    Parameters
    ----------
    reducer
        The object. `reduce(buffer, value)` gets one record at a time: the value of the column, None
        for null, or a tuple of the values if there are several inputs. Its attribute `merges`, if
        it has one, counts as that of an `Aggregator`. An object of Spark's own class is used as it
        is: its types are `bufferSchema` and `outputType`, its buffer is a tuple of the fields, and
        `reduce` gets a tuple even of one value.
    inputs
        The column that it reads, or several; None: its attribute `inputs`.
    state
        The type of a buffer, as Spark's DDL text; None: its attribute `state`. A struct is a dict.
    result
        The type of what `finish` returns, as Spark's DDL text; None: its attribute `result`.

    Examples
    --------
    >>> class Product:
    ...     def zero(self):
    ...         return 1.0
    ...
    ...     def reduce(self, buffer, value):
    ...         return buffer if value is None else buffer * value
    ...
    ...     def merge(self, one, other):
    ...         return one * other
    ...
    ...     def finish(self, buffer):
    ...         return buffer
    >>> product = reducing(Product(), inputs="growth", state="double", result="double")
    >>> product.update(product.zero(), pa.record_batch({"growth": [2.0, None, 1.5]}))
    3.0
    """
    if isinstance(reducer, type) or not is_reducer(reducer):
        raise ValueError(
            f"reducer must be an object with the methods {', '.join(_METHODS)}, "
            f"not {shown(reducer)}"
        )
    declared: dict[str, Any] = {"inputs": inputs, "state": state, "result": result}
    fields = _fields_of_spark(reducer)
    if fields is not None:
        if state is not None or result is not None:
            raise ValueError(
                f"{type(reducer).__name__} has bufferSchema and outputType: leave out state and "
                "result"
            )
        declared["state"] = reducer.bufferSchema.simpleString()
        declared["result"] = reducer.outputType.simpleString()
    for name in declared:
        if declared[name] is None:
            declared[name] = getattr(reducer, name, None)
        if declared[name] is None:
            raise ValueError(
                f"{type(reducer).__name__} has zero, reduce, merge and finish, but does not say "
                f"its {name}: give it the attribute, or wrap it: skewless.aggregations.reducing("
                "…, inputs='price', state='double', result='double')"
            )
    if isinstance(declared["inputs"], str):
        declared["inputs"] = (declared["inputs"],)
    return Reducing(reducer, **declared, fields=fields)


def _fields_of_spark(reducer: Any) -> tuple[str, ...] | None:
    """Return the names of the buffer's fields if the object is of Spark's own class."""
    kinds: list[Any] = [getattr(reducer, name, None) for name in ("bufferSchema", "outputType")]
    if not all(hasattr(kind, "simpleString") for kind in kinds):
        return None
    names = tuple(getattr(kinds[0], "names", ()))
    text = kinds[0].simpleString()
    is_flat = "struct<" not in text.removeprefix("struct<")
    are_plain = all(name.replace("_", "a").isalnum() for name in names)
    if not names or len(set(names)) < len(names) or not is_flat or not are_plain:
        raise ValueError(
            f"bufferSchema of {type(reducer).__name__} must be a struct whose fields have "
            f"different names of letters, digits and _, without a struct inside, not {text}"
        )
    return names


@dataclass(eq=False, repr=False)
class Reducing(Aggregator[Any]):
    """Runs an object with zero, reduce, merge and finish; made by `reducing`.

    `fields` are those of a buffer that is a tuple, as in Spark; our state is a dict of them.
    """

    wrapped: Any
    inputs: Any
    state: Any
    result: Any
    fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Keep what the object says of merging."""
        self.merges = getattr(self.wrapped, "merges", True)

    def __repr__(self) -> str:
        """Show the user's object."""
        return repr(self.wrapped)

    def zero(self) -> Any:
        """Return the buffer of no records."""
        return self._state(self.wrapped.zero(), "zero")

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        """Return the buffer after each record was reduced into it, in their order."""
        reduce = self.wrapped.reduce
        columns = [to_python(records.column(number)) for number in range(len(self.inputs))]
        rows = zip(*columns, strict=True) if columns else [()] * records.num_rows
        is_alone = len(columns) == 1 and self.fields is None
        buffer = self._buffer(state)
        try:
            for value in columns[0] if is_alone else rows:
                buffer = reduce(buffer, value)
        except Exception:  # of a reduce that got None from the one before
            require_returned([buffer], self, "reduce")
            raise
        require_returned([buffer], self, "reduce")
        return self._state(buffer, "reduce")

    def merge(self, a: Any, b: Any) -> Any:
        """Return the buffer of the records of both."""
        return self._state(self.wrapped.merge(self._buffer(a), self._buffer(b)), "merge")

    def finish(self, state: Any) -> Any:
        """Return the result."""
        return self.wrapped.finish(self._buffer(state))

    def _buffer(self, state: Any) -> Any:
        if self.fields is None or state is None:
            return state
        return tuple(state[name] for name in self.fields)

    def _state(self, buffer: Any, method: str) -> Any:
        """Turn a buffer into the value of a state column."""
        if self.fields is None or buffer is None:
            return buffer
        if not isinstance(buffer, tuple) or len(buffer) != len(self.fields):
            raise ValueError(
                f"{type(self.wrapped).__name__}.{method} must return a tuple of "
                f"{', '.join(self.fields)}, as bufferSchema says, not {shown(buffer)}"
            )
        return dict(zip(self.fields, buffer, strict=True))
