"""What a strategy remembers: (nested) NamedTuples of arrays, and the few things done with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")


def named_arrays(state: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every array of `state` with its dotted name, in a fixed order.

    >>> from typing import NamedTuple
    >>> class Inner(NamedTuple):
    ...     counts: np.ndarray
    >>> class Outer(NamedTuple):
    ...     loads: np.ndarray
    ...     head: Inner
    >>> [name for name, _ in named_arrays(Outer(np.zeros(2), Inner(np.ones(3))))]
    ['loads', 'head.counts']
    """
    for field, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            yield prefix + field, value
        elif hasattr(value, "_fields"):
            yield from named_arrays(value, f"{prefix}{field}.")
        else:
            raise TypeError(
                f"state field {prefix + field!r} is a {type(value).__name__}; "
                "a state holds arrays and NamedTuples of arrays only (a scalar is an array of 1)"
            )


def state_bytes(state: Any) -> int:
    """Return the bytes that the arrays of `state` take."""
    return sum(array.nbytes for _, array in named_arrays(state))


def copy_state(state: S) -> S:
    """Return a copy that shares no array with `state`."""
    return with_arrays(state, {name: array.copy() for name, array in named_arrays(state)})


def with_arrays(state: S, arrays: dict[str, NDArray[Any]], prefix: str = "") -> S:
    """Return a state of the same shape as `state` that holds `arrays`, by dotted name.

    Together with `named_arrays` this is how a state goes into a file and comes back.
    """
    fields = []
    for field, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined,call-overload]
        if isinstance(value, np.ndarray):
            fields.append(arrays[prefix + field])
        else:
            fields.append(with_arrays(value, arrays, f"{prefix}{field}."))
    return type(state)(*fields)
