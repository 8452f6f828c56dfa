"""Counts, slide by slide, what the combiners and the reducers of a sliding window have to do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I64, Floats, Ints, SmallInts, Workers
from skewless.plumbing.compiling import kernel

# Columns of the counts of a slide.
PEAK = 0  # records of the busiest worker over the last `recent` slides
TOTAL = 1  # records of all workers over the same slides
MERGED_PEAK = 2  # pairs (key, worker) that the busiest reducer merges at the end of the slide
MERGED = 3
PAIRS = 4  # of the window
KEYS = 5
WATCHED = 6  # workers that hold the watched key
SQUARES_PEAK = 7  # the most, over workers, of the sum over keys of records in the window, squared
COLUMNS = 8


class Shape(NamedTuple):
    """The sizes of a window; all count records or slides."""

    slide: int
    n_slides: int
    recent: int
    n_workers: int
    split_only: int  # 1: only keys on two workers or more are merged
    watched: int  # a key


class Held(NamedTuple):
    """What the window holds."""

    records: SmallInts  # by pair, flat: key · workers + worker
    widths: SmallInts  # by key: workers that hold it
    reducers: SmallInts  # by key: which reducer merges it
    merged: Ints  # by reducer: pairs
    loads: Ints  # by worker, over the recent slides
    squares: Floats  # by worker
    totals: Ints  # pairs, keys, merged pairs


def held(n_keys: int, n_workers: int, reducers: SmallInts) -> Held:
    """Return an empty window; `reducers` says for each key which reducer merges it."""
    return Held(
        np.zeros(n_keys * n_workers, np.int32),
        np.zeros(n_keys, np.int32),
        reducers,
        np.zeros(int(reducers.max(initial=0)) + 1, np.int64),
        np.zeros(n_workers, np.int64),
        np.zeros(n_workers),
        np.zeros(3, np.int64),
    )


@kernel
def _most(values: NDArray[Any]) -> F64:
    """Return the largest of the values."""
    most = values[0]
    for i in range(1, values.size):
        most = max(most, values[i])
    return most


@kernel
def _merges(width: I64, split_only: I64) -> I64:
    """Count the merged pairs of a key on this many workers."""
    return np.int64(0) if split_only and width < 2 else np.int64(width)


@kernel
def _widen(window: Held, shape: Shape, key: I64, by: I64) -> None:
    """Add or remove one worker of `key`."""
    width = np.int64(window.widths[key])
    window.widths[key] += by
    window.totals[0] += by
    window.totals[1] += np.int64(width + by == 1 and by == 1) - np.int64(width == 1 and by == -1)
    more = _merges(width + by, shape.split_only) - _merges(width, shape.split_only)
    window.merged[window.reducers[key]] += more
    window.totals[2] += more


@kernel
def count_slides(keys: Ints, workers: Workers, shape: Shape, window: Held, out: Ints) -> None:
    """Fill one row of `out` per whole slide; `keys` are numbers from 0."""
    size = shape.slide
    for slide in range(out.shape[0]):
        old = max(0, slide - shape.n_slides + 1) * size
        for i in range(max(0, old - size), old):
            pair = keys[i] * shape.n_workers + workers[i]
            window.records[pair] -= 1
            window.squares[workers[i]] -= 2.0 * window.records[pair] + 1.0
            if window.records[pair] == 0:
                _widen(window, shape, keys[i], -1)
        old = max(0, slide - shape.recent + 1) * size
        for i in range(max(0, old - size), old):
            window.loads[workers[i]] -= 1
        for i in range(slide * size, slide * size + size):
            pair = keys[i] * shape.n_workers + workers[i]
            window.squares[workers[i]] += 2.0 * window.records[pair] + 1.0
            window.records[pair] += 1
            window.loads[workers[i]] += 1
            if window.records[pair] == 1:
                _widen(window, shape, keys[i], 1)
        out[slide, PEAK] = _most(window.loads)
        out[slide, TOTAL] = min(slide + 1, shape.recent) * size
        out[slide, MERGED_PEAK] = _most(window.merged)
        out[slide, MERGED] = window.totals[2]
        out[slide, PAIRS] = window.totals[0]
        out[slide, KEYS] = window.totals[1]
        out[slide, WATCHED] = window.widths[shape.watched]
        out[slide, SQUARES_PEAK] = np.int64(_most(window.squares))
