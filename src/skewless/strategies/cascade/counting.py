"""Which keys are heavy in Cascade: counting, grading, and the sweep between two epochs."""

from __future__ import annotations

import math

import numpy as np

from skewless.arrays import F64, I64, U64, Floats
from skewless.kernels.hashing import nth_hash, seeded, to_unit
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.filling import renew_bounds
from skewless.strategies.cascade.heavy_keys import ABSENT, admit, fade, find, first_place, n_places
from skewless.strategies.cascade.orders import home_of, slot_of, stride_of
from skewless.strategies.cascade.state import (
    BLOCK,
    COUNT_EVERY,
    HEAVY_PARTS,
    SPOTS_PER_SLOT,
    WAITING,
    CascadeState,
    begin_again,
    homes,
    light,
    measure_rooms,
    set_limit,
)

_NEVER = 0.0  # RECHECK of a light key
FIRST_HEAVY = 4.0  # average records that make a key heavy while nothing is known of shares
# A key is graded again when its count has grown by half. Its room changes where its count passes a
# halving of the largest one. So a key is late by one grade at most, and grading stays rare.
_GROWN = 1.5
_NEAR_TOP = 2.0  # a key with at least 1/2 of the largest count belongs to the heaviest
# A key with k fair shares of a worker needs about k workers. Twice as many leave it a choice.
_REACH_PER_SHARE = 2.0


@kernel
def grade(state: CascadeState, place: I64, count: F64) -> None:
    """Set the room of the key at `place` by its count: the heavier the key, the less room."""
    numbers, rooms, mark = state.numbers[0], state.rooms[0], state.marks[place]
    if count < numbers["heavy"] or count <= 0.0:  # records may weigh nothing
        mark["recheck"] = _NEVER
        return
    least, scale = rooms["least"] * numbers["scale"], numbers["scale"]
    if count >= numbers["top"]:
        numbers["top"] = count
        room = least
    else:
        halvings = math.floor(math.log2(numbers["top"] / count))
        room = max(min(rooms["per_halving"] * scale * halvings, rooms["most"] * scale), least)
    if not is_heavy(state, place):
        state.counters[0]["changed"] = 1
    mark["room"] = room
    mark["recheck"] = _GROWN * count
    set_limit(state, place)
    hashed = seeded(state.heavy.keys[place], state.seed[0])
    spot = slot_of(hashed, state.spots.size)
    start = state.spots[spot]
    if start >= homes(state) or state.heavy.counts[start // WAITING] < count:
        state.spots[spot] = place * WAITING  # found without a look at its bucket


@kernel
def is_heavy(state: CascadeState, place: I64) -> bool:
    """Tell whether the key at `place` was graded as heavy."""
    return bool(state.marks[place]["recheck"] != _NEVER)


@kernel
def start_elsewhere(state: CascadeState, key: U64, hashed: U64) -> I64:
    """Return where in `waiting` the worker of a key is whose spot leads to another key's row.

    If two heavy keys have the same spot, the lighter one is found by its counter. If it were
    treated as light, it would fill its worker, and the light keys there would have to yield.
    """
    place = find(state.heavy, first_place(state.heavy, hashed), key)
    if place != ABSENT and is_heavy(state, place):
        return place * WAITING
    return homes(state) + home_of(state, hashed)


@kernel
def count(state: CascadeState, key: U64, hashed: U64, amount: F64, number: I64) -> None:
    """Count a record of a key that is not known to be heavy; it may turn out to be."""
    heavy = state.heavy
    first = first_place(heavy, hashed)
    place = find(heavy, first, key)
    if place == ABSENT:
        chance = to_unit(nth_hash(hashed, number))
        place = admit(heavy, first, key, amount, chance)
        if place == ABSENT:
            return
        if is_heavy(state, place):  # it was the place of another key
            state.counters[0]["changed"] = 1
        state.watched[place] = heavy.counts[place] - amount  # inherited
        state.cursors[place]["reach"] = 1
        grade(state, place, heavy.counts[place])
        _begin(state, place, hashed)
        return
    heavy.counts[place] += amount
    if heavy.counts[place] < state.numbers[0]["heavy"]:
        return
    if not is_heavy(state, place) or heavy.counts[place] > state.marks[place]["recheck"]:
        grade(state, place, heavy.counts[place])


@kernel
def _begin(state: CascadeState, place: I64, hashed: U64) -> None:
    """Note the order of the key at `place`, and list its workers."""
    state.cursors[place]["home"] = home_of(state, hashed)
    state.cursors[place]["stride"] = stride_of(state, hashed)
    begin_again(state, place)


@kernel
def count_aside(state: CascadeState, begin: I64, end: I64) -> None:
    """Count the light records that were put aside, each for COUNT_EVERY records."""
    amount = state.heavy.unit[0] * COUNT_EVERY
    n_records = state.counters[0]["records"]
    for i in range(begin, end):
        if state.starts[i * COUNT_EVERY] >= homes(state):
            hashed = state.hashes[i * COUNT_EVERY]
            count(state, state.aside[i], hashed, amount * state.aside_weights[i], n_records + i)
    if state.numbers[0]["old_records"] != 0.0:
        return
    # In the first epoch the scale is the mean weight of the records so far.
    counters = state.counters[0]
    mean = state.numbers[0]["weight"] / (
        counters["records"] - (counters["sweep_at"] - counters["epoch"])
    )
    if mean > 0.0 and mean != state.numbers[0]["scale"]:
        first_scale(state, mean)
        grade_all(state)


@kernel
def first_scale(state: CascadeState, scale: F64) -> None:
    """Set the scale, and what makes a key heavy with it, while nothing is known of shares."""
    measure_rooms(state, scale)
    state.numbers[0]["heavy"] = FIRST_HEAVY * scale


@kernel
def watch(state: CascadeState) -> None:
    """Remember all counts and their total for the next look at them."""
    for place in range(state.watched.size):
        state.watched[place] = state.heavy.counts[place]
    total = state.numbers[0]["old_weight"] + state.numbers[0]["weight"]
    state.numbers[0]["watched"] = total * state.heavy.unit[0]


@kernel
def grade_all(state: CascadeState) -> None:
    """Find the heaviest key, and grade all keys again."""
    heavy = state.heavy
    state.numbers[0]["top"] = _largest(heavy.counts, n_places(heavy))
    for spot in range(state.spots.size):  # no key is heavy: all spots lead to homes
        state.spots[spot] = homes(state) + state.owners[spot // SPOTS_PER_SLOT]
    state.counters[0]["changed"] = 1
    for place in range(n_places(heavy)):
        if heavy.counts[place] >= state.numbers[0]["heavy"] or is_heavy(state, place):
            grade(state, place, heavy.counts[place])


@kernel
def _largest(counts: Floats, n_counts: I64) -> F64:
    """Return the largest count; four independent maxima, so that none waits for another."""
    a = b = c = d = 0.0
    for i in range(0, n_counts, 4):
        a = max(a, counts[i])
        b = max(b, counts[i + 1])
        c = max(c, counts[i + 2])
        d = max(d, counts[i + 3])
    return max(max(a, b), max(c, d))


@kernel
def _handicap(state: CascadeState) -> None:
    """Raise the level of each worker above the mean by a part of its excess.

    A worker whose light keys suffice to fill it stays above the mean by the room of those keys.
    That is little for one source, but it is the same worker for all sources. With a raised level
    its keys yield earlier, until it gets no more than the others. Then the handicap stays.
    """
    n_workers, numbers = state.levels.size, state.numbers[0]
    mean = 0.0
    for worker in range(n_workers):
        mean += state.handicaps[worker] / state.costs[worker]
    level = numbers["level"] - mean / n_workers  # that of records alone
    part, room = numbers["handicap"], state.rooms[0]["light"] * numbers["scale"]
    for worker in range(n_workers):
        before = state.handicaps[worker]
        excess = state.levels[worker] - before - level
        handicap = max(0.0, min(before + part * excess, room))
        state.handicaps[worker] = handicap
        state.levels[worker] += handicap - before
        numbers["level"] += (handicap - before) / (state.costs[worker] * n_workers)


@kernel
def sweep(state: CascadeState) -> None:
    """Between two epochs: fade, measure, grade all keys again, shorten reaches."""
    numbers = state.numbers[0]
    heavy = state.heavy
    _handicap(state)
    renew_bounds(state.bounds, state.levels)  # some levels have fallen
    is_new_unit = fade(heavy, numbers["keep"])
    numbers["old_weight"] = (numbers["old_weight"] + numbers["weight"]) * numbers["keep"]
    n_new = state.counters[0]["epoch"] - state.counters[0]["known"]
    numbers["old_records"] = (numbers["old_records"] + n_new) * numbers["keep"]
    numbers["weight"] = 0.0
    state.counters[0]["known"] = 0
    if is_new_unit:
        watch(state)
    state.counters[0]["sweep_at"] += state.counters[0]["epoch"]
    fair = numbers["old_weight"] * heavy.unit[0] / state.levels.size
    if fair > 0.0:  # records may weigh nothing
        measure_rooms(state, numbers["old_weight"] / numbers["old_records"])
        numbers["heavy"] = fair / HEAVY_PARTS
    grade_all(state)
    for place in range(n_places(heavy)):
        # The heaviest keys fill what the others leave, so they keep their reach. Any other key
        # gives up workers that it no longer needs. Later it gets the same ones again.
        reach = state.cursors[place]["reach"]
        counted = heavy.counts[place]
        if reach > 1 and fair > 0.0 and _NEAR_TOP * counted < numbers["top"]:
            most = 1 + np.int64(min(_REACH_PER_SHARE * counted / fair, state.levels.size))
            if reach > most:
                state.cursors[place]["reach"] = most
                begin_again(state, place)


@kernel
def prepare(state: CascadeState) -> None:
    """Fill what follows from the rest: homes, strides, rooms, listed workers, grades."""
    for place in range(n_places(state.heavy)):
        _begin(state, place, seeded(state.heavy.keys[place], state.seed[0]))
    measure_rooms(state, state.numbers[0]["scale"])
    grade_all(state)
    renew_bounds(state.bounds, state.levels)
    # Light keys are never graded by what they all weigh together, and never leave their home.
    state.marks[light(state)]["recheck"] = np.inf
    state.marks[light(state)]["floor"] = np.inf
    state.cursors[light(state)]["end"] = 1


LOOKS_PER_EPOCH = 8  # at most: how often counts are compared with what was expected
_OTHER = 2.0  # a rate is another one only if it is more than this many times as large or small
#: The number of standard deviations of a Poisson variable that rules out chance, squared.
_SURE = 36.0


@kernel
def notice(state: CascadeState) -> None:
    """Correct the counts of keys whose records since the last look contradict them.

    Counts fade slowly, so that chance does not change what is heavy. When hot keys change, the old
    ones would long stay the heaviest, and the new ones would be graded as if they were light. So
    every few records the counts are compared with the last ones. A key whose records since then are
    far from what its count predicts gets the count that these records imply. In a stream that does
    not change this happens to no key. Where weights vary, nothing is corrected: a few heavy records
    would look like a change.

    `seen` and `expected` are stored counts. A sweep changes neither them nor their total.
    """
    heavy, watched = state.heavy, state.watched
    numbers, counters = state.numbers[0], state.counters[0]
    total = (numbers["old_weight"] + numbers["weight"]) * heavy.unit[0]
    new = total - numbers["watched"]
    is_corrected = False
    alike = counters["varies"] == 0
    if alike and numbers["watched"] > 0.0 and new > 0.0 and numbers["keep"] < 1.0:
        record = heavy.unit[0] * numbers["scale"]
        least = _SURE * record
        rate = new / numbers["watched"]
        for place in range(n_places(heavy)):
            seen = heavy.counts[place] - watched[place]
            expected = watched[place] * rate
            larger, gap = max(seen, expected), seen - expected
            if larger <= least:  # nearly all keys
                continue
            is_other = _OTHER * min(seen, expected) < larger and gap * gap > least * larger
            # Light keys are counted by samples. A few of them would look like many records.
            is_exact = gap < 0.0 or watched[place] >= numbers["heavy"]
            if is_other and is_exact:
                heavy.counts[place] = max(seen * (total / new), record)
                is_corrected = True
    watch(state)
    counters["look_at"] = counters["records"] + stretch(counters["epoch"])
    if is_corrected:
        grade_all(state)


@kernel
def stretch(epoch: I64) -> I64:
    """Return the least number of records between two looks."""
    return max(epoch // LOOKS_PER_EPOCH, np.int64(BLOCK))
