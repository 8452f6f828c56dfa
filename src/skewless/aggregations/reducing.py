"""Aggregators in the shape that Spark gives them: zero, reduce, merge and finish.

Spark's `Aggregator` of Scala has these four methods, and PySpark's own is to have them too. Any
object that has them is accepted, whatever its class.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skewless.aggregations.aggregator import Aggregator, require_returned, to_python
from skewless.plumbing.arguments import shown

_METHODS = ("zero", "reduce", "merge", "finish")
_DECLARED = ("inputs", "state", "result")


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
        it has one, counts as that of an `Aggregator`.
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
    given = {"inputs": inputs, "state": state, "result": result}
    found = {name: getattr(reducer, name, None) for name in _DECLARED}
    declared = {name: found[name] if given[name] is None else given[name] for name in _DECLARED}
    for name, value in declared.items():
        if value is None:
            raise ValueError(
                f"{type(reducer).__name__} has zero, reduce, merge and finish, but does not say "
                f"its {name}: give it the attribute, or wrap it: skewless.aggregations.reducing("
                "…, inputs='price', state='double', result='double')"
            )
    columns = declared["inputs"]
    names = (columns,) if isinstance(columns, str) else columns
    return Reducing(reducer, names, declared["state"], declared["result"])


class Reducing(Aggregator[Any]):
    """Runs an object with zero, reduce, merge and finish; made by `reducing`."""

    def __init__(self, reducer: Any, inputs: Any, state: Any, result: Any) -> None:
        """Keep the object, and what is declared of it."""
        self.wrapped = reducer
        self.inputs = inputs
        self.state = state
        self.result = result
        self.merges = getattr(reducer, "merges", True)

    def __repr__(self) -> str:
        """Show the user's object."""
        return repr(self.wrapped)

    def zero(self) -> Any:
        """Return the buffer of no records."""
        return self.wrapped.zero()

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        """Return the buffer after each record was reduced into it, in their order."""
        reduce = self.wrapped.reduce
        columns = [to_python(records.column(number)) for number in range(len(self.inputs))]
        rows = zip(*columns, strict=True) if columns else [()] * records.num_rows
        try:
            for value in columns[0] if len(columns) == 1 else rows:
                state = reduce(state, value)
        except Exception:  # of a reduce that got None from the one before
            require_returned([state], self, "reduce")
            raise
        require_returned([state], self, "reduce")
        return state

    def merge(self, a: Any, b: Any) -> Any:
        """Return the buffer of the records of both."""
        return self.wrapped.merge(a, b)

    def finish(self, state: Any) -> Any:
        """Return the result."""
        return self.wrapped.finish(state)
