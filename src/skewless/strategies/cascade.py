"""Cascade: a record goes to the first worker of its key's order that has room, heavy keys yielding first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.hashing import mix, seed_array, seeded, to_unit
from skewless.kernels.heavy_keys import (
    ABSENT,
    HeavyKeys,
    admit,
    fade,
    find,
    first_place,
    heavy_keys,
)
from skewless.kernels.slot_table import slot_table, strides
from skewless.parameters import require
from skewless.strategy import Traits

_SHIFT_32 = np.uint64(32)
_LOW_32 = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Positions in `numbers`.
LEVEL, TOTAL, TOP, HEAVY, LIGHT_ROOM, LEAST_ROOM, GRADE, MOST_ROOM, KEEP = range(9)
# Columns of `marks`: how far above the mean the key still takes a worker; the stored count at which
# it is graded again; the level up to which it goes to workers.
ROOM, RECHECK, FLOOR = range(3)
# Columns of `cursors`: how many workers of its order the key uses; where in the order it is, the
# slot of that, and whose that slot is.
REACH, POSITION, SLOT, WORKER = range(4)
# Positions in `counters`.
RECORDS, TO_SWEEP, EPOCH, POSITIONS = range(4)

_HORIZON = 10_000  # records over which the tolerance is promised
_LEAST_ROOM_LIGHT = 10.0  # records: below that, chance alone would move light keys
_HEAVY_PARTS = 8.0  # a key is heavy from 1/8 of a worker's fair share on
_COUNTED_PER_WORKER = 16
_EPOCH_PER_WORKER = 64
_COUNT_EVERY = 8  # light records: one in so many is counted, for as many
_QUANTUM = 3.0  # records that a heavy key gives a worker before it goes on to the next
_BLOCK = 256
_LAG = 3.0  # a heavy key fills workers that lag so far behind the mean first


class CascadeState(NamedTuple):
    """What this source has sent, and what it knows of the heaviest keys."""

    seed: Words
    owners: Workers  # slot -> worker
    strides: Ints
    levels: Floats  # what each worker got, in records per capacity
    costs: Floats  # what one record adds to the level of each worker
    heavy: HeavyKeys
    spot: SmallInts  # hash -> place of a heavy key with that hash, so most light keys are seen
    marks: Floats  # per place: ROOM, RECHECK, FLOOR
    cursors: Ints  # per place: REACH, POSITION, SLOT, WORKER
    hashes: Words  # scratch: of the records of one block
    numbers: Floats
    counters: Ints


@kernel
def _grade(state: CascadeState, place: I64) -> None:
    """Say how much room the key at `place` may take: the heavier, the less."""
    count = state.heavy.counts[place]
    numbers = state.numbers
    if count < numbers[HEAVY]:
        state.marks[place, ROOM] = numbers[LIGHT_ROOM]
        state.marks[place, RECHECK] = numbers[HEAVY]
        return
    numbers[TOP] = max(numbers[TOP], count)
    halvings = math.floor(math.log2(numbers[TOP] / count))
    state.marks[place, ROOM] = min(
        numbers[LEAST_ROOM] + numbers[GRADE] * halvings, numbers[MOST_ROOM]
    )
    state.marks[place, RECHECK] = 1.5 * count
    hashed = seeded(state.heavy.keys[place], state.seed[0])
    state.spot[_spot(hashed, state.spot.size)] = place


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
    numbers[HEAVY] = fair / _HEAVY_PARTS
    for place in range(heavy.counts.size):
        _grade(state, place)
        # The heaviest keys are the last to fill up what is left, so they keep what they reach.
        # Any other gives up what it has no use for; should it need it again, it is the same.
        if 2.0 * heavy.counts[place] < numbers[TOP]:
            most = max(1, np.int64(2.0 * heavy.counts[place] / fair))
            if state.cursors[place, REACH] > most:
                state.cursors[place, REACH] = most
                state.cursors[place, POSITION] = most  # begins again at the first


@kernel
def _least(levels: Floats) -> I32:
    worker = 0
    for i in range(1, levels.size):
        if levels[i] < levels[worker]:
            worker = i
    return np.int32(worker)


@kernel
def _home(hashed: U64, n_slots: I64) -> I64:
    """Return the slot of a key: with equal stretches, the worker that `hash` gives it."""
    return np.int64(((hashed >> _SHIFT_32) * np.uint64(n_slots)) >> _SHIFT_32)


@kernel
def _stride(hashed: U64, strides: Ints) -> I64:
    """Return the step of a key's order of workers."""
    return strides[np.int64(((hashed & _LOW_32) * np.uint64(strides.size)) >> _SHIFT_32)]


@kernel
def _next(slot: I64, stride: I64, n_slots: I64) -> I64:
    slot += stride
    return slot - n_slots if slot >= n_slots else slot


@kernel
def _spot(hashed: U64, n_spots: I64) -> I64:
    return np.int64(hashed & np.uint64(n_spots - 1))


@kernel
def _extend(state: CascadeState, place: I64, home: I64, stride: I64, level: F64) -> I32:
    """Lengthen the reach of a heavy key up to the next worker that is not above the mean."""
    reach = state.cursors[place, REACH]
    slot = (home + reach * stride) % state.owners.size
    for position in range(reach, state.counters[POSITIONS]):
        if state.levels[state.owners[slot]] <= level:
            state.cursors[place, REACH] = position + 1
            state.cursors[place, POSITION] = position
            state.cursors[place, SLOT] = slot
            state.marks[place, FLOOR] = level
            state.cursors[place, WORKER] = state.owners[slot]
            return state.owners[slot]
        slot = _next(slot, stride, state.owners.size)
    return _least(state.levels)


@kernel
def _heavy_worker(state: CascadeState, place: I64, home: I64, stride: I64, level: F64) -> I32:
    """Return the worker of a heavy key: the next within its reach that is at its floor or below.

    The floor rises by one record each time the key has gone through its whole reach, up to what
    room the key may take; then the reach grows. So the workers within the reach fill up evenly,
    and a step is paid for by a record about as often as the reach has workers per fair share.
    """
    floor = max(state.marks[place, FLOOR], level - _LAG)
    worker = state.cursors[place, WORKER]
    limit = level + state.marks[place, ROOM]
    reach = state.cursors[place, REACH]
    position = state.cursors[place, POSITION]
    slot = state.cursors[place, SLOT]
    while state.levels[worker] > floor:
        position += 1
        slot = _next(slot, stride, state.owners.size)
        if position >= reach:
            position = 0
            slot = home
            if floor >= limit:
                return _extend(state, place, home, stride, level)
            floor = min(floor + _QUANTUM, limit)
        worker = state.owners[slot]
    state.cursors[place, WORKER] = worker
    state.cursors[place, POSITION] = position
    state.cursors[place, SLOT] = slot
    state.marks[place, FLOOR] = floor
    return worker


@kernel
def _light_worker(state: CascadeState, home: I64, stride: I64, limit: F64) -> I32:
    """Return the first worker in the order of a light key that has room."""
    slot = home
    for _ in range(state.counters[POSITIONS]):
        worker = state.owners[slot]
        if state.levels[worker] <= limit:
            return worker
        slot = _next(slot, stride, state.owners.size)
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
        state.cursors[place, SLOT] = home
        state.cursors[place, WORKER] = state.owners[home]
        state.marks[place, FLOOR] = 0.0
        _grade(state, place)
    else:
        heavy.counts[place] += amount
        if heavy.counts[place] > state.marks[place, RECHECK]:
            _grade(state, place)


@kernel
def _route_one(keys: Keys, weights: Floats, state: CascadeState, out: Workers, i: I64) -> None:
    """Route record i, whatever it takes."""
    heavy = state.heavy
    numbers = state.numbers
    counters = state.counters
    weight = weights[i] if weights.size > 0 else 1.0
    hashed = seeded(keys[i], state.seed[0])
    home = _home(hashed, state.owners.size)
    stride = _stride(hashed, state.strides)
    level = numbers[LEVEL]
    amount = weight * heavy.unit[0]
    numbers[TOTAL] += amount
    place = np.int64(state.spot[_spot(hashed, state.spot.size)])
    if place != ABSENT and heavy.keys[place] == keys[i]:
        heavy.counts[place] += amount
        if heavy.counts[place] > state.marks[place, RECHECK]:
            _grade(state, place)
        worker = _heavy_worker(state, place, home, stride, level)
    else:
        if counters[RECORDS] & (_COUNT_EVERY - 1) == 0:
            _count(state, keys[i], hashed, home, amount * _COUNT_EVERY)
        worker = _light_worker(state, home, stride, level + numbers[LIGHT_ROOM])
    state.levels[worker] += weight * state.costs[worker]
    numbers[LEVEL] += weight / state.levels.size
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
    while i < end:
        weight = weights[i] if weights.size > 0 else 1.0
        hashed = state.hashes[i & (_BLOCK - 1)]
        home = _home(hashed, owners.size)
        amount = weight * unit
        place = np.int64(spot[_spot(hashed, spot.size)])
        if place == ABSENT:
            worker = np.int64(owners[home])
            if levels[worker] > level + light_room or records & (_COUNT_EVERY - 1) == 0:
                break
        else:
            count = counts[place] + amount
            if heavy_keys[place] != keys[i] or count > marks[place, RECHECK]:
                break
            floor = max(marks[place, FLOOR], level - _LAG)
            worker = cursors[place, WORKER]
            if levels[worker] > floor:
                stride = _stride(hashed, state.strides)
                limit = level + marks[place, ROOM]
                reach = cursors[place, REACH]
                position = cursors[place, POSITION]
                slot = cursors[place, SLOT]
                while levels[worker] > floor:
                    position += 1
                    slot = _next(slot, stride, owners.size)
                    if position >= reach:
                        if floor >= limit:
                            break
                        position = 0
                        slot = home
                        floor = min(floor + _QUANTUM, limit)
                    worker = np.int64(owners[slot])
                if position >= reach:  # nobody within its reach has room
                    break
                cursors[place, WORKER] = worker
                cursors[place, POSITION] = position
                cursors[place, SLOT] = slot
                marks[place, FLOOR] = floor
            counts[place] = count
        levels[worker] += weight * costs[worker]
        level += weight * share
        total += amount
        out[i] = worker
        records += 1
        i += 1
    state.numbers[LEVEL] = level
    state.numbers[TOTAL] = total
    state.counters[RECORDS] = records
    return i


@kernel
def _route(keys: Keys, weights: Floats, state: CascadeState, out: Workers) -> None:
    """Route by the state; without weights every record counts 1."""
    for begin in range(0, keys.size, _BLOCK):
        end = min(begin + _BLOCK, keys.size)
        # All at once: by vector instructions, and a decision that was guessed wrong is known to be
        # wrong sooner when it does not begin with a hash.
        for i in range(begin, end):
            state.hashes[i - begin] = seeded(keys[i], state.seed[0])
        i = _route_common(keys, weights, state, out, begin, end)
        while i < end:
            _route_one(keys, weights, state, out, i)
            i = _route_common(keys, weights, state, out, i + 1, end)


@dataclass(frozen=True)
class Cascade:
    """Send each record to the first worker of its key's order that has room.

    Every key has its own order of workers, by hash. Light keys stay on their first worker until it
    is clearly above the mean; heavy keys yield the sooner the heavier they are, and use no more of
    their order than they must. So the heaviest keys fill like water what the others leave, nothing
    is split without need, and sources that never talk lengthen the same orders.

    **Guarantee**: no worker gets a record while its level is more than `tolerance` · 10,000 / n
    records (10 at least) above the mean. So over all m records of a source the imbalance is at
    most (`tolerance` · 10,000 + n) / m, or 11 · n / m where that is more.

    Parameters
    ----------
    tolerance
        The imbalance that is accepted over a stretch of 10,000 records.
    without
        Leaves out one ingredient, to see what it is for: `"splitting"` heavy keys, `"grading"`
        them by weight, `"fading"` of old counts, or `"yielding"` of light keys.

    **Deviations from the paper**: there is none; this is our own.

    Examples
    --------
    >>> out = np.empty(12, np.int32)
    >>> strategy = Cascade()
    >>> strategy.route(np.full(12, 3, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()
    [0]

    References
    ----------
    Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018, bounds the
    load of keys of equal weight by the same walk along an order.
    """

    name: ClassVar[str] = "cascade"

    tolerance: float = 0.05
    without: Literal["nothing", "splitting", "grading", "fading", "yielding"] = "nothing"

    def __post_init__(self) -> None:  # noqa: D105
        require(self, "tolerance", 0 < self.tolerance < math.inf, "a finite number above 0")
        parts = ("nothing", "splitting", "grading", "fading", "yielding")
        require(self, "without", self.without in parts, f"one of {', '.join(parts)}")

    @property
    def traits(self) -> Traits:
        """A heavy key may be anywhere."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> CascadeState:
        """Return the state of a source that has sent nothing."""
        light_room = max(_LEAST_ROOM_LIGHT, self.tolerance * _HORIZON / n_workers)
        most_room = 0.6 * light_room
        numbers = np.zeros(9)
        numbers[HEAVY] = 4.0
        numbers[LIGHT_ROOM] = np.inf if self.without == "yielding" else light_room
        numbers[LEAST_ROOM] = 0.0
        numbers[GRADE] = 0.0 if self.without == "grading" else max(1.0, most_room / 4.0)
        numbers[MOST_ROOM] = np.inf if self.without == "splitting" else most_room
        numbers[KEEP] = 1.0 if self.without == "fading" else 0.8
        if self.without == "splitting":
            numbers[LEAST_ROOM] = np.inf
        heavy = heavy_keys(_COUNTED_PER_WORKER * n_workers)
        n_places = heavy.keys.size
        epoch = _EPOCH_PER_WORKER * n_workers
        n_spots = 1 << (4 * n_places - 1).bit_length()
        return CascadeState(
            seed=seed_array(seed, 1),
            owners=slot_table(n_workers),
            strides=strides(n_workers),
            levels=np.zeros(n_workers),
            costs=np.ones(n_workers),
            heavy=heavy,
            spot=np.full(n_spots, ABSENT, np.int32),
            marks=np.tile([numbers[LIGHT_ROOM], numbers[HEAVY], 0.0, 0.0], (n_places, 1)),
            cursors=np.tile([1, 0, 0, 0], (n_places, 1)),
            hashes=np.zeros(_BLOCK, np.uint64),
            numbers=numbers,
            counters=np.array([0, epoch, epoch, n_workers]),
        )

    def route(self, keys: Keys, state: CascadeState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(keys, _NO_WEIGHTS, state, out)

    def route_weighted(
        self, keys: Keys, weights: Floats, state: CascadeState, out: Workers
    ) -> None:
        """Fill `out` with the worker of each record, where a record costs its weight."""
        _route(keys, weights, state, out)


_NO_WEIGHTS = np.empty(0)
