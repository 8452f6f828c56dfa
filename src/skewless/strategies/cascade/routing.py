"""The loops of Cascade over records: the common case has no branch that is hard to predict.

A block of records goes through three loops. The first hashes all keys, with vector instructions.
The second finds for each record where its worker is listed: in the row of its heavy key, or among
the homes. The third routes the records in order. It looks only at the next listed worker and asks
whether that worker still has room. When a row is used up, it is refilled. Anything rarer leaves
the loop: a slower routine that handles every case routes that record, and then the loop continues.

Blocks are counted from the first record of the source, wherever batches begin and end. So the
batches do not change which keys are put aside and counted after a block. The first blocks are
short.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import I64, Floats, Keys, Workers
from skewless.kernels.hashing import seeded, to_worker
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.counting import (
    count,
    count_aside,
    first_scale,
    grade,
    notice,
    start_elsewhere,
    sweep,
)
from skewless.strategies.cascade.filling import heavy_worker, light_worker, make_way, refill
from skewless.strategies.cascade.orders import home_of, stride_of, weight_of
from skewless.strategies.cascade.state import BLOCK, COUNT_EVERY, WAITING, CascadeState, light

_ONE = np.uint64(1)
_ROW = np.uint64(WAITING)


@kernel
def _look_up(keys: Keys, state: CascadeState, begin: I64, end: I64, shift: I64) -> None:
    """Find where in `waiting` the workers of records begin … end − 1 are.

    Record i is number i + `shift` of its block.
    """
    heavy_keys, spots = state.heavy.keys, state.spots
    shared_row = np.uint64(light(state))
    for i in range(begin, end):
        at = np.uint64(i + shift)
        start = spots[np.uint64(to_worker(state.hashes[at], spots.size))]
        place = min(np.uint64(start) // _ROW, shared_row)
        # All bits are 1 for a heavy key and 0 for a light one, so no branch is needed.
        is_heavy = np.uint64(np.int64(place - shared_row) >> 63)
        if (heavy_keys[place] ^ keys[np.uint64(i)]) & is_heavy:
            start = start_elsewhere(state, keys[i], state.hashes[at])
        state.starts[at] = start


@kernel
def _route_common(
    keys: Keys,
    weights: Floats | None,
    state: CascadeState,
    out: Workers,
    i: I64,
    end: I64,
    shift: I64,
) -> I64:
    """Route records i … end − 1 until one needs the slower routine; return the number of that one.

    The same decisions as `_route_one`. In the loop:

    - `place` is the row that is read: that of the heavy key, or the one that light keys share.
    - `write_row` is the row that is written: the same, or the scratch row for light keys.
    - `first` is the next listed worker, `second` its alternative. Only a key with few
      workers has one (see `other`); for other keys both are the same worker.
    - `first_level` and `second_level` are their levels, `before` that of the one that is taken.
    - `break` leaves the record to `_route_one`. Nothing of the record has been written by then.
    """
    levels, costs, counts = state.levels, state.costs, state.heavy.counts
    marks, cursors, waiting = state.marks, state.cursors, state.waiting
    unit = state.heavy.unit[0]
    numbers, counters = state.numbers[0], state.counters[0]
    level, total, scale = numbers["level"], numbers["weight"], numbers["scale"]
    share, lag = 1.0 / levels.size, state.rooms[0]["lag"] * scale
    shared_row = np.uint64(light(state))
    begin = i
    # The record that completes an epoch is left to `_route_one`, which sweeps after it.
    end = min(end, i + counters["sweep_at"] - counters["records"] - 1)
    while i < end:
        # Indices are unsigned: a signed index may be negative, and that costs a test.
        now = np.uint64(i)
        weight = weight_of(weights, now)
        start = np.uint64(state.starts[np.uint64(i + shift)])
        row = start // _ROW
        place = min(row, shared_row)
        # Light keys share one row. Write to a scratch row, so that the next load does not stall on
        # this store.
        write_row = min(row, shared_row + _ONE)
        mark, cursor = marks[place], cursors[place]
        turn = cursor["next"]
        at = start + np.uint64(turn)
        first = np.uint64(waiting[at])
        second = np.uint64(waiting[at + np.uint64(cursor["other"])])
        first_level, second_level = levels[first], levels[second]
        low = level - lag
        is_second = (first_level > low) & (second_level < first_level - scale)
        worker = second if is_second else first
        before = second_level if is_second else first_level
        counted = counts[place] + weight * unit
        if turn == cursor["end"]:
            n_records = counters["records"] + i - begin
            if counted > mark["recheck"]:
                break
            if not refill(state, np.int64(place), level, n_records, False):
                break
            continue
        if (counted > mark["recheck"]) | (before > level + mark["limit"]):
            break
        levels[worker] = before + weight * costs[worker]
        counts[write_row] = counted
        # The next entry of the row, by arithmetic instead of a branch: see `make_way`.
        is_filled = first_level > max(mark["floor"], low) - scale
        cursors[write_row]["next"] = turn + np.int32(is_second | is_filled)
        level += weight * share
        total += weight
        out[now] = np.int32(worker)
        i += 1
    numbers["level"] = level
    numbers["weight"] = total
    counters["records"] += i - begin
    return i


@kernel
def _route_one(
    keys: Keys, weights: Floats | None, state: CascadeState, out: Workers, i: I64, shift: I64
) -> None:
    """Route record i; this handles every case."""
    heavy, numbers, counters = state.heavy, state.numbers[0], state.counters[0]
    weight = weight_of(weights, i)
    hashed = state.hashes[i + shift]
    level = numbers["level"]
    amount = weight * heavy.unit[0]
    place = np.int64(state.starts[i + shift]) // WAITING
    is_heavy = place < light(state)
    if is_heavy:
        counted = heavy.counts[place] + amount
        if counted > state.marks[place]["recheck"]:
            grade(state, place, counted)
        worker = heavy_worker(state, place, level, counters["records"])
        make_way(state, place)
        heavy.counts[place] = counted
    else:
        home = home_of(state, hashed)
        limit = level + state.rooms[0]["light"] * numbers["scale"]
        # One in COUNT_EVERY light records is counted after its block. A record that finds its
        # worker full is counted at once: that is the first sign of a new hot key.
        if state.levels[home] > limit and (i + shift) % COUNT_EVERY != 0:
            count(state, keys[i], hashed, amount, counters["records"])
        stride = stride_of(state, hashed)
        worker = light_worker(state, home, stride, limit, counters["records"])
    state.levels[worker] += weight * state.costs[worker]
    numbers["level"] += weight * (1.0 / state.levels.size)  # rounded as in `_route_common`
    numbers["weight"] += weight
    out[i] = worker
    counters["records"] += 1
    if counters["records"] == counters["sweep_at"]:
        sweep(state)


@kernel
def _compare_weights(weights: Floats | None, state: CascadeState, begin: I64, end: I64) -> None:
    """Note whether records differ in weight: only if they do not can `notice` recognise chance.

    The first weight above 0 is taken for the average while nothing else is known.
    """
    if weights is None:
        end = begin + 1
    for i in range(begin, end):
        weight = weight_of(weights, i)
        if state.numbers[0]["first"] == 0.0:
            state.numbers[0]["first"] = weight
            if weights is not None and weight > 0.0:
                first_scale(state, weight)
        elif weight != state.numbers[0]["first"]:
            state.counters[0]["varies"] = 1


@kernel
def route_records(keys: Keys, weights: Floats | None, state: CascadeState, out: Workers) -> None:
    """Fill `out` with the worker of each record; without weights every record weighs 1."""
    i = 0
    while i < keys.size:
        records = state.counters[0]["records"]
        # The first blocks are short, because nothing is known of any key yet.
        length = BLOCK if records >= BLOCK else COUNT_EVERY
        shift = records % BLOCK - i
        begin = i
        end = min(i + length - records % length, keys.size)
        for j in range(begin, end):
            state.hashes[j + shift] = seeded(keys[j], state.seed[0])
        _compare_weights(weights, state, begin, end)
        _look_up(keys, state, begin, end, shift)
        state.counters[0]["changed"] = 0
        while True:
            i = _route_common(keys, weights, state, out, i, end, shift)
            if i >= end:
                break
            _route_one(keys, weights, state, out, i, shift)
            i += 1
            if state.counters[0]["changed"]:
                _look_up(keys, state, i, end, shift)
                state.counters[0]["changed"] = 0
        # One key in COUNT_EVERY is kept, to be counted after the block.
        for j in range(begin + -(begin + shift) % COUNT_EVERY, end, COUNT_EVERY):
            state.aside[(j + shift) // COUNT_EVERY] = keys[j]
            state.aside_weights[(j + shift) // COUNT_EVERY] = weight_of(weights, j)
        if state.counters[0]["records"] % length == 0:
            count_aside(state, (end + shift - length) // COUNT_EVERY, (end + shift) // COUNT_EVERY)
            if state.counters[0]["records"] >= state.counters[0]["look_at"]:
                notice(state)
