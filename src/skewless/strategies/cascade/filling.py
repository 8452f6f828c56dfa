"""Where a record of Cascade goes: the first worker of its key's order that has room."""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, I64
from skewless.kernels.least_loaded import first_least
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.lower_bounds import least_of_rising
from skewless.strategies.cascade.state import (
    CURSORS,
    DEBT,
    END,
    FEW,
    FLOOR,
    HEAVY,
    HEAVY_PARTS,
    HOME,
    LAG,
    LEVEL,
    LIMIT,
    MARKS,
    NEXT,
    OTHER,
    POSITION,
    REACH,
    RISE,
    ROOM,
    SCALE,
    STRIDE,
    WAITING,
    WORKER,
    CascadeState,
    begin_again,
    charge,
    following,
    may_search,
)

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_AHEAD = 2.0  # records by which the mean may rise while workers are listed


@kernel
def light_worker(state: CascadeState, home: I64, stride: I64, limit: F64, n_records: I64) -> I64:
    """Return the first worker in the order of a light key that has room.

    If the search budget is used up (see `may_search`), return the least loaded one.
    """
    if state.levels[home] <= limit:
        return home
    if not may_search(state, n_records):
        return least_of_rising(state.bounds, state.levels)
    worker = home
    for position in range(1, state.levels.size):
        worker = following(worker, stride, state.levels.size)
        if state.levels[worker] <= limit:
            charge(state, n_records, position)
            return worker
    charge(state, n_records, state.levels.size)
    return least_of_rising(state.bounds, state.levels)


@kernel
def _forgive(state: CascadeState, worker: I64, level: F64) -> None:
    """Raise the level of a worker that lags more than DEBT to that distance from the mean.

    Making up for more would need a burst. LEVEL rises too, so that it stays the mean.
    """
    missing = level - state.rooms[DEBT] - state.levels[worker]
    if missing > 0.0:
        state.levels[worker] += missing
        state.numbers[LEVEL] += missing / (state.costs[worker] * state.levels.size)


@kernel
def _extend(state: CascadeState, place: I64, level: F64, n_records: I64) -> I64:
    """Lengthen the reach of a heavy key up to the next worker that is not above the mean.

    If the search budget is used up, the reach stays, and the least loaded worker gets the record.
    """
    if not may_search(state, n_records):
        return least_of_rising(state.bounds, state.levels)
    n_workers = state.levels.size
    home = np.int64(state.cursors[place * CURSORS + HOME])
    stride = np.int64(state.cursors[place * CURSORS + STRIDE])
    reach = np.int64(state.cursors[place * CURSORS + REACH])
    worker = (home + reach * stride) % n_workers
    for position in range(reach, n_workers):
        if state.levels[worker] <= level:
            charge(state, n_records, position + 1 - reach)
            _forgive(state, worker, level)
            state.cursors[place * CURSORS + REACH] = position + 1
            begin_again(state, place)
            if position < FEW:
                state.cursors[place * CURSORS + NEXT] = position  # and stays there
            else:
                state.marks[place * MARKS + FLOOR] = level
            return worker
        worker = following(worker, stride, n_workers)
    charge(state, n_records, n_workers - reach)
    state.cursors[place * CURSORS + REACH] = n_workers
    begin_again(state, place)
    return least_of_rising(state.bounds, state.levels)


@kernel
def _least_within_reach(state: CascadeState, place: I64) -> F64:
    worker = np.int64(state.cursors[place * CURSORS + HOME])
    stride = np.int64(state.cursors[place * CURSORS + STRIDE])
    least = state.levels[worker]
    for _ in range(1, state.cursors[place * CURSORS + REACH]):
        worker = following(worker, stride, state.levels.size)
        least = min(least, state.levels[worker])
    return least


@kernel
def refill(
    state: CascadeState, place: I64, level: F64, n_records: I64, charge_failure: bool
) -> bool:
    """List the next workers within the reach of the key; return whether there are any.

    These are workers at the key's floor or below, as many as the key can fill while the mean rises
    by two records. After that, what was seen of them is old. Each time the key has gone through its
    reach, its floor rises, up to the key's room. So the workers within the reach fill up evenly.
    False: no worker in the reach has room, or the search budget is used up, see `may_search`.

    A search that finds a worker is always charged. One that finds none is charged only with
    `charge_failure`: after a failure in `_route_common`, `_route_one` repeats the same search for
    the same record, and only the repetition is charged.
    """
    cursors, marks, levels, waiting = state.cursors, state.marks, state.levels, state.waiting
    if cursors[place * CURSORS + REACH] <= FEW:
        cursors[place * CURSORS + NEXT] = 0
        return True
    if not may_search(state, n_records):
        return False
    # Indices are unsigned: a signed index may be negative, and that costs a test.
    n_workers = np.uint64(levels.size)
    reach = np.uint64(cursors[place * CURSORS + REACH])
    position = np.uint64(cursors[place * CURSORS + POSITION])
    worker = np.uint64(cursors[place * CURSORS + WORKER])
    stride = np.uint64(cursors[place * CURSORS + STRIDE])
    limit = level + marks[place * MARKS + ROOM] if reach < n_workers else np.inf
    floor = max(marks[place * MARKS + FLOOR], level - state.rooms[LAG])
    row = np.uint64(place * WAITING)
    n_waiting = _NONE
    shares = state.heavy.counts[place] / (HEAVY_PARTS * state.numbers[HEAVY])
    most = np.uint64(max(1.0, min(_AHEAD * shares, WAITING)))
    from_the_first = False
    n_steps = np.int64(0)
    while n_waiting == _NONE:
        if position >= reach:
            if floor >= limit:
                if charge_failure:
                    charge(state, n_records, n_steps)
                    cursors[place * CURSORS + POSITION] = np.int32(reach)
                return False
            floor += state.rooms[RISE]
            if from_the_first:  # all are above the floor, by an unknown amount
                floor = max(floor, _least_within_reach(state, place))
                n_steps += np.int64(reach)
            floor = min(floor, limit)
            position = _NONE
            worker = np.uint64(cursors[place * CURSORS + HOME])
            from_the_first = True
        before = position
        while (position < reach) & (n_waiting < most):
            # Always written, and kept only if it counts: no branch to predict.
            waiting[row + n_waiting] = np.int32(worker)
            n_waiting += _ONE if levels[worker] <= floor else _NONE
            worker += stride
            worker = worker - n_workers if worker >= n_workers else worker
            position += _ONE
        n_steps += np.int64(position - before)
    charge(state, n_records, n_steps)
    cursors[place * CURSORS + POSITION] = np.int32(position)
    cursors[place * CURSORS + WORKER] = np.int32(worker)
    cursors[place * CURSORS + NEXT] = 0
    cursors[place * CURSORS + END] = np.int32(n_waiting)
    marks[place * MARKS + FLOOR] = floor
    return True


@kernel
def _one_of_few(state: CascadeState, place: I64, level: F64, n_records: I64) -> I64:
    """Return the worker of a key with few: the same as before, unless the next is less loaded."""
    cursors, levels = state.cursors, state.levels
    if cursors[place * CURSORS + NEXT] == cursors[place * CURSORS + END]:
        cursors[place * CURSORS + NEXT] = 0
    limit = level + state.marks[place * MARKS + LIMIT]
    at = place * WAITING + cursors[place * CURSORS + NEXT]
    worker = np.int64(state.waiting[at])
    second = np.int64(state.waiting[at + cursors[place * CURSORS + OTHER]])
    is_lagging = levels[worker] <= level - state.rooms[LAG]
    if not is_lagging and levels[second] < levels[worker] - state.numbers[SCALE]:
        worker = second
        cursors[place * CURSORS + NEXT] += 1
    if levels[worker] <= limit:
        return worker
    for i in range(cursors[place * CURSORS + REACH]):
        worker = np.int64(state.waiting[place * WAITING + i])
        if levels[worker] <= limit:
            cursors[place * CURSORS + NEXT] = i
            return worker
    return _extend(state, place, level, n_records)


@kernel
def heavy_worker(state: CascadeState, place: I64, level: F64, n_records: I64) -> I64:
    """Return the worker of a heavy key: the next listed one that still has room."""
    cursors = state.cursors
    if cursors[place * CURSORS + REACH] <= FEW:
        return _one_of_few(state, place, level, n_records)
    # Each refill advances in the reach. After two passes, the lowest worker has been seen.
    for _ in range(2 * WAITING * (state.levels.size + 1)):
        is_empty = cursors[place * CURSORS + NEXT] == cursors[place * CURSORS + END]
        if is_empty and not refill(state, place, level, n_records, True):
            return _extend(state, place, level, n_records)
        worker = np.int64(state.waiting[place * WAITING + cursors[place * CURSORS + NEXT]])
        if state.levels[worker] <= level + state.marks[place * MARKS + LIMIT]:
            return worker
        cursors[place * CURSORS + NEXT] += 1
    return first_least(state.levels)  # only if the mean is far from what the levels say


@kernel
def make_way(state: CascadeState, place: I64) -> None:
    """Advance to the next listed worker if one record fills the present one up to the floor."""
    cursors = state.cursors
    turn = cursors[place * CURSORS + NEXT]
    if turn == cursors[place * CURSORS + END]:
        return
    first_level = state.levels[state.waiting[place * WAITING + turn]]
    floor = max(state.marks[place * MARKS + FLOOR], state.numbers[LEVEL] - state.rooms[LAG])
    if first_level > floor - state.numbers[SCALE]:
        cursors[place * CURSORS + NEXT] += 1
