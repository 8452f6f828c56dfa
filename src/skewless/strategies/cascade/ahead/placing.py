"""Which part of each key of a block goes to which worker, before any of its records is sent.

Light keys stay at home as far as the tolerance allows. What is left of them, and the heavy keys,
fill all workers up to one level, the lightest keys first and the heaviest last.
"""

from __future__ import annotations

import math

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64
from skewless.kernels.hashing import mix
from skewless.strategies.cascade.ahead.counting import sort_by_rank
from skewless.strategies.cascade.ahead.state import (
    EXPECTED,
    NO_PIECE,
    NO_WORKER,
    WEIGHT,
    AheadState,
    Buffers,
)
from skewless.strategies.cascade.state import following, slot_of, stride_of

HEAVY_PARTS = 8.0  # a key is heavy from 1/8 of a worker's fair share of the block on
LEAST_HEAVY = 4.0  # and from so many usual records on
STEPS_PER_RECORD = 16  # steps of search that each record of a block pays for
_CLOSE = 1e-6  # usual records: what is as small is a rounding error


@kernel
def place_block(state: AheadState, n_keys: I64, n_records: I64, total: F64, scale: F64) -> None:
    """Give every key of the block its pieces; an average record weighs `scale`."""
    _measure_rooms(state, total, scale)
    heavy = max(LEAST_HEAVY * scale, total / state.levels.size / HEAVY_PARTS)
    n_listed = _stay_at_home(state, n_keys, heavy, scale)
    if n_listed == 0:
        return
    sort_by_rank(state.buffers, n_listed, scale)
    rest = _crowd_home(state, n_listed, heavy, scale)
    if rest > 0.0:
        _share_out(state, n_keys, rest, scale)
        _fill_up(state, n_keys, n_listed, n_records, scale)


@kernel
def _measure_rooms(state: AheadState, total: F64, scale: F64) -> None:
    """Say how much each worker may take of light keys: up to a tolerance above the mean."""
    levels, costs = state.levels, state.costs
    n_workers = levels.size
    content = total
    for worker in range(n_workers):
        content += levels[worker] / costs[worker]
    horizon = max(state.counters[EXPECTED] * scale, state.numbers[WEIGHT] + total)
    limit = content / n_workers + max(state.tolerance[0] * horizon / n_workers, scale)
    for worker in range(n_workers):
        room = (limit - levels[worker]) / costs[worker] + _CLOSE * scale
        state.buffers.rooms[worker] = room
        state.buffers.shares[worker] = 0.0


@kernel
def _stay_at_home(state: AheadState, n_keys: I64, heavy: F64, scale: F64) -> I64:
    """Leave light keys at home where all of them have room; list the others, return how many.

    `shares` holds what the light keys of each worker weigh together.
    """
    buffers = state.buffers
    for number in range(n_keys):
        home = buffers.homes[number]
        is_light = buffers.weights[number] < heavy
        buffers.shares[home] += buffers.weights[number] if is_light else 0.0
    n_listed = 0
    for number in range(n_keys):
        home = buffers.homes[number]
        weight = buffers.weights[number]
        stays = (weight < heavy) & (buffers.shares[home] <= buffers.rooms[home])
        buffers.heads[number] = np.int32(number)
        buffers.tails[number] = np.int32(number)
        buffers.after[number] = NO_PIECE
        buffers.workers[number] = home if stays else np.int32(NO_WORKER)
        buffers.sizes[number] = weight
        # Written in any case and kept if it counts: no branch to guess.
        buffers.listed[n_listed] = np.int32(number)
        n_listed += 0 if stays else 1
    return n_listed


@kernel
def _crowd_home(state: AheadState, n_listed: I64, heavy: F64, scale: F64) -> F64:
    """Let the lightest of the light keys stay where there is not room for all.

    Returns what has got no worker yet. `shares` becomes the level of each worker so far.
    """
    buffers = state.buffers
    shares, rooms = buffers.shares, buffers.rooms
    for worker in range(shares.size):  # where all keys stay, all of them are counted
        if shares[worker] > rooms[worker]:
            shares[worker] = 0.0
    rest = 0.0
    for i in range(n_listed):
        number = buffers.listed[i]
        weight = buffers.weights[number]
        if weight >= heavy:
            rest += weight
            continue
        home = buffers.homes[number]
        room = rooms[home] - shares[home]
        size = weight if weight <= room else max(0.0, math.floor(room / scale) * scale)
        if size > 0.0 or weight == 0.0:
            buffers.workers[number] = home
            buffers.sizes[number] = size
            buffers.weights[number] -= size
            shares[home] += size
        rest += weight - size
    for worker in range(shares.size):
        shares[worker] = state.levels[worker] + shares[worker] * state.costs[worker]
    return rest


@kernel
def _share_out(state: AheadState, n_keys: I64, rest: F64, scale: F64) -> None:
    """Turn the levels in `shares` into what each worker gets of the rest: all up to one level.

    Shares are whole numbers of average records. The workers that get one more are spread evenly
    from some worker on, another one for each block and source: so errors do not add up.
    """
    shares, costs = state.buffers.shares, state.costs
    n_workers = shares.size
    level = np.inf
    n_before, n_below = -1, n_workers
    while n_below != n_before:
        n_before, n_below = n_below, 0
        content, capacity = rest, 0.0
        for worker in range(n_workers):
            if shares[worker] < level:
                content += shares[worker] / costs[worker]
                capacity += 1.0 / costs[worker]
                n_below += 1
        level = content / capacity
    worker = _some_worker(state, n_keys)
    carried = 0.0
    for _ in range(n_workers):
        exact = max(0.0, (level - shares[worker]) / costs[worker] / scale)
        whole = math.floor(exact + _CLOSE)
        carried += max(0.0, exact - whole)
        if carried >= 1.0 - _CLOSE:
            whole += 1.0
            carried -= 1.0
        shares[worker] = whole * scale
        worker = following(worker, 1, n_workers)


@kernel
def _some_worker(state: AheadState, n_keys: I64) -> I64:
    """Return a worker that follows from the keys of the block."""
    bits = state.seed[0]
    for number in range(n_keys):
        bits += state.buffers.hashes[number]
    return slot_of(mix(bits), state.levels.size)


@kernel
def _take(buffers: Buffers, number: I64, worker: I64, n_pieces: I64) -> I64:
    """Let a key have as much of a worker's share as it needs; return how many pieces there are."""
    size = min(buffers.weights[number], buffers.shares[worker])
    piece = number
    if buffers.workers[number] != NO_WORKER:
        piece = n_pieces
        n_pieces += 1
        buffers.after[buffers.tails[number]] = np.int32(piece)
        buffers.tails[number] = np.int32(piece)
        buffers.after[piece] = NO_PIECE
    buffers.workers[piece] = np.int32(worker)
    buffers.sizes[piece] = size
    buffers.weights[number] -= size
    buffers.shares[worker] -= size
    return n_pieces


@kernel
def _fill_up(state: AheadState, n_keys: I64, n_listed: I64, n_records: I64, scale: F64) -> None:
    """Give what is left of each key to the first workers of its order that have a share left.

    Chosen keys could make these searches long. When they have taken more steps than the records
    pay for, a key takes whatever share is found first.
    """
    buffers = state.buffers
    shares = buffers.shares
    n_workers = shares.size
    least = _CLOSE * scale
    n_steps = STEPS_PER_RECORD * (n_records + n_workers)
    n_pieces = n_keys
    cursor = 0
    for i in range(n_listed):
        number = buffers.listed[i]
        is_light = buffers.workers[number] != NO_WORKER
        if is_light and buffers.weights[number] <= least:
            continue
        worker = np.int64(buffers.homes[number])
        stride = stride_of(state, buffers.hashes[number])
        for _ in range(n_workers):
            if buffers.weights[number] <= least or n_steps <= 0:
                break
            if shares[worker] > least:
                n_pieces = _take(buffers, number, worker, n_pieces)
            worker = following(worker, stride, n_workers)
            n_steps -= 1
        while buffers.weights[number] > least and cursor < n_workers:
            if shares[cursor] > least:
                n_pieces = _take(buffers, number, cursor, n_pieces)
            else:
                cursor += 1
        if buffers.workers[number] == NO_WORKER:  # rounding has left no share at all
            buffers.workers[number] = buffers.homes[number]
