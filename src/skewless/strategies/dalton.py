"""Dalton: a contextual bandit learns where hot keys go; the others are hashed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Floats, Ints, Keys, Words, Workers
from skewless.kernels import slides
from skewless.kernels.hashing import draw, mix, seed_array, seeded, to_unit, to_worker
from skewless.kernels.hot_keys import (
    ALWAYS,
    NEVER,
    HotKeys,
    drop_row,
    has_owner,
    hot_keys,
    owned_rows,
    take_row,
)
from skewless.kernels.key_counts import (
    KeyCounts,
    count,
    count_of,
    exact_counts,
    forget_counts,
    hybrid_counts,
    sketched_counts,
)
from skewless.kernels.key_table import ABSENT, get
from skewless.kernels.q_table import (
    QTable,
    best,
    clear_row,
    forget_kept,
    keep,
    learn,
    q_table,
    row_values,
    set_row,
    with_kept,
)
from skewless.kernels.slides import Replicas, SlideLoads, clear_replicas, is_on, place_on
from skewless.parameters import require
from skewless.state import copy_state
from skewless.strategy import Traits

# Positions in `counters`.
WINDOW = 0  # number of the statistics window
RECORDS = 1  # records in it
DRAWS = 2  # random numbers used
SPLIT_LIMIT = 3  # a key on so many workers explores no further
WAITING = 4  # 1 between the message to the others and their answer (AWAIT)
STATS_WINDOW, BY_BATCH, MOST_SPLITS = 5, 6, 7  # parameters

# Positions in `levels`.
HOT_ABOVE = 0  # records in the window that make a key hot
WATCH_ABOVE = 1  # records in the window that make a key worth a row
SCALE = 2  # load of all sources / load of this one, at the last merge
ENDED = 3  # records of the window that was sent to the others
RATE, EXPLORATION, LOAD_WEIGHT, REPLICA_WEIGHT = 4, 5, 6, 7  # parameters: γ, ε, p1, p2

_LEAST_REWARD = -2.0
_FIRST_SPLIT_LIMIT = 2
_CROWDED = 0.7


class DaltonState(NamedTuple):
    """Statistics of the keys, the window of loads, and what was learned about hot keys."""

    seeds: Words  # of the hash, of the exploration
    counters: Ints
    levels: Floats
    counts: KeyCounts  # of keys without a row
    window: SlideLoads
    hot: HotKeys
    replicas: Replicas  # of the keys with a row
    q: QTable


@kernel
def _next_window(state: DaltonState) -> None:
    """Begin the next statistics window; keys that were hot in neither of the last two are cold."""
    counters = state.counters
    counters[WINDOW] += 1
    counters[RECORDS] = 0
    n_hot = 0
    n_full = 0
    for row in range(state.hot.keys.size):
        if has_owner(state.hot, row):
            state.hot.counts[row] = 0.0
            if state.hot.until[row] < counters[WINDOW]:
                drop_row(state.hot, row)
            else:
                n_hot += 1
                n_full += np.int64(state.replicas.widths[row] >= counters[SPLIT_LIMIT])
    forget_counts(state.counts)
    if n_full > _CROWDED * n_hot and counters[SPLIT_LIMIT] < counters[MOST_SPLITS]:
        counters[SPLIT_LIMIT] += 1


@kernel
def _observe(state: DaltonState, key: U64) -> I64:
    """Count a record; return the row of its key, or ABSENT (Alg. 1, l. 1–2)."""
    state.counters[RECORDS] += 1
    row = np.int64(get(state.hot.table, key))
    if row != ABSENT:
        state.hot.counts[row] += 1.0
    else:
        frequency = count(state.counts, key)
        if frequency <= state.levels[WATCH_ABOVE]:
            return row
        home = to_worker(seeded(key, state.seeds[0]), state.window.loads.size)
        row = take_row(state.hot, key, home, frequency)
        if row == ABSENT:
            return row
        clear_row(state.q, row)
        clear_replicas(state.replicas, row)
    if state.hot.counts[row] > state.levels[HOT_ABOVE]:
        if state.hot.until[row] < state.counters[WINDOW] and state.counters[BY_BATCH] == 0:
            if state.hot.counts[row] > 1.0:  # its records so far, which were hashed
                place_on(state.replicas, row, np.int64(state.hot.homes[row]))
        state.hot.until[row] = max(state.hot.until[row], state.counters[WINDOW] + 1)
    return row


@kernel
def _explore(state: DaltonState, row: I64, bits: U64) -> I64:
    """Return any worker; one that has the key already when it may have no more."""
    n_workers = state.window.loads.size
    width = np.int64(state.replicas.widths[row])
    if width < state.counters[SPLIT_LIMIT]:
        return np.int64(to_worker(bits, n_workers))
    skip = np.int64(to_worker(bits, width))
    for worker in range(n_workers):
        if is_on(state.replicas, row, worker):
            if skip == 0:
                return worker
            skip -= 1
    return np.int64(state.hot.homes[row])


@kernel
def _send(state: DaltonState, key: U64, row: I64) -> I64:
    """Choose the worker of a record, count it there, and learn from it (Alg. 1, l. 3–9)."""
    n_workers = np.int64(state.window.loads.size)
    if slides.expire(state.window) and state.counters[BY_BATCH] == 0:
        slides.next_slide(state.replicas)
    if row == ABSENT or state.hot.until[row] < state.counters[WINDOW]:
        worker = np.int64(to_worker(seeded(key, state.seeds[0]), n_workers))
        slides.add(state.window, worker)
        return worker
    bits = draw(state.seeds[1], state.counters[DRAWS])
    state.counters[DRAWS] += 1
    home = np.int64(state.hot.homes[row])
    if to_unit(bits) < state.levels[EXPLORATION]:
        worker = _explore(state, row, mix(bits))
        place = worker - home
        if place < 0:
            place += n_workers
    else:
        place = best(state.q, row)
        worker = home + place
        if worker >= n_workers:
            worker -= n_workers
    # Eq. 3, numerator and denominator times n, and eq. 4; both with the record just placed.
    load = slides.add(state.window, worker) * n_workers
    total = state.window.counters[slides.TOTAL]
    width = place_on(state.replicas, row, worker)
    reward = -(
        state.levels[LOAD_WEIGHT] * ((load - total) / max(load, total))
        + state.levels[REPLICA_WEIGHT] * (width / n_workers)
    )
    if state.counters[WAITING] == 0:
        learn(state.q, row, place, reward, state.levels[RATE])
    else:
        keep(state.q, row, place, reward, state.levels[RATE])
    return worker


@kernel
def _begin_batch(state: DaltonState, n_records: I64) -> None:
    """A batch is a statistics window whose total is known, and replicas count inside it."""
    _next_window(state)
    slides.next_slide(state.replicas)
    n_workers = state.window.loads.size
    if state.levels[WATCH_ABOVE] > 0.0:  # else all keys are hot
        state.levels[WATCH_ABOVE] = n_records / n_workers
        state.levels[HOT_ABOVE] = state.levels[SCALE] * (n_records / n_workers)


@kernel
def _route(keys: Keys, state: DaltonState, out: Workers) -> None:
    by_batch = state.counters[BY_BATCH]
    if by_batch and keys.size > 0:
        _begin_batch(state, keys.size)
    for turn in range(1 + by_batch):  # by batch: observe all, then send all
        for i in range(keys.size):
            if turn == 0:
                if not by_batch and state.counters[RECORDS] >= state.counters[STATS_WINDOW]:
                    _next_window(state)
                row = _observe(state, keys[i])
            else:
                row = np.int64(get(state.hot.table, keys[i]))
            if turn == by_batch:
                out[i] = _send(state, keys[i], row)
