"""The per-record decisions of Cascade: who has room, in whose order, and who yields first."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.hashing import mix, seeded, to_unit
from skewless.kernels.heavy_keys import (
    ABSENT,
    HeavyKeys,
    admit,
    fade,
    find,
    first_place,
)

_SHIFT_32 = np.uint64(32)
_LOW_32 = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Positions in `numbers`.
LEVEL, TOTAL, TOP, HEAVY, LIGHT_ROOM, LEAST_ROOM, GRADE, MOST_ROOM, KEEP, DEBT = range(10)
# Columns of `marks`: how far above the mean the key still takes a worker; the stored count at which
# it is graded again; the level up to which it goes to workers.
ROOM, RECHECK, FLOOR = range(3)
# Columns of `cursors`: how many workers of its order the key uses; where in the order it is, and
# who that is. Four columns, so that they share a cache line.
REACH, POSITION, WORKER = range(3)
# Positions in `counters`.
RECORDS, TO_SWEEP, EPOCH = range(3)

HEAVY_PARTS = 8.0  # a key is heavy from 1/8 of a worker's fair share on
_COUNT_EVERY = 16  # light records: one in so many is counted, for as many
_QUANTUM = 1.0  # records by which a floor rises when the key has gone through its reach
BLOCK = 256
_IN_BLOCK = np.uint64(BLOCK - 1)
LAG = 1.0  # a heavy key fills workers that lag so far behind the mean first


class CascadeState(NamedTuple):
    """What this source has sent, and what it knows of the heaviest keys."""

    seed: Words
    owners: Workers  # slot -> worker
    strides: Ints
    levels: Floats  # what each worker got, in records per capacity
    costs: Floats  # what one record adds to the level of each worker
    heavy: HeavyKeys
    spot: SmallInts  # hash -> place of the heaviest key with it, so most light keys are seen
    marks: Floats  # per place: ROOM, RECHECK, FLOOR
    cursors: Ints  # per place: REACH, POSITION, WORKER
    hashes: Words  # scratch: of the records of one block
    numbers: Floats
    counters: Ints


@kernel
def grade(state: CascadeState, place: I64) -> None:
    """Say how much room the key at `place` may take: the heavier, the less."""
    count = state.heavy.counts[place]
    numbers = state.numbers
    if count < numbers[HEAVY] or count <= 0.0:  # records may weigh nothing
        state.marks[place, ROOM] = numbers[LIGHT_ROOM]
        state.marks[place, RECHECK] = numbers[HEAVY]
        return
    if count >= numbers[TOP]:
        numbers[TOP] = count
        state.marks[place, ROOM] = numbers[LEAST_ROOM]
    else:
        halvings = math.floor(math.log2(numbers[TOP] / count))
        room = min(numbers[GRADE] * halvings, numbers[MOST_ROOM])
        state.marks[place, ROOM] = max(room, numbers[LEAST_ROOM])
    state.marks[place, RECHECK] = 1.5 * count
    hashed = seeded(state.heavy.keys[place], state.seed[0])
    spot = _spot(hashed, state.spot.size)
    holder = state.spot[spot]
    if holder == ABSENT or state.heavy.counts[holder] <= count:
        state.spot[spot] = place


@kernel
def _heavy_place(state: CascadeState, key: U64, hashed: U64) -> I64:
    """Return the place of a key that is known to be heavy, or ABSENT.

    Where two heavy keys meet at one spot, the lighter is looked for where it is counted: taken for
    light it would fill its worker, and the light keys there would have to yield to it.
    """
    place = np.int64(state.spot[_spot(hashed, state.spot.size)])
    if place == ABSENT or state.heavy.keys[place] == key:
        return place
    place = find(state.heavy, first_place(state.heavy, hashed), key)
    if place != ABSENT and state.marks[place, ROOM] == state.numbers[LIGHT_ROOM]:
        return ABSENT
    return place


@kernel
def _sweep(state: CascadeState) -> None:
    """Between two epochs: fade, find the heaviest key, grade all keys again, shorten reaches."""
    numbers = state.numbers
    heavy = state.heavy
    unit = heavy.unit[0]
    if fade(heavy, numbers[KEEP]):
        numbers[TOTAL] /= unit / numbers[KEEP]
    numbers[TOP] = 0.0
    for place in range(heavy.counts.size):
        numbers[TOP] = max(numbers[TOP], heavy.counts[place])
    state.spot[:] = ABSENT
    fair = numbers[TOTAL] / state.levels.size
    numbers[HEAVY] = fair / HEAVY_PARTS
    for place in range(heavy.counts.size):
        grade(state, place)
        # The heaviest keys are the last to fill up what is left, so they keep what they reach.
        # Any other gives up what it has no use for; should it need it again, it is the same.
        if 2.0 * heavy.counts[place] < numbers[TOP]:
            most = max(1, np.int64(2.0 * heavy.counts[place] / fair))
            if state.cursors[place, REACH] > most:
                state.cursors[place, REACH] = most
                state.cursors[place, POSITION] = most  # begins again at the first


@kernel
def _least(levels: Floats) -> I64:
    worker = 0
    for i in range(1, levels.size):
        if levels[i] < levels[worker]:
            worker = i
    return worker


@kernel
def home_slot(hashed: U64, n_slots: I64) -> I64:
    """Return the slot of a key: with equal stretches, the worker that `hash` gives it."""
    return np.int64(((hashed >> _SHIFT_32) * np.uint64(n_slots)) >> _SHIFT_32)


@kernel
def _stride(hashed: U64, strides: Ints) -> I64:
    """Return the step of a key's order of workers."""
    return strides[np.int64(((hashed & _LOW_32) * np.uint64(strides.size)) >> _SHIFT_32)]


@kernel
def _next(worker: I64, stride: I64, n_workers: I64) -> I64:
    worker += stride
    return worker - n_workers if worker >= n_workers else worker


@kernel
def _spot(hashed: U64, n_spots: I64) -> I64:
    return np.int64(hashed & np.uint64(n_spots - 1))


@kernel
def _forgive(state: CascadeState, worker: I64, level: F64) -> None:
    """Forget that a worker got too little, but for what can be made up for without a burst.

    The mean rises by its share, so that it stays the mean.
    """
    missing = level - state.numbers[DEBT] - state.levels[worker]
    if missing > 0.0:
        state.levels[worker] += missing
        state.numbers[LEVEL] += missing / (state.costs[worker] * state.levels.size)


@kernel
def _extend(state: CascadeState, place: I64, home: I64, stride: I64, level: F64) -> I64:
    """Lengthen the reach of a heavy key up to the next worker that is not above the mean."""
    n_workers = state.levels.size
    reach = state.cursors[place, REACH]
    worker = (home + reach * stride) % n_workers
    for position in range(reach, n_workers):
        if state.levels[worker] <= level:
            _forgive(state, worker, level)
            state.cursors[place, REACH] = position + 1
            state.cursors[place, POSITION] = position
            state.cursors[place, WORKER] = worker
            state.marks[place, FLOOR] = level
            return worker
        worker = _next(worker, stride, n_workers)
    state.cursors[place, REACH] = n_workers
    return _least(state.levels)


@kernel
def _heavy_worker(state: CascadeState, place: I64, home: I64, stride: I64, level: F64) -> I64:
    """Return the worker of a heavy key: the next within its reach that is at its floor or below.

    The floor rises each time the key has gone through its whole reach, up to the room that the
    key may take; then the reach grows, until it is all workers. So the workers within the reach
    fill up evenly, and a key takes as many steps per record as its reach has workers for each
    that it could fill.
    """
    n_workers = state.levels.size
    floor = max(state.marks[place, FLOOR], level - LAG)
    worker = state.cursors[place, WORKER]
    if state.levels[worker] <= floor:
        return worker
    reach = state.cursors[place, REACH]
    limit = level + state.marks[place, ROOM] if reach < n_workers else np.inf
    position = state.cursors[place, POSITION]
    while state.levels[worker] > floor:
        position += 1
        worker = _next(worker, stride, n_workers)
        if position >= reach:
            if floor >= limit:
                return _extend(state, place, home, stride, level)
            position = 0
            worker = home
            floor = min(floor + _QUANTUM, limit)
    state.cursors[place, WORKER] = worker
    state.cursors[place, POSITION] = position
    state.marks[place, FLOOR] = floor
    return worker


@kernel
def _light_worker(state: CascadeState, home: I64, stride: I64, limit: F64) -> I64:
    """Return the first worker in the order of a light key that has room."""
    worker = home
    for _ in range(state.levels.size):
        if state.levels[worker] <= limit:
            return worker
        worker = _next(worker, stride, state.levels.size)
    return _least(state.levels)


@kernel
def _count(state: CascadeState, key: U64, hashed: U64, home: I64, amount: F64) -> None:
    """Count a record of a key that is not known to be heavy; it may turn out to be."""
    heavy = state.heavy
    first = first_place(heavy, hashed)
    place = find(heavy, first, key)
    if place == ABSENT:
        chance = to_unit(mix(hashed + np.uint64(state.counters[RECORDS]) * _GOLDEN))
        place = admit(heavy, first, key, amount, chance)
        if place == ABSENT:
            return
        state.cursors[place, REACH] = 1
        state.cursors[place, POSITION] = 0
        state.cursors[place, WORKER] = home
        state.marks[place, FLOOR] = 0.0
        grade(state, place)
    else:
        heavy.counts[place] += amount
        if heavy.counts[place] > state.marks[place, RECHECK]:
            grade(state, place)


@kernel
def _route_one(keys: Keys, weights: Floats, state: CascadeState, out: Workers, i: I64) -> None:
    """Route record i, whatever it takes."""
    heavy = state.heavy
    numbers = state.numbers
    counters = state.counters
    weight = weights[i] if weights.size > 0 else 1.0
    hashed = seeded(keys[i], state.seed[0])
    home = np.int64(state.owners[home_slot(hashed, state.owners.size)])
    stride = _stride(hashed, state.strides)
    level = numbers[LEVEL]
    amount = weight * heavy.unit[0]
    numbers[TOTAL] += amount
    place = _heavy_place(state, keys[i], hashed)
    if place != ABSENT:
        heavy.counts[place] += amount
        if heavy.counts[place] > state.marks[place, RECHECK]:
            grade(state, place)
        worker = _heavy_worker(state, place, home, stride, level)
    else:
        # One in so many is counted for as many; one that finds its worker full is counted anyway,
        # for a key that has just become hot announces itself by that.
        if counters[RECORDS] & (_COUNT_EVERY - 1) == 0:
            _count(state, keys[i], hashed, home, amount * _COUNT_EVERY)
        elif state.levels[home] > level + numbers[LIGHT_ROOM]:
            _count(state, keys[i], hashed, home, amount)
        worker = _light_worker(state, home, stride, level + numbers[LIGHT_ROOM])
    state.levels[worker] += weight * state.costs[worker]
    numbers[LEVEL] += weight * (1.0 / state.levels.size)  # rounded as in `_route_common`
    out[i] = worker
    counters[RECORDS] += 1
    if counters[RECORDS] >= counters[TO_SWEEP]:
        counters[TO_SWEEP] += counters[EPOCH]
        _sweep(state)


@kernel
def _route_common(
    keys: Keys, weights: Floats, state: CascadeState, out: Workers, i: I64, end: I64
) -> I64:
    """Route records i … end − 1 while they need nothing out of the ordinary; return the next one.

    The same decisions as `_route_one`. It is a loop of its own so that what is rare does not take
    the registers of what is common.
    """
    owners, levels, costs = state.owners, state.levels, state.costs
    marks, cursors = state.marks, state.cursors
    heavy_keys, counts, spot = state.heavy.keys, state.heavy.counts, state.spot
    unit = state.heavy.unit[0]
    level, total = state.numbers[LEVEL], state.numbers[TOTAL]
    light_room = state.numbers[LIGHT_ROOM]
    records = state.counters[RECORDS]
    end = min(end, i + state.counters[TO_SWEEP] - records - 1)
    share = 1.0 / levels.size
    n_workers = np.uint64(levels.size)
    n_slots = np.uint64(owners.size)
    in_spots = np.uint64(spot.size - 1)
    while i < end:
        # Unsigned wherever it is an index: a signed one may be negative, and costs a test.
        now = np.uint64(i)
        weight = weights[now] if weights.size > 0 else 1.0
        hashed = state.hashes[now & _IN_BLOCK]
        home = np.uint64(owners[((hashed >> _SHIFT_32) * n_slots) >> _SHIFT_32])
        amount = weight * unit
        found = spot[hashed & in_spots]
        if found == ABSENT:
            worker = home
            if levels[worker] > level + light_room or records & (_COUNT_EVERY - 1) == 0:
                break
        else:
            place = np.uint64(found)
            count = counts[place] + amount
            if heavy_keys[place] != keys[now] or count > marks[place, RECHECK]:
                break
            floor = max(marks[place, FLOOR], level - LAG)
            worker = np.uint64(cursors[place, WORKER])
            if levels[worker] > floor:
                stride = np.uint64(_stride(hashed, state.strides))
                reach = cursors[place, REACH]
                limit = level + marks[place, ROOM] if reach < levels.size else np.inf
                position = cursors[place, POSITION]
                while levels[worker] > floor:
                    position += 1
                    worker += stride
                    worker = worker - n_workers if worker >= n_workers else worker
                    if position >= reach:
                        if floor >= limit:
                            break
                        position = 0
                        worker = home
                        floor = min(floor + _QUANTUM, limit)
                if position >= reach:  # nobody within its reach has room
                    break
                cursors[place, WORKER] = np.int64(worker)
                cursors[place, POSITION] = position
                marks[place, FLOOR] = floor
            counts[place] = count
        levels[worker] += weight * costs[worker]
        level += weight * share
        total += amount
        out[now] = np.int32(worker)
        records += 1
        i += 1
    state.numbers[LEVEL] = level
    state.numbers[TOTAL] = total
    state.counters[RECORDS] = records
    return i


@kernel
def route_records(keys: Keys, weights: Floats, state: CascadeState, out: Workers) -> None:
    """Route by the state; without weights every record counts 1."""
    for begin in range(0, keys.size, BLOCK):
        end = min(begin + BLOCK, keys.size)
        # All at once: by vector instructions, and a decision that was guessed wrong is known to be
        # wrong sooner when it does not begin with a hash.
        for i in range(begin, end):
            state.hashes[i - begin] = seeded(keys[i], state.seed[0])
        i = _route_common(keys, weights, state, out, begin, end)
        while i < end:
            _route_one(keys, weights, state, out, i)
            i = _route_common(keys, weights, state, out, i + 1, end)
