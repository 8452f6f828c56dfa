"""A state as its differences from a fresh one: only these are written to the ledger.

Most arrays of a state are equal or nearly equal to those of `start`: the points of a ring, tables
with few entries. An equal array is left out. One with few other values is stored as those values
and their positions (under its name with an `@`). Any other is stored completely. Values are
compared by their bits, so the restored state is the same to the last bit.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.state import Unsound, named_arrays

_POSITIONS = "@"
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def changes(state: Any, fresh: Any) -> dict[str, NDArray[Any]]:
    """Return arrays from which `with_changes` restores `state`, given the same `fresh`.

    >>> from typing import NamedTuple
    >>> class Loads(NamedTuple):
    ...     seed: np.ndarray
    ...     loads: np.ndarray
    >>> fresh = Loads(np.array([7]), np.zeros(100))
    >>> loads = fresh.loads.copy()
    >>> loads[3] = 5.0
    >>> {name: a.tolist() for name, a in changes(fresh._replace(loads=loads), fresh).items()}
    {'loads@': [3], 'loads': [5.0]}
    """
    arrays = {}
    for (name, now), (_, then) in zip(named_arrays(state), named_arrays(fresh), strict=True):
        positions = _differing(now, then)
        if positions is None:
            arrays[name] = now
        elif positions.size:
            arrays[name + _POSITIONS] = positions
            arrays[name] = now.reshape(-1)[positions]
    return arrays


def with_changes(fresh: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the state whose `changes` are `arrays`; none is one of `fresh`.

    Raises Unsound where the changes cannot be those of such a state.
    """
    whole = {}
    for name, then in named_arrays(fresh):
        now = arrays[name] if name in arrays else then.copy()
        if name + _POSITIONS in arrays:
            now = _changed(name, then, arrays[name + _POSITIONS], now)
        whole[name] = now
    unknown = arrays.keys() - whole.keys() - {name + _POSITIONS for name in whole}
    if unknown:
        raise Unsound(f"a state has no array {min(unknown)!r}")
    return whole


def fingerprint(fresh: Any) -> int:
    """Return a checksum of a fresh state: changes cannot be applied to another one."""
    found = 0
    for name, array in named_arrays(fresh):
        described = f"{name} {array.dtype.str} {array.shape}"
        found = zlib.crc32(described.encode(), found)
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    return found


def _differing(now: NDArray[Any], then: NDArray[Any]) -> NDArray[Any] | None:
    """Return the positions of other values; None if the complete array takes less room."""
    word = _WORDS.get(now.dtype.itemsize)
    if now.dtype != then.dtype or now.shape != then.shape or word is None:
        return None
    flat = (np.ascontiguousarray(array).reshape(-1).view(word) for array in (now, then))
    positions = np.flatnonzero(np.not_equal(*flat))
    small = positions.astype(np.uint32 if now.size <= 1 << 32 else np.uint64)
    return small if small.size * (small.itemsize + now.itemsize) < max(now.nbytes, 1) else None


def _changed(
    name: str, then: NDArray[Any], positions: NDArray[Any], values: NDArray[Any]
) -> NDArray[Any]:
    fits = positions.dtype.kind == "u" and positions.shape == values.shape
    if not fits or values.dtype != then.dtype or not (positions < then.size).all():
        raise Unsound(f"the changes of the array {name!r} are not changes of {then.size} values")
    array: NDArray[Any] = then.copy()
    array.reshape(-1)[positions] = values
    return array
