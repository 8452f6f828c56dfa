"""States of strategies, (nested) NamedTuples of arrays: copied, measured, stored, restored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewless.sound import Unsound

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

    With `named_arrays`, this is how a state is written to a file and read back.
    """
    fields = []
    for field, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined,call-overload]
        if isinstance(value, np.ndarray):
            fields.append(arrays[prefix + field])
        else:
            fields.append(with_arrays(value, arrays, f"{prefix}{field}."))
    return type(state)(*fields)


def layout(state: Any) -> str:
    """Return a short digest of the names, types and shapes of the arrays of `state`."""
    described = [(name, array.dtype.str, array.shape) for name, array in named_arrays(state)]
    return hashlib.blake2b(json.dumps(described).encode(), digest_size=8).hexdigest()


def restored(fresh: S, arrays: dict[str, NDArray[Any]]) -> S:
    """Return the state that holds `arrays`, after a check against `fresh`, which `start` made.

    Names, types and shapes must be those of `fresh`. Values must not make a kernel read outside its
    arrays: each piece of the state checks that in its method `check`, if it has one. Fields that
    the state's class names in `grows` may have any length. Raises `Unsound`.
    """
    wanted = dict(named_arrays(fresh))
    for name in sorted(wanted.keys() | arrays.keys()):
        if name not in arrays or name not in wanted:
            raise Unsound(f"it has {'no' if name in wanted else 'an unknown'} array {name!r}")
        found, like = arrays[name], wanted[name]
        if found.dtype != like.dtype:
            raise Unsound(f"{name} must be of type {like.dtype}, not {found.dtype.str}")
        may_grow = name in getattr(fresh, "grows", ()) and found.ndim == like.ndim
        if found.shape != like.shape and not may_grow:
            raise Unsound(f"{name} must have the shape {like.shape}, not {found.shape}")
    state = with_arrays(fresh, arrays)
    check_state(state, fresh)
    return state


def check_state(state: Any, fresh: Any, prefix: str = "") -> None:
    """Call the `check` of each piece of `state`, whose arrays have the right shapes."""
    for field, value in zip(fresh._fields, fresh, strict=True):
        if not isinstance(value, np.ndarray):
            check_state(getattr(state, field), value, f"{prefix}{field}.")
    if "check" in state._fields or not hasattr(state, "check"):
        return
    try:
        state.check(fresh)
    except Unsound as error:
        raise Unsound(f"{prefix}{error}") from None
