"""Which part of each key of a block goes to which worker, before any of its records is sent.

Light keys come first, each at home as far as the tolerance allows. What is left of them and the
heavy keys then fill up the workers to one level, the lightest first and the heaviest last.
"""

from __future__ import annotations

import math

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64
from skewless.kernels.hashing import mix
from skewless.strategies.cascade.ahead.state import (
    EXPECTED,
    NO_PIECE,
    WEIGHT,
    AheadState,
    Buffers,
)
from skewless.strategies.cascade.state import following, home_of, slot_of

HEAVY_PARTS = 8.0  # a key is heavy from 1/8 of a worker's fair share of the block on
LEAST_HEAVY = 4.0  # and from so many usual records on
STEPS_PER_RECORD = 16  # steps of search that each record of a block pays for
_CLOSE = 1e-6  # usual records: what is as small is a rounding error
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)


@kernel
def place_block(state: AheadState, n_keys: I64, n_records: I64, total: F64, scale: F64) -> None:
    """Give every key of the block its pieces; an average record weighs `scale`."""
    buffers = state.buffers
    for number in range(n_keys):
        buffers.heads[number] = NO_PIECE
    n_pieces, rest = _stay_at_home(state, n_keys, n_records, total, scale)
    if rest > 0.0:
        _share_out(state, n_keys, rest, scale)
        _fill_up(state, n_keys, n_records, n_pieces, scale)


@kernel
def _add_piece(buffers: Buffers, number: I64, worker: I64, size: F64, n_pieces: I64) -> I64:
    """Give the next records of a key to a worker; return how many pieces there are now."""
    buffers.workers[n_pieces] = np.int32(worker)
    buffers.sizes[n_pieces] = size
    buffers.after[n_pieces] = NO_PIECE
    if buffers.heads[number] == NO_PIECE:
        buffers.heads[number] = np.int32(n_pieces)
    else:
        buffers.after[buffers.tails[number]] = np.int32(n_pieces)
    buffers.tails[number] = np.int32(n_pieces)
    buffers.weights[number] -= size
    return n_pieces + 1


@kernel
def _stay_at_home(
    state: AheadState, n_keys: I64, n_records: I64, total: F64, scale: F64
) -> tuple[I64, F64]:
    """Leave light keys on their first worker, unless that would be too far above the mean.

    Returns the number of pieces, and what has got no worker yet. `shares` holds how much each
    worker may still take of light keys; after that, how far it is.
    """
    buffers, levels, costs = state.buffers, state.levels, state.costs
    n_workers = levels.size
    mean = 0.0
    for worker in range(n_workers):
        mean += levels[worker] / costs[worker]
    mean = (mean + total) / n_workers
    horizon = max(state.counters[EXPECTED] * scale, state.numbers[WEIGHT] + total)
    limit = mean + max(state.tolerance[0] * horizon / n_workers, scale)
    for worker in range(n_workers):
        buffers.shares[worker] = (limit - levels[worker]) / costs[worker] + _CLOSE * scale
    heavy = max(LEAST_HEAVY * scale, total / n_workers / HEAVY_PARTS)
    n_pieces = 0
    rest = 0.0
    for i in range(n_keys):
        number = buffers.order[i]
        weight = buffers.weights[number]
        if weight >= heavy:
            rest += weight
            continue
        home = home_of(state, buffers.hashes[number])
        size = weight
        if size > buffers.shares[home]:
            size = max(0.0, math.floor(buffers.shares[home] / scale) * scale)
        if size > 0.0 or weight == 0.0:
            n_pieces = _add_piece(buffers, number, home, size, n_pieces)
            buffers.shares[home] -= size
            rest += weight - size
        else:
            rest += weight
    for worker in range(n_workers):
        room = buffers.shares[worker] - _CLOSE * scale
        buffers.shares[worker] = limit - room * costs[worker]
    return n_pieces, rest


@kernel
def _share_out(state: AheadState, n_keys: I64, rest: F64, scale: F64) -> None:
    """Turn the levels in `shares` into what each worker gets of the rest: all up to one level.

    Shares are whole numbers of average records. The workers that get one more are spread evenly
    from a random one on, another one for each block and source: so errors do not add up.
    """
    shares, costs = state.buffers.shares, state.costs
    n_workers = shares.size
    level = np.inf
    n_below = n_workers + 1
    while True:
        content, capacity, n_now = rest, 0.0, 0
        for worker in range(n_workers):
            if shares[worker] < level:
                content += shares[worker] / costs[worker]
                capacity += 1.0 / costs[worker]
                n_now += 1
        if n_now == n_below:
            break
        n_below = n_now
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
        worker = worker + 1 if worker + 1 < n_workers else 0


@kernel
def _some_worker(state: AheadState, n_keys: I64) -> I64:
    """Return a worker that follows from the keys of the block."""
    bits = state.seed[0]
    for number in range(n_keys):
        bits += state.buffers.hashes[number]
    return slot_of(mix(bits), state.levels.size)


@kernel
def _stride_of(state: AheadState, hashed: U64) -> I64:
    """Return the step of a key's order of workers."""
    n_strides = np.uint64(state.strides.size)
    return state.strides[np.int64(((hashed & _LOW_32) * n_strides) >> _SHIFT_32)]


@kernel
def _fill_up(
    state: AheadState, n_keys: I64, n_records: I64, n_pieces: I64, scale: F64
) -> None:
    """Give what is left of each key to the first workers of its order that have a share left.

    Chosen keys could make these searches long. When they have taken more steps than the records
    pay for, a key takes whatever share is found first.
    """
    buffers = state.buffers
    shares = buffers.shares
    n_workers = shares.size
    least = _CLOSE * scale
    steps = STEPS_PER_RECORD * (n_records + n_workers)
    cursor = 0
    for i in range(n_keys):
        number = buffers.order[i]
        hashed = buffers.hashes[number]
        if buffers.weights[number] <= 0.0:
            continue
        worker = home_of(state, hashed)
        stride = _stride_of(state, hashed)
        for _ in range(n_workers):
            if buffers.weights[number] <= least or steps <= 0:
                break
            if shares[worker] > least:
                size = min(buffers.weights[number], shares[worker])
                n_pieces = _add_piece(buffers, number, worker, size, n_pieces)
                shares[worker] -= size
            worker = following(worker, stride, n_workers)
            steps -= 1
        while buffers.weights[number] > least and cursor < n_workers:
            if shares[cursor] <= least:
                cursor += 1
                continue
            size = min(buffers.weights[number], shares[cursor])
            n_pieces = _add_piece(buffers, number, cursor, size, n_pieces)
            shares[cursor] -= size
        if buffers.heads[number] == NO_PIECE:  # only what rounding has left of all shares
            home = home_of(state, hashed)
            n_pieces = _add_piece(buffers, number, home, buffers.weights[number], n_pieces)
