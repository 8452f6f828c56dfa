"""What a source of Cascade remembers, and where in its arrays that is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.sound import MOST_COUNTED, MOST_WEIGHT, require_same, require_that, require_within
from skewless.strategies.cascade.heavy_keys import PLACES, HeavyKeys, n_places

# Positions in `numbers`: the mean level; the weight of the records since the last sweep; the faded
# weight and number of those before; the largest count; the count from which on a key is heavy; what
# a sweep leaves of a count; the weight of a usual record, by which the rooms are measured; the part
# of what a worker got too much that a sweep adds to its handicap.
LEVEL, WEIGHT, OLD_WEIGHT, OLD_RECORDS, TOP, HEAVY, KEEP, SCALE, HANDICAP = range(9)
NUMBERS = 9
# Positions in `rooms`, all in levels above the mean: where a light key leaves a worker; where the
# heaviest key does; what each halving of its count adds to the room of a key, and the most that
# they add; how far behind a worker may be before the rest is forgiven; how far behind the heaviest
# keys let nobody fall; by how much a floor rises.
LIGHT_ROOM, LEAST_ROOM, ROOM_PER_HALVING, MOST_ROOM, DEBT, LAG, RISE = range(7)
ROOMS = 7
# Positions in `counters`: records so far; the number of them at which the next sweep is due;
# records between two sweeps; whether `spots` has changed since the last look; steps that were taken
# in search of a worker, see `may_search`.
RECORDS, SWEEP_AT, EPOCH, CHANGED, STEPS = range(5)

# Columns of `marks`, a row per place: how far above the mean the key takes workers, at the most;
# the count at which it is graded again; the level up to which it fills its workers now; how far
# above the mean the one who waits may be by now.
ROOM, RECHECK, FLOOR, LIMIT = range(4)
MARKS = 4
# Columns of `cursors`, a row per place: how many workers of its order the key uses; where in the
# order it looks next, and who that is; which of `waiting` is next, and where they end; how far from
# him is the other one who might do; the first worker of its order, and the step to the next.
REACH, POSITION, WORKER, NEXT, END, OTHER, HOME, STRIDE = range(8)
CURSORS = 8
#: The most workers that wait for the records of one key.
WAITING = 32
#: With so many workers at most, a key stays with one until the next is clearly better off.
FEW = 8

BLOCK = 256
HEAVY_PARTS = 8.0  # a key is heavy from 1/8 of a worker's fair share on
COUNT_EVERY = 16  # light records: one in so many is counted, for as many
SPOTS_PER_SLOT = 2
STEPS_PER_RECORD = 16  # steps that a record pays for, in the search of whichever record needs them
SAVED_PER_WORKER = 1024  # steps per worker that earlier records may have saved up

_SHIFT_32 = np.uint64(32)
_LOW_32 = np.uint64(0xFFFFFFFF)


class CascadeState(NamedTuple):
    """What this source has sent, and what it knows of the heaviest keys.

    Rows are flat: a row of k columns begins at k times its place. Behind the places of the counted
    keys there is one that all light keys share, so that a record can be routed without asking first
    what kind of key it has; and one more, where what is written for them goes and nobody reads it.
    """

    seed: Words
    owners: Workers  # slot -> worker
    strides: Ints
    levels: Floats  # what each worker got, per capacity
    handicaps: Floats  # how much of each level is no record, but makes up for being above the mean
    costs: Floats  # what a record of weight 1 adds to the level of each worker
    bounds: Floats  # of levels, from below: where the least one is found
    heavy: HeavyKeys
    spots: SmallInts  # upper bits of a hash -> where in `waiting` the row of its heavy key begins
    marks: Floats
    cursors: SmallInts
    waiting: Workers  # a row of workers per place, and behind them all workers in order: the homes
    hashes: Words  # of the records of one block
    starts: SmallInts  # of the same: where in `waiting` their row begins, or their home is
    aside: Keys  # those keys of the block that are counted after it, if they are light
    aside_weights: Floats
    numbers: Floats
    rooms: Floats
    rooms_of_one: Floats  # the same where a usual record weighs 1
    counters: Ints

    def check(self, fresh: CascadeState) -> None:
        """Refuse workers, places and turns that are not there, and numbers that are none."""
        for name in ("seed", "owners", "strides", "costs", "rooms_of_one"):
            require_same(name, getattr(self, name), getattr(fresh, name))
        n_workers, n_places = self.levels.size, self.heavy.keys.size - PLACES
        homes = self.waiting.size - n_workers
        require_within("waiting", self.waiting[:homes], 0, n_workers - 1)
        require_same("waiting", self.waiting[homes:], fresh.waiting[homes:])
        at_home = self.spots == homes + np.repeat(self.owners, SPOTS_PER_SLOT)
        spots = self.spots[~at_home]
        require_within("spots", spots, 0, n_places * WAITING - 1)
        require_that(not (spots % WAITING).any(), "spots must be where rows begin")
        require_within("starts", self.starts, 0, self.waiting.size - 1)
        self._check_cursors(fresh, n_places)
        check_numbers(self, fresh)
        self._check_marks(fresh)

    def _check_cursors(self, fresh: CascadeState, n_places: int) -> None:
        n_workers = self.levels.size
        cursors = self.cursors.reshape(-1, CURSORS)
        require_same("cursors", cursors[n_places], fresh.cursors.reshape(-1, CURSORS)[n_places])
        most = {REACH: n_workers, POSITION: n_workers, END: WAITING, OTHER: 1}
        for column in range(CURSORS):
            high = most.get(column, n_workers - 1)
            if column not in (NEXT, STRIDE):
                low = 1 if column == REACH else 0
                require_within("cursors", cursors[:n_places, column], low, high)
        counted = cursors[:n_places]
        require_that(
            np.isin(counted[:, STRIDE], self.strides).all(), "cursors must step by strides"
        )
        require_within("cursors", counted[:, NEXT], 0, WAITING)
        require_that(
            (counted[:, NEXT] <= counted[:, END]).all(), "cursors must be before their end"
        )
        few = counted[counted[:, REACH] <= FEW]
        require_within("cursors", few[:, END], 1, WAITING - 1)

    def _check_marks(self, fresh: CascadeState) -> None:
        require_within("aside_weights", self.aside_weights, 0, MOST_WEIGHT)
        rooms = self.rooms_of_one * self.numbers[SCALE]
        require_that(np.array_equal(self.rooms, rooms), "rooms must follow from the scale")
        n_leaves = self.bounds.size // 2
        leaves = self.bounds[n_leaves : n_leaves + self.levels.size]
        require_that((leaves <= self.levels).all(), "bounds must not exceed the levels")
        require_within("marks", self.marks, -np.inf, np.inf)
        own, other = (s.marks.reshape(-1, MARKS)[light(s)] for s in (self, fresh))
        require_same("marks", own[[RECHECK, FLOOR]], other[[RECHECK, FLOOR]])
        require_that(
            own[LIMIT] == self.rooms[LIGHT_ROOM], "marks must limit light keys by their room"
        )


def check_numbers(state: Any, fresh: Any) -> None:
    """Refuse levels and counters that no records lead to, of a whole state or a condensed one."""
    numbers, counters = state.numbers, state.counters
    require_same("numbers", numbers[[KEEP, HANDICAP]], fresh.numbers[[KEEP, HANDICAP]])
    require_within("levels", state.levels, -MOST_WEIGHT, MOST_WEIGHT)
    require_within("numbers", numbers[[LEVEL]], -MOST_WEIGHT, MOST_WEIGHT)
    require_within("numbers", numbers, min(0.0, float(numbers[LEVEL])), MOST_WEIGHT)
    require_within("numbers", numbers[[WEIGHT, OLD_WEIGHT, OLD_RECORDS, TOP]], 0, MOST_WEIGHT)
    require_within("numbers", numbers[[HEAVY, SCALE]], 1 / MOST_WEIGHT, MOST_WEIGHT)
    require_within("handicaps", state.handicaps, 0, MOST_WEIGHT)
    require_same("counters", counters[[EPOCH]], fresh.counters[[EPOCH]])
    require_within("counters", counters, 0, MOST_COUNTED)
    left = counters[[SWEEP_AT]] - counters[RECORDS]
    require_within("counters", left, 1, int(counters[EPOCH]))


@kernel
def light(state: CascadeState) -> I64:
    """Return the place that all light keys share."""
    return n_places(state.heavy)


@kernel
def homes(state: CascadeState) -> I64:
    """Return where in `waiting` the homes of light keys begin."""
    return state.waiting.size - state.levels.size


@kernel
def slot_of(hashed: U64, n_slots: I64) -> I64:
    """Return the slot, or the spot, of a key: with equal stretches, the worker of `hash`."""
    return np.int64(((hashed >> _SHIFT_32) * np.uint64(n_slots)) >> _SHIFT_32)


@kernel
def home_of(state: CascadeState, hashed: U64) -> I64:
    """Return the first worker in the order of a key."""
    return np.int64(state.owners[slot_of(hashed, state.owners.size)])


@kernel
def stride_of(state: CascadeState, hashed: U64) -> I64:
    """Return the step of a key's order of workers."""
    n_strides = np.uint64(state.strides.size)
    return state.strides[np.int64(((hashed & _LOW_32) * n_strides) >> _SHIFT_32)]


@kernel
def following(worker: I64, stride: I64, n_workers: I64) -> I64:
    """Return the next worker of an order."""
    worker += stride
    return worker - n_workers if worker >= n_workers else worker


@kernel
def measure_rooms(state: CascadeState, scale: F64) -> None:
    """Measure all rooms by records of this weight."""
    state.numbers[SCALE] = scale
    for i in range(state.rooms.size):
        state.rooms[i] = state.rooms_of_one[i] * scale
    state.marks[light(state) * MARKS + LIMIT] = state.rooms[LIGHT_ROOM]


@kernel
def may_search(state: CascadeState, n_records: I64) -> bool:
    """Tell whether record number `n_records` may look at more workers than the usual one or two.

    Every record pays for some steps, and what is not used is saved up to a limit. Whoever chooses
    keys can make searches long, but not longer on the average than what records pay for.
    """
    saved = SAVED_PER_WORKER * state.levels.size
    return bool(state.counters[STEPS] <= STEPS_PER_RECORD * n_records + saved)


@kernel
def charge(state: CascadeState, n_records: I64, n_steps: I64) -> None:
    """Note the steps of a search, which may be more than there was left."""
    # What earlier records did not use is saved; what they saved beyond the limit is lost.
    before = max(state.counters[STEPS], STEPS_PER_RECORD * n_records)
    state.counters[STEPS] = before + n_steps


@kernel
def begin_again(state: CascadeState, place: I64) -> None:
    """Let those wait for the key that its reach says, beginning with the first of its order.

    A key with one worker has it waiting for good. One with few has all of them waiting, round after
    round. For one with many nobody waits: it has to look first who has room.
    """
    cursors = state.cursors
    reach = np.int64(cursors[place * CURSORS + REACH])
    home = np.int64(cursors[place * CURSORS + HOME])
    stride = np.int64(cursors[place * CURSORS + STRIDE])
    is_few = reach <= FEW
    cursors[place * CURSORS + POSITION] = reach
    cursors[place * CURSORS + NEXT] = 0
    cursors[place * CURSORS + END] = 0
    cursors[place * CURSORS + OTHER] = 0
    state.marks[place * MARKS + FLOOR] = np.inf if is_few else 0.0
    state.waiting[place * WAITING] = home
    set_limit(state, place)
    if reach == 1:
        cursors[place * CURSORS + END] = 1
    elif is_few:
        # Up to where the first of the order has his turn again, so that it goes on from the start.
        cursors[place * CURSORS + END] = (WAITING - 1) // reach * reach
        cursors[place * CURSORS + OTHER] = 1
        worker = home
        position = 0
        for i in range(WAITING):
            state.waiting[place * WAITING + i] = worker
            position += 1
            worker = home if position == reach else following(worker, stride, state.levels.size)
            position = 0 if position == reach else position


@kernel
def set_limit(state: CascadeState, place: I64) -> None:
    """Say how far above the mean the worker that waits for the key may be.

    Many workers were looked at when they began to wait; few must be within the key's own room when
    a record comes.
    """
    reach = state.cursors[place * CURSORS + REACH]
    is_few = reach <= FEW and reach < state.levels.size
    room = state.marks[place * MARKS + ROOM] if is_few else state.rooms[LIGHT_ROOM]
    state.marks[place * MARKS + LIMIT] = room
