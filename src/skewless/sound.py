"""Checks of a state that was read from a file, before a compiled kernel works with it.

A kernel does not check its indices. A worker that does not exist, or a row outside its table, would
make it read and write foreign memory; a table without an empty slot would make it search for ever.
So each piece of a state may have a method `check(fresh)`. It compares the piece with one that
`start` made, and raises `Unsound` through the functions below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: More than any counter reaches, and far enough from the largest integer to be added to.
MOST_COUNTED = 2**56
#: Larger than any weight or level, and far enough from infinity to be added to.
MOST_WEIGHT = 1e290


class Unsound(ValueError):  # noqa: N818 - it is read as a sentence
    """A state holds values that no sequence of records leads to."""


def require_that(condition: Any, text: str) -> None:
    """Raise `Unsound` with this text unless the condition holds."""
    if not condition:
        raise Unsound(text)


def require_same(name: str, found: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Raise `Unsound` unless an array that never changes is as `start` made it."""
    require_that(np.array_equal(found, wanted), f"{name} must be as the strategy starts with it")


def require_within(name: str, values: NDArray[Any], low: float, high: float) -> None:
    """Raise `Unsound` unless all values are from `low` to `high`; NaN is refused.

    >>> require_within("workers", np.array([0, 7]), 0, 5)
    Traceback (most recent call last):
        ...
    skewless.sound.Unsound: workers must be from 0 to 5, not 7
    """
    if not values.size:
        return
    for worst in (values.min().item(), values.max().item()):
        require_that(low <= worst <= high, f"{name} must be from {low} to {high}, not {worst}")


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
