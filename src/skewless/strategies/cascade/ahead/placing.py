"""Which part of each key of a block goes to which worker, before any of its records is sent.

Light keys stay at home as far as the tolerance allows. What is left of them, and the heavy keys,
fill all workers up to one level, the lightest keys first and the heaviest last.
"""

from __future__ import annotations

import math

import numpy as np

from skewless.arrays import F64, I64, U64, SmallInts
from skewless.kernels.hashing import mix
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.ahead.state import (
    BYTE_VALUES,
    NO_PIECE,
    NO_WORKER,
    STEPS_PER_RECORD,
    AheadState,
    Buffers,
)
from skewless.strategies.cascade.orders import following, slot_of, stride_of

_CLASSES = 64
_MIDDLE = 16  # the class of keys that weigh half of an average record
_MOST_WEIGHT = 1e9  # average records: as much as the last class needs
_MIDDLE_MANTISSA = 0.75  # of all mantissas, 0.5 … 1: it halves an octave
_HASH_BITS = 10
_HASH_MASK = np.uint64((1 << _HASH_BITS) - 1)
_HASH_SHIFT = np.uint64(22)  # not the bits of the home
_BYTE = BYTE_VALUES - 1


@kernel
def rank_of(estimate: F64, hashed: U64, scale: F64) -> I64:
    """Return the rank of a key: a class of half an octave, then some bits of its hash.

    Sources that see different records of a key mostly find the same class. So they place the keys
    in the same order, and leave the same ones out where there is no room for all.
    """
    mantissa, exponent = math.frexp(min(estimate / scale, _MOST_WEIGHT))
    step = 2 * exponent + (1 if mantissa >= _MIDDLE_MANTISSA else 0)
    weight_class = max(0, min(_MIDDLE + step, _CLASSES - 1))
    return (weight_class << _HASH_BITS) + np.int64((hashed >> _HASH_SHIFT) & _HASH_MASK)


@kernel
def sort_listed(buffers: Buffers, n_listed: I64, scale: F64) -> None:
    """Put the listed keys in the order of their ranks; equals keep their order."""
    for i in range(n_listed):
        number = buffers.listed[i]
        rank = rank_of(buffers.estimates[number], buffers.hashes[number], scale)
        buffers.ranks[number] = np.int32(rank)
    _sort_by_byte(buffers, n_listed, buffers.listed, buffers.slots, 0)
    _sort_by_byte(buffers, n_listed, buffers.slots, buffers.listed, 8)


@kernel
def _sort_by_byte(
    buffers: Buffers, n_listed: I64, before: SmallInts, after: SmallInts, shift: I64
) -> None:
    tally = buffers.tally
    tally[:] = 0
    for i in range(n_listed):
        tally[((buffers.ranks[before[i]] >> shift) & _BYTE) + 1] += 1
    for i in range(1, tally.size):
        tally[i] += tally[i - 1]
    for i in range(n_listed):
        byte = (buffers.ranks[before[i]] >> shift) & _BYTE
        after[tally[byte]] = before[i]
        tally[byte] += 1


CLOSE = 1e-6  # average records: anything this small is a rounding error


@kernel
def share_out(state: AheadState, n_keys: I64, rest: F64) -> None:
    """Turn the levels in `shares` into what each worker gets of the rest.

    Shares are whole numbers of average records. The workers that get one more are spread evenly.
    The first of them differs by block and source, so that errors do not add up.
    """
    shares, costs, scale = state.buffers.shares, state.costs, state.numbers[0]["scale"]
    level = _common_level(state, rest)
    bits = state.seed[0]  # some worker, which depends only on the seed and the keys of the block
    for number in range(n_keys):
        bits += state.buffers.hashes[number]
    worker = slot_of(mix(bits), shares.size)
    carried = 0.0
    for _ in range(shares.size):
        exact = max(0.0, (level - shares[worker]) / costs[worker] / scale)
        whole = np.floor(exact + CLOSE)
        carried += max(0.0, exact - whole)
        if carried >= 1.0 - CLOSE:
            whole += 1.0
            carried -= 1.0
        shares[worker] = whole * scale
        worker = following(worker, 1, shares.size)


@kernel
def _common_level(state: AheadState, rest: F64) -> F64:
    """Return the level up to which the rest fills the workers that are below it."""
    shares, costs = state.buffers.shares, state.costs
    level = np.inf
    n_before, n_below = shares.size + 2, shares.size + 1
    while n_below < n_before:
        n_before, n_below = n_below, 0
        content, capacity = rest, 0.0
        for worker in range(shares.size):
            if shares[worker] < level:
                content += shares[worker] / costs[worker]
                capacity += 1.0 / costs[worker]
                n_below += 1
        if n_below == 0:  # only rounding leads here
            break
        level = content / capacity
    return level


@kernel
def place_block(state: AheadState, n_keys: I64, n_records: I64, total: F64) -> None:
    """Give every key of the block its pieces."""
    _measure_rooms(state, total)
    n_listed = _stay_at_home(state, n_keys)
    if n_listed == 0:
        return
    sort_listed(state.buffers, n_listed, state.numbers[0]["scale"])
    rest = _crowd_homes(state, n_listed)
    if rest > 0.0:
        share_out(state, n_keys, rest)
        _fill_up(state, n_keys, n_listed, n_records)


@kernel
def _measure_rooms(state: AheadState, total: F64) -> None:
    """Set how much each worker may take of light keys: up to the tolerance above the mean.

    The tolerance holds for the whole interval, or for the part seen so far if its length is not
    known.
    """
    levels, costs, scale = state.levels, state.costs, state.numbers[0]["scale"]
    n_workers, content = levels.size, total
    for worker in range(n_workers):
        content += levels[worker] / costs[worker]
    horizon = max(state.counters[0]["expected"] * scale, state.numbers[0]["weight"] + total)
    above = max(state.numbers[0]["tolerance"] * horizon / n_workers, scale)
    limit = content / n_workers + above + CLOSE * scale
    for worker in range(n_workers):
        state.buffers.rooms[worker] = (limit - levels[worker]) / costs[worker]
        state.buffers.shares[worker] = 0.0


@kernel
def _stay_at_home(state: AheadState, n_keys: I64) -> I64:
    """Leave light keys at home where all have room; list the others and return their number."""
    buffers = state.buffers
    for number in range(n_keys):
        weight = 0.0 if buffers.is_heavy[number] else buffers.weights[number]
        buffers.shares[buffers.homes[number]] += weight
    n_listed = 0
    for number in range(n_keys):
        home = buffers.homes[number]
        stays = (not buffers.is_heavy[number]) & (buffers.shares[home] <= buffers.rooms[home])
        buffers.heads[number] = np.int32(number)
        buffers.after[number] = NO_PIECE
        buffers.workers[number] = home if stays else np.int32(NO_WORKER)
        buffers.sizes[number] = buffers.weights[number]
        # Always written, and kept only if it counts: no branch to predict.
        buffers.listed[n_listed] = np.int32(number)
        n_listed += 0 if stays else 1
    return n_listed


@kernel
def _crowd_homes(state: AheadState, n_listed: I64) -> F64:
    """Keep the lightest of the light keys at home where there is no room for all.

    Return the weight that has no worker yet. `shares` becomes the level of each worker so far.
    """
    buffers, scale = state.buffers, state.numbers[0]["scale"]
    shares, rooms = buffers.shares, buffers.rooms
    for worker in range(shares.size):
        if shares[worker] > rooms[worker]:
            shares[worker] = 0.0
    rest = 0.0
    for i in range(n_listed):
        number = buffers.listed[i]
        weight = buffers.weights[number]
        if buffers.is_heavy[number]:
            rest += weight
            continue
        home = buffers.homes[number]
        room = rooms[home] - shares[home]
        size = weight if weight <= room else max(0.0, np.floor(room / scale) * scale)
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
def _fill_up(state: AheadState, n_keys: I64, n_listed: I64, n_records: I64) -> None:
    """Give what is left of each key to the first workers of its order that have a share left.

    An adversary could choose keys that make these searches long. Once the searches have used up
    their budget, a key takes the first share that is found.
    """
    buffers, shares, least = state.buffers, state.buffers.shares, CLOSE * state.numbers[0]["scale"]
    n_workers, n_pieces, cursor = shares.size, n_keys, 0
    n_steps = STEPS_PER_RECORD * (n_records + n_workers)
    for i in range(n_listed):
        number = buffers.listed[i]
        if buffers.workers[number] != NO_WORKER and buffers.weights[number] <= least:
            continue
        stride = stride_of(state, buffers.hashes[number])
        worker, last, n_looks = np.int64(buffers.homes[number]), np.int64(number), 0
        while True:
            is_searching = n_looks < n_workers and n_steps > 0
            if not is_searching:
                while cursor < n_workers and shares[cursor] <= least:
                    cursor += 1
                if cursor == n_workers:
                    break
                worker = cursor
            if shares[worker] > least:
                size = min(buffers.weights[number], shares[worker])
                piece = np.int64(number)
                if buffers.workers[number] != NO_WORKER:
                    piece = n_pieces
                    n_pieces += 1
                    buffers.after[last] = np.int32(piece)
                    buffers.after[piece] = NO_PIECE
                last = piece
                buffers.workers[piece] = np.int32(worker)
                buffers.sizes[piece] = size
                buffers.weights[number] -= size
                shares[worker] -= size
                if buffers.weights[number] <= least:
                    break
            worker = following(worker, stride, n_workers)
            n_looks += 1
            n_steps -= 1
        if buffers.workers[number] == NO_WORKER:  # rounding has left no share at all
            buffers.workers[number] = buffers.homes[number]
