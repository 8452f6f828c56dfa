"""Where a record of Cascade goes: the first worker of its key's order that has room."""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, I64, Floats
from skewless.kernels.least_loaded import first_least
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.orders import following
from skewless.strategies.cascade.state import (
    FEW,
    HEAVY_PARTS,
    WAITING,
    CascadeState,
    begin_again,
    charge,
    may_search,
)


def lower_bounds(loads: Floats) -> Floats:
    """Return the tree of lower bounds over `loads`, which only rise: see `least_of_rising`.

    It costs nothing per change of a load. Almost all records change one without a search, so a tree
    that every change updates would cost more.

    >>> lower_bounds(np.array([2.0, 1.0, 3.0])).tolist()
    [0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 3.0, inf]
    """
    bounds = np.zeros(2 << (loads.size - 1).bit_length())
    renew_bounds(bounds, loads)
    return bounds


@kernel
def renew_bounds(bounds: Floats, loads: Floats) -> None:
    """Make all bounds exact: needed whenever a load may have fallen."""
    n_leaves = bounds.size // 2
    for worker in range(n_leaves):
        bounds[n_leaves + worker] = loads[worker] if worker < loads.size else np.inf
    for node in range(n_leaves - 1, 0, -1):
        bounds[node] = min(bounds[2 * node], bounds[2 * node + 1])


@kernel
def least_of_rising(bounds: Floats, loads: Floats) -> I64:
    """Return the least loaded worker, the lowest index on a tie, where loads have only risen.

    Node 1 is the root, the children of node i are 2i and 2i + 1, and the leaves are the workers.
    A bound is what the least load below a node was at some time. It is looked at only where the
    least load may be, and corrected where it is out of date.

    Why it is O(log n) amortised: a descent that does not end with the answer ends at a worker whose
    load has risen since its bound was set, and sets it. So there are no more such descents than
    there were changes of loads.
    """
    n_leaves = bounds.size // 2
    for _ in range(loads.size + 1):  # each worker can be out of date once
        node = 1
        while node < n_leaves:
            node = 2 * node
            # The left half has the lower indices, so it wins a tie.
            node = node + 1 if bounds[node + 1] < bounds[node] else node
        worker = node - n_leaves
        if worker >= loads.size:
            break
        if loads[worker] <= bounds[node]:
            return worker
        bounds[node] = loads[worker]
        while node > 1:
            node = node // 2
            bounds[node] = min(bounds[2 * node], bounds[2 * node + 1])
    return first_least(loads)


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
def _extend(state: CascadeState, place: I64, level: F64, n_records: I64) -> I64:
    """Lengthen the reach of a heavy key up to the next worker that is not above the mean.

    A worker that lags more than its debt is forgiven the rest: making up for more would need a
    burst. If the search budget is used up, the reach stays, and the least loaded worker gets the
    record.
    """
    if not may_search(state, n_records):
        return least_of_rising(state.bounds, state.levels)
    n_workers, cursor, numbers = state.levels.size, state.cursors[place], state.numbers[0]
    least = level - state.rooms[0]["debt"] * numbers["scale"]
    stride, reach = np.int64(cursor["stride"]), np.int64(cursor["reach"])
    worker = (np.int64(cursor["home"]) + reach * stride) % n_workers
    for position in range(reach, n_workers):
        if state.levels[worker] <= level:
            charge(state, n_records, position + 1 - reach)
            missing = least - state.levels[worker]
            if missing > 0.0:  # the mean rises too
                state.levels[worker] += missing
                numbers["level"] += missing / (state.costs[worker] * n_workers)
            cursor["reach"] = position + 1
            begin_again(state, place)
            if position < FEW:
                cursor["next"] = position  # and stays there
            else:
                state.marks[place]["floor"] = level
            return worker
        worker = following(worker, stride, n_workers)
    charge(state, n_records, n_workers - reach)
    cursor["reach"] = n_workers
    begin_again(state, place)
    return least_of_rising(state.bounds, state.levels)


@kernel
def _least_within_reach(state: CascadeState, place: I64) -> F64:
    cursor = state.cursors[place]
    worker, least = np.int64(cursor["home"]), np.inf
    for _ in range(cursor["reach"]):
        least = min(least, state.levels[worker])
        worker = following(worker, np.int64(cursor["stride"]), state.levels.size)
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
    cursor, mark = state.cursors[place], state.marks[place]
    levels, waiting = state.levels, state.waiting
    rooms, scale = state.rooms[0], state.numbers[0]["scale"]
    if cursor["reach"] <= FEW:
        cursor["next"] = 0
        return True
    if not may_search(state, n_records):
        return False
    # Indices are unsigned: a signed index may be negative, and that costs a test.
    n_workers = np.uint64(levels.size)
    reach, stride = np.uint64(cursor["reach"]), np.uint64(cursor["stride"])
    position, worker = np.uint64(cursor["position"]), np.uint64(cursor["worker"])
    limit = level + mark["room"] if reach < n_workers else np.inf
    floor = max(mark["floor"], level - rooms["lag"] * scale)
    row = np.uint64(place * WAITING)
    n_waiting = _NONE
    shares = state.heavy.counts[place] / (HEAVY_PARTS * state.numbers[0]["heavy"])
    most = np.uint64(max(1.0, min(_AHEAD * shares, WAITING)))
    from_the_first = False
    n_steps = np.int64(0)
    while n_waiting == _NONE:
        if position >= reach:
            if floor >= limit:
                if charge_failure:
                    charge(state, n_records, n_steps)
                    cursor["position"] = np.int32(reach)
                return False
            floor += rooms["rise"] * scale
            if from_the_first:  # all are above the floor, by an unknown amount
                floor = max(floor, _least_within_reach(state, place))
                n_steps += np.int64(reach)
            floor = min(floor, limit)
            position = _NONE
            worker = np.uint64(cursor["home"])
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
    cursor["position"] = np.int32(position)
    cursor["worker"] = np.int32(worker)
    cursor["next"] = 0
    cursor["end"] = np.int32(n_waiting)
    mark["floor"] = floor
    return True


@kernel
def _one_of_few(state: CascadeState, place: I64, level: F64, n_records: I64) -> I64:
    """Return the worker of a key with few: the same as before, unless the next is less loaded."""
    cursor, levels = state.cursors[place], state.levels
    lag = state.rooms[0]["lag"] * state.numbers[0]["scale"]
    if cursor["next"] == cursor["end"]:
        cursor["next"] = 0
    limit = level + state.marks[place]["limit"]
    at = place * WAITING + cursor["next"]
    worker = np.int64(state.waiting[at])
    second = np.int64(state.waiting[at + cursor["other"]])
    is_lagging = levels[worker] <= level - lag
    if not is_lagging and levels[second] < levels[worker] - state.numbers[0]["scale"]:
        worker = second
        cursor["next"] += 1
    if levels[worker] <= limit:
        return worker
    for i in range(cursor["reach"]):
        worker = np.int64(state.waiting[place * WAITING + i])
        if levels[worker] <= limit:
            cursor["next"] = i
            return worker
    return _extend(state, place, level, n_records)


@kernel
def heavy_worker(state: CascadeState, place: I64, level: F64, n_records: I64) -> I64:
    """Return the worker of a heavy key: the next listed one that still has room."""
    cursor = state.cursors[place]
    if cursor["reach"] <= FEW:
        return _one_of_few(state, place, level, n_records)
    # Each refill advances in the reach. After two passes, the lowest worker has been seen.
    for _ in range(2 * WAITING * (state.levels.size + 1)):
        is_empty = cursor["next"] == cursor["end"]
        if is_empty and not refill(state, place, level, n_records, True):
            return _extend(state, place, level, n_records)
        worker = np.int64(state.waiting[place * WAITING + cursor["next"]])
        if state.levels[worker] <= level + state.marks[place]["limit"]:
            return worker
        cursor["next"] += 1
    return first_least(state.levels)  # only if the mean is far from what the levels say


@kernel
def make_way(state: CascadeState, place: I64) -> None:
    """Advance to the next listed worker if one record fills the present one up to the floor."""
    cursor, numbers = state.cursors[place], state.numbers[0]
    turn = cursor["next"]
    if turn == cursor["end"]:
        return
    first_level, scale = state.levels[state.waiting[place * WAITING + turn]], numbers["scale"]
    floor = max(state.marks[place]["floor"], numbers["level"] - state.rooms[0]["lag"] * scale)
    if first_level > floor - scale:
        cursor["next"] += 1
