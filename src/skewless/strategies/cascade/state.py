"""The state of a source of Cascade, the fields of its arrays, and what a merge needs of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import F64, I64, Floats, Ints, Keys, Rows, SmallInts, Words, Workers
from skewless.plumbing.compiling import kernel
from skewless.state import (
    MOST_COUNTED,
    MOST_WEIGHT,
    fixed,
    growing,
    require_same,
    require_that,
    require_within,
    within,
)
from skewless.strategies.cascade.heavy_keys import PLACES, Counted, HeavyKeys, n_places
from skewless.strategies.cascade.orders import following

#: The fields of `numbers`.
NUMBERS = np.dtype(
    [
        ("level", "f8"),  # the mean level of all workers
        ("weight", "f8"),  # weight of the records since the last sweep
        ("old_weight", "f8"),  # faded weight of the records before it
        ("old_records", "f8"),  # faded number of those records
        ("top", "f8"),  # the largest count of a key
        ("heavy", "f8"),  # the count from which a key is heavy
        ("keep", "f8"),  # the part of a count that a sweep keeps
        ("scale", "f8"),  # weight of an average record: rooms are multiples of it
        ("handicap", "f8"),  # the part of a worker's excess that a sweep adds to its handicap
        ("watched", "f8"),  # faded weight of all records at the last look, in stored counts
        ("first", "f8"),  # the first weight of a record that is not 0; 0: there was none
    ]
)
#: Differences from the mean level, in average records.
ROOMS = np.dtype(
    [
        ("light", "f8"),  # a light key leaves a worker above this
        ("least", "f8"),  # the heaviest key leaves a worker above this
        ("per_halving", "f8"),  # what each halving of its count adds to the room of a key
        ("most", "f8"),  # the most that halvings add
        ("debt", "f8"),  # a worker further behind than this is forgiven the rest
        ("lag", "f8"),  # the heaviest keys fill workers that are further behind than this first
        ("rise", "f8"),  # how much a floor rises at a time
    ]
)
COUNTERS = np.dtype(
    [
        ("records", "i8"),  # records so far
        ("sweep_at", "i8"),  # the number of records at which the next sweep is due
        ("epoch", "i8"),  # records between two sweeps
        ("changed", "i8"),  # 1 if `spots` has changed since the last look at it
        ("steps", "i8"),  # steps taken in search of a worker, see `may_search`
        ("known", "i8"),  # records since the last sweep that a merge has added to the old ones
        ("awaiting", "i8"),  # 1 + the records at the last message; 0: no answer is awaited
        ("look_at", "i8"),  # the number of records at which counts are looked at again
        ("varies", "i8"),  # 1 if records have had different weights
    ]
)
#: The fields of `marks`, a row per place.
MARKS = np.dtype(
    [
        ("room", "f8"),  # how far above the mean the key takes workers, at the most
        ("recheck", "f8"),  # the count at which the key is graded again
        ("floor", "f8"),  # the level up to which the key fills its workers now
        ("limit", "f8"),  # how far above the mean the next listed worker may be by now
    ]
)
#: The fields of `cursors`, a row per place.
CURSORS = np.dtype(
    [
        ("reach", "i4"),  # how many workers of its order the key uses
        ("position", "i4"),  # where in the order the next search begins
        ("worker", "i4"),  # the worker at that position
        ("next", "i4"),  # which entry of the key's row in `waiting` is next
        ("end", "i4"),  # where the row ends
        ("other", "i4"),  # how far from the next entry the alternative is
        ("home", "i4"),  # the first worker of the key's order
        ("stride", "i4"),  # the step from each worker of the order to the next
    ]
)

#: The most workers that are listed for the next records of one key.
WAITING = 32
#: A key with at most this many workers stays with one until the next is clearly less loaded.
FEW = 8

BLOCK = 256  # records whose keys are hashed at a time
HEAVY_PARTS = 8.0  # a key is heavy from 1/8 of a worker's fair share on
COUNT_EVERY = 16  # one light record in this many is counted, and counts for this many
SPOTS_PER_SLOT = 2  # a finer table than the slots: fewer light keys share a spot with a heavy one
STEPS_PER_RECORD = 16  # search steps that each record adds to the budget
SAVED_PER_WORKER = 1024  # the most unused steps that are saved, per worker


@fixed("seed", "owners", "strides", "costs", "rooms")
@within(-MOST_WEIGHT, MOST_WEIGHT, "levels")
@within(0, MOST_WEIGHT, "handicaps", "watched", "aside_weights")
@within(0, MOST_COUNTED, "counters")
@within(-np.inf, np.inf, "marks")
class CascadeState(NamedTuple):
    """What this source has sent, and what it knows of the heaviest keys.

    Rows of `waiting` are flat: each begins at WAITING times its place. After the places of the
    counted keys there is one place that all light keys share. So a record can be routed before it
    is known what kind of key it has. Writes for light keys go to one more place, a scratch row, so
    that the next load does not stall on this store.
    """

    seed: Words
    owners: Workers  # slot -> worker
    strides: Ints
    levels: Floats  # what each worker got, per capacity
    handicaps: Floats  # the part of each level that is a penalty, not records
    costs: Floats  # what a record of weight 1 adds to the level of each worker
    bounds: Floats  # of levels, from below: where the least one is found
    heavy: HeavyKeys
    watched: Floats  # the stored count of each place at the last look, see `notice`
    spots: SmallInts  # upper bits of a hash -> where in `waiting` the row of its heavy key begins
    marks: Rows
    cursors: Rows
    waiting: Workers  # a row of workers per place; after the rows all workers in order, the homes
    hashes: Words  # of the records of one block
    starts: SmallInts  # of the same: where in `waiting` their row begins, or their home is
    aside: Keys  # those keys of the block that are counted after it, if they are light
    aside_weights: Floats
    numbers: Rows  # [1]
    rooms: Rows  # [1]
    counters: Rows  # [1]

    def check(self, fresh: CascadeState) -> None:
        """Refuse workers, places and turns that do not exist, and values that are out of range."""
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
        leaves = self.bounds[self.bounds.size // 2 :][:n_workers]
        require_that((leaves <= self.levels).all(), "bounds must not exceed the levels")
        own, other = self.marks[n_places], fresh.marks[n_places]
        same = ["recheck", "floor"]
        require_same("marks", own[same], other[same])
        room = self.rooms["light"][0] * self.numbers["scale"][0]
        require_that(own["limit"] == room, "marks must limit light keys by their room")

    def _check_cursors(self, fresh: CascadeState, n_places: int) -> None:
        n_workers = self.levels.size
        require_same("cursors", self.cursors[n_places], fresh.cursors[n_places])
        counted = self.cursors[:n_places]
        most = {"reach": n_workers, "position": n_workers, "next": WAITING, "end": WAITING}
        most |= {"worker": n_workers - 1, "home": n_workers - 1, "other": 1}
        for name, limit in most.items():
            require_within(f"cursors.{name}", counted[name], int(name == "reach"), limit)
        require_that(np.isin(counted["stride"], self.strides).all(), "cursors must step by strides")
        require_that((counted["next"] <= counted["end"]).all(), "cursors must be before their end")
        few = counted[counted["reach"] <= FEW]
        require_within("cursors.end", few["end"], 1, WAITING - 1)


@fixed("owners", "costs")
@within(-MOST_WEIGHT, MOST_WEIGHT, "levels")
@within(0, MOST_WEIGHT, "handicaps", "watched")
@within(0, MOST_COUNTED, "counters")
@growing("counted.keys", "counted.counts", "recent", "watched", "wide", "reaches")
class CondensedCascade(NamedTuple):
    """What a merge needs of a state: an eighth of it, or less; fields are as in `CascadeState`.

    It leaves out what `prepare` computes from the rest (listed workers, homes, strides, grades,
    spots), the scratch of a block, and empty places. It keeps light counted keys: a key that gets a
    few records per batch becomes heavy only because its count outlives the batch.
    """

    owners: Workers
    levels: Floats
    handicaps: Floats
    costs: Floats
    counted: Counted
    recent: SmallInts  # which of the keys were counted since the last look
    watched: Floats  # and what their counts were then; the other counts are the same
    wide: SmallInts  # which of the keys use more than one worker
    reaches: SmallInts  # and how many
    numbers: Rows
    counters: Rows

    def check(self, fresh: CondensedCascade) -> None:
        """Refuse workers and places that do not exist, and values that are out of range."""
        n_keys = self.counted.keys.size
        for one, other in (("wide", "reaches"), ("recent", "watched")):
            same = getattr(self, one).size == getattr(self, other).size
            require_that(same, f"{one} and {other} must be of equal length")
            require_within(one, getattr(self, one), 0, n_keys - 1)
        require_within("reaches", self.reaches, 1, self.levels.size)
        check_numbers(self, fresh)


def check_numbers(state: Any, fresh: Any) -> None:
    """Refuse numbers and counters that no stream leads to, in a full or a condensed state."""
    numbers, counters = state.numbers, state.counters
    same = ["keep", "handicap"]
    require_same("numbers", numbers[same], fresh.numbers[same])
    least = {"level": -MOST_WEIGHT, "heavy": 1 / MOST_WEIGHT, "scale": 1 / MOST_WEIGHT}
    for name in NUMBERS.names or ():
        require_within(f"numbers.{name}", numbers[name], least.get(name, 0), MOST_WEIGHT)
    require_same("counters.epoch", counters["epoch"], fresh.counters["epoch"])
    left, epoch = counters["sweep_at"] - counters["records"], int(counters["epoch"][0])
    require_within("counters", left, 1, epoch)
    require_within("counters.known", counters["known"], 0, epoch - int(left[0]))


@kernel
def light(state: CascadeState) -> I64:
    """Return the place that all light keys share."""
    return n_places(state.heavy)


@kernel
def homes(state: CascadeState) -> I64:
    """Return where in `waiting` the homes of light keys begin."""
    return state.waiting.size - state.levels.size


@kernel
def measure_rooms(state: CascadeState, scale: F64) -> None:
    """Set the scale to this weight of an average record, and the room of light keys with it."""
    state.numbers[0]["scale"] = scale
    state.marks[light(state)]["limit"] = state.rooms[0]["light"] * scale


@kernel
def may_search(state: CascadeState, n_records: I64) -> bool:
    """Tell whether record number `n_records` may look at more workers than the usual one or two.

    Each record adds steps to a budget, and unused steps are saved up to a limit. So keys chosen by
    an adversary can make single searches long, but not the average search.
    """
    saved = SAVED_PER_WORKER * state.levels.size
    return bool(state.counters[0]["steps"] <= STEPS_PER_RECORD * n_records + saved)


@kernel
def charge(state: CascadeState, n_records: I64, n_steps: I64) -> None:
    """Take the steps of a search from the budget; there may be more than were left."""
    # Earlier records have saved their unused steps up to the limit; the rest is lost.
    before = max(state.counters[0]["steps"], STEPS_PER_RECORD * n_records)
    state.counters[0]["steps"] = before + n_steps


@kernel
def begin_again(state: CascadeState, place: I64) -> None:
    """List the workers for the next records of the key, from the first of its order on.

    A key with one worker has that worker listed for good. A key with few workers has all of them
    listed, round after round. A key with many has none listed yet: `refill` must find those with
    room first.
    """
    cursor = state.cursors[place]
    reach, home = np.int64(cursor["reach"]), np.int64(cursor["home"])
    is_few = reach <= FEW
    cursor["position"] = reach
    cursor["next"] = cursor["other"] = 0
    cursor["end"] = 1 if reach == 1 else 0
    state.marks[place]["floor"] = np.inf if is_few else 0.0
    state.waiting[place * WAITING] = home
    set_limit(state, place)
    if is_few and reach > 1:
        # A whole number of rounds, so that the row continues with the first worker of the order.
        cursor["end"] = (WAITING - 1) // reach * reach
        cursor["other"] = 1
        worker = home
        for i in range(1, WAITING):
            worker = following(worker, np.int64(cursor["stride"]), state.levels.size)
            worker = home if i % reach == 0 else worker
            state.waiting[place * WAITING + i] = worker


@kernel
def set_limit(state: CascadeState, place: I64) -> None:
    """Set how far above the mean the next listed worker of the key may be.

    If a key has many workers, `refill` checked their levels when it listed them. If it has few, the
    worker must be within the key's own room when a record comes.
    """
    reach, mark = state.cursors[place]["reach"], state.marks[place]
    if reach <= FEW and reach < state.levels.size:
        mark["limit"] = mark["room"]
    else:
        mark["limit"] = state.rooms[0]["light"] * state.numbers[0]["scale"]
