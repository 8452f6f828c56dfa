"""States of strategies, (nested) NamedTuples of arrays: copied, measured, stored, checked.

A kernel does not check its indices. A worker that does not exist, or a row outside its table, would
make it read and write foreign memory; a table without an empty slot would make it search for ever.
So the class of a piece may be decorated with `fixed` and `within`, and have a method `check(fresh)`
for the rest. It compares the piece with one that `start` made, and raises `Unsound` through the
functions below.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")

#: More than any counter reaches, and far enough from the largest integer to be added to.
MOST_COUNTED = 2**56
#: Larger than any weight or level, and far enough from infinity to be added to.
MOST_WEIGHT = 1e290


class Unsound(ValueError):  # noqa: N818 - it is read as a sentence
    """A state holds values that no sequence of records leads to."""


def zeros(kind: type[S], size: int, /, **others: Any) -> S:
    """Build a piece of a state: in each field, `size` zeros of the type that the field declares.

    `others` are, by field, another size, or the field itself.

    >>> from typing import NamedTuple
    >>> class Counted(NamedTuple):
    ...     keys: NDArray[np.uint64]
    ...     counts: NDArray[np.float64]
    >>> zeros(Counted, 2, counts=1)
    Counted(keys=array([0, 0], dtype=uint64), counts=array([0.]))
    """
    fields = dict(others)
    for name, hint in get_type_hints(kind).items():
        if isinstance(fields.setdefault(name, size), int):
            (scalar,) = get_args(get_args(hint)[1])
            fields[name] = np.zeros(fields[name], scalar)
    return kind(**fields)


def named_arrays(state: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every array of `state` with its dotted name, in a fixed order.

    An array with named fields gives one array per field, a view. So a state is stored, compared
    and checked field by field, and a file holds simple types only.

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
            for name, column in _columns(value):
                yield prefix + field + name, column
        elif hasattr(value, "_fields"):
            yield from named_arrays(value, f"{prefix}{field}.")
        else:
            raise TypeError(
                f"state field {prefix + field!r} is a {type(value).__name__}; "
                "a state holds arrays and NamedTuples of arrays only (a scalar is an array of 1)"
            )


def _columns(array: NDArray[Any]) -> list[tuple[str, NDArray[Any]]]:
    """Return the fields of an array, each with a dot and its name, or the array if it has none."""
    names = array.dtype.names
    return [("", array)] if names is None else [(f".{name}", array[name]) for name in names]


def state_bytes(state: Any) -> int:
    """Return the bytes that the arrays of `state` take."""
    return sum(array.nbytes for _, array in named_arrays(state))


def copy_state(state: S) -> S:
    """Return a copy that shares no array with `state`."""
    values: Any = state
    return type(state)(*(v.copy() if isinstance(v, np.ndarray) else copy_state(v) for v in values))


def with_arrays(state: S, arrays: dict[str, NDArray[Any]], prefix: str = "") -> S:
    """Return a state of the same shape as `state` that holds `arrays`, by dotted name.

    With `named_arrays`, this is how a state is written to a file and read back.
    """
    fields = []
    for field, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined,call-overload]
        if not isinstance(value, np.ndarray):
            fields.append(with_arrays(value, arrays, f"{prefix}{field}."))
        elif value.dtype.names is None:
            fields.append(arrays[prefix + field])
        else:
            rows = np.empty(value.shape, value.dtype)
            for name in value.dtype.names:
                rows[name] = arrays[f"{prefix}{field}.{name}"]
            fields.append(rows)
    return type(state)(*fields)


def layout(state: Any) -> str:
    """Return a short digest of the names, types and shapes of the arrays of `state`."""
    described = [(name, array.dtype.str, array.shape) for name, array in named_arrays(state)]
    return hashlib.blake2b(json.dumps(described).encode(), digest_size=8).hexdigest()


def restored(fresh: S, arrays: dict[str, NDArray[Any]]) -> S:
    """Return the state that holds `arrays`, after a check against `fresh`, which `start` made.

    Names, types and shapes must be those of `fresh`. Values must not make a kernel read outside its
    arrays: each piece of the state checks that in its method `check`, if it has one. Fields that
    its class declares as `growing` may have any length. Raises `Unsound`.
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
    """Check each piece of `state`, whose arrays have the right shapes, by what its class requires.

    That is what its decorators say, `fixed` and `within`, and then its method `check`.
    """
    for field, value in zip(fresh._fields, fresh, strict=True):
        if not isinstance(value, np.ndarray):
            check_state(getattr(state, field), value, f"{prefix}{field}.")
    try:
        for name in getattr(fresh, "_fixed", ()):
            require_same(name, getattr(state, name), getattr(fresh, name))
        for name, low, high in getattr(fresh, "_bounds", ()):
            require_within(name, getattr(state, name), low, high)
        if "check" not in state._fields and hasattr(state, "check"):
            state.check(fresh)
    except Unsound as error:
        raise Unsound(f"{prefix}{error}") from None


def require_that(condition: Any, text: str) -> None:
    """Raise `Unsound` with this text unless the condition holds."""
    if not condition:
        raise Unsound(text)


def require_same(name: str, found: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Raise `Unsound` unless an array that never changes is as `start` made it."""
    require_that(np.array_equal(found, wanted), f"{name} must be as the strategy starts with it")


def require_within(name: str, values: NDArray[Any], low: float, high: float) -> None:
    """Raise `Unsound` unless all values, of all fields, are from `low` to `high`; NaN is refused.

    >>> require_within("workers", np.array([0, 7]), 0, 5)
    Traceback (most recent call last):
        ...
    skewless.state.Unsound: workers must be from 0 to 5, not 7
    """
    for field, column in _columns(values):
        for worst in (column.min().item(), column.max().item()) if column.size else ():
            require_that(
                low <= worst <= high, f"{name}{field} must be from {low} to {high}, not {worst}"
            )


def fixed(*names: str) -> Callable[[type[S]], type[S]]:
    """Require, of a class of states, that these arrays stay as `start` made them."""
    return _declaring("_fixed", names)


def within(low: float, high: float, *names: str) -> Callable[[type[S]], type[S]]:
    """Require, of a class of states, that all values of these arrays are from `low` to `high`."""
    return _declaring("_bounds", [(name, low, high) for name in names])


def growing(*names: str) -> Callable[[type[S]], type[S]]:
    """Let, in a class of states, these arrays have any length; `named_arrays` has their names."""
    return _declaring("grows", names)


def _declaring(attribute: str, facts: Sequence[Any]) -> Callable[[type[S]], type[S]]:
    def decorated(kind: type[S]) -> type[S]:
        setattr(kind, attribute, [*facts, *getattr(kind, attribute, ())])
        return kind

    return decorated


def require_rows(name: str, used: NDArray[Any], free: NDArray[Any], n_rows: int) -> None:
    """Raise `Unsound` unless each of the rows 0 … n_rows − 1 is used once or free once."""
    rows = np.sort(np.concatenate([used.astype(np.int64), free.astype(np.int64)]))
    require_that(
        np.array_equal(rows, np.arange(n_rows)), f"{name} must have each row once, used or free"
    )


def require_workers(name: str, sets: NDArray[np.uint64], n_workers: int) -> None:
    """Raise `Unsound` unless sets of workers, as words of bits, hold workers that exist."""
    if n_workers % 64:
        n_words = (n_workers + 63) // 64  # as `kernels.bits.words_for`, one layer above
        last = sets.reshape(-1, n_words)[:, -1]
        beyond = last >> np.uint64(n_workers % 64)
        require_that(not beyond.any(), f"{name} must hold workers below {n_workers}")
