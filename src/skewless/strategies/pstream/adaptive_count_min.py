"""Adaptive count-min sketch (Ada-CMSketch): counts of the recent past, without forgetting at once.

Time is cut into slots. A key has cells of its own in every slot, since key and slot are hashed
together, and later records are written louder: one of slot t counts α^t. A reader of slot t turns
the volume down again by α^t, which makes what older slots left in the same cell a whisper (the
idea of Dolby noise reduction: lift the signal before the noise comes in, lower both afterwards).

Here it is a predictor of hot keys, a rival of `hot_key_predictor`, with the same `observe`:
a key is hot while its estimate over the last slots is above a share f of their records.

With N_s the records of slot s, and for one key and hashes drawn at random: no estimate is too low,
and a slot's is too high by more than ε · Σ_s N_s · α^(s−t) with a probability of at most δ. Slots
after t count in that sum as well, and louder: the further back, the worse. With one slot that never
ends, it is the plain count-min sketch, the other rival, which never forgets.

References
----------
A. Shrivastava, A. C. König, M. Bilenko: Time adaptive sketches (ada-sketches) for summarizing data
streams, SIGMOD 2016. PStream, sections 2 and 6.2, compares with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I64, U64, Bytes, Floats, Keys, Rows, Words
from skewless.kernels.hashing import draw, seed_array, seeded
from skewless.plumbing.compiling import kernel

# The number of the present slot from 0, the records in it, and the records that fill a slot.
COUNTERS = np.dtype([("slot", "i8"), ("records", "i8"), ("slot_length", "i8")])
SETTINGS = np.dtype([("share", "f8"), ("growth", "f8")])  # f and α

_LOUD = 2.0**512
_QUIET = 2.0**-512


class AdaptiveCountMin(NamedTuple):
    """Rows of cells; and of each of the last slots, how loud it is and how many records it has."""

    cells: NDArray[np.float64]  # row by column; the number of columns is a power of two
    seed: Words
    loudness: Floats  # of slot t: α^t, in the unit of the cells
    totals: Floats
    counters: Rows  # [1]
    settings: Rows  # [1]


def adaptive_count_min(
    f: float,
    epsilon: float,
    delta: float,
    *,
    growth: float = 1.5,
    slot: int = 1_000,
    n_slots: int = 4,
    seed: int = 0,
) -> AdaptiveCountMin:
    """Return an empty sketch that calls a key hot above a share `f` of the last slots.

    A slot has `slot` records; `growth` is α, at most 1e9.

    >>> adaptive_count_min(0.01, epsilon=0.01, delta=0.01).cells.shape
    (5, 512)
    """
    shape = (math.ceil(math.log(1 / delta)), 1 << math.ceil(math.log2(math.e / epsilon)))
    return AdaptiveCountMin(
        cells=np.zeros(shape),
        seed=seed_array(seed, 1),
        loudness=np.append(1.0, np.zeros(n_slots - 1)),
        totals=np.zeros(n_slots),
        counters=np.array([(0, 0, slot)], COUNTERS),
        settings=np.array([(f, growth)], SETTINGS),
    )


@kernel
def _column(sketch: AdaptiveCountMin, hashed: U64, slot: I64, row: I64) -> I64:
    """Return the cell of a key in this slot and row."""
    mask = np.uint64(sketch.cells.shape[1] - 1)
    return np.int64(draw(hashed, slot * sketch.cells.shape[0] + row) & mask)


@kernel
def _next_slot(sketch: AdaptiveCountMin) -> None:
    """Begin the next slot, a factor α louder than the present one."""
    counters = sketch.counters[0]
    n_slots = sketch.totals.size
    louder = sketch.loudness[counters["slot"] % n_slots] * sketch.settings[0]["growth"]
    if louder > _LOUD:
        # Before numbers become too large, all get smaller; by a power of two, so exactly.
        louder *= _QUIET
        for place in range(n_slots):
            sketch.loudness[place] *= _QUIET
        for row in range(sketch.cells.shape[0]):
            for column in range(sketch.cells.shape[1]):
                sketch.cells[row, column] *= _QUIET
    counters["slot"] += 1
    counters["records"] = 0
    sketch.loudness[counters["slot"] % n_slots] = louder
    sketch.totals[counters["slot"] % n_slots] = 0.0


@kernel
def add(sketch: AdaptiveCountMin, key: U64) -> None:
    """Count a record of `key` in the present slot."""
    counters = sketch.counters[0]
    if counters["records"] == counters["slot_length"]:
        _next_slot(sketch)
    counters["records"] += 1
    slot = counters["slot"]
    place = slot % sketch.totals.size
    sketch.totals[place] += 1.0
    hashed = seeded(key, sketch.seed[0])
    for row in range(sketch.cells.shape[0]):
        sketch.cells[row, _column(sketch, hashed, slot, row)] += sketch.loudness[place]


@kernel
def estimate(sketch: AdaptiveCountMin, key: U64) -> F64:
    """Return the estimated records of `key` in the last slots, never below the true number."""
    n_slots = sketch.totals.size
    hashed = seeded(key, sketch.seed[0])
    total = 0.0
    last = sketch.counters[0]["slot"]
    for slot in range(max(0, last - n_slots + 1), last + 1):
        smallest = np.inf
        for row in range(sketch.cells.shape[0]):
            smallest = min(smallest, sketch.cells[row, _column(sketch, hashed, slot, row)])
        total += smallest / sketch.loudness[slot % n_slots]
    return total


@kernel
def observe(sketch: AdaptiveCountMin, key: U64) -> bool:
    """Tell whether `key` is hot, then count this record of it."""
    total = 0.0
    for place in range(sketch.totals.size):
        total += sketch.totals[place]
    hot = bool(estimate(sketch, key) > sketch.settings[0]["share"] * total)
    add(sketch, key)
    return hot


@kernel
def observe_all(sketch: AdaptiveCountMin, keys: Keys, hot: Bytes) -> None:
    """Fill `hot` with 1 for each record whose key is hot when it comes, and count them."""
    for i in range(keys.size):
        hot[i] = observe(sketch, keys[i])
