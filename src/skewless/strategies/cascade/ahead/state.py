"""The state of a source of Cascade with foresight, and the keys of one block of records."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I64, Floats, Ints, Keys, Rows, SmallInts, Words, Workers
from skewless.kernels.hashing import nth_hash, seeded, to_unit
from skewless.plumbing.compiling import kernel
from skewless.state import (
    MOST_COUNTED,
    MOST_WEIGHT,
    fixed,
    growing,
    require_same,
    require_within,
    within,
    zeros,
)
from skewless.strategies.cascade.heavy_keys import (
    ABSENT,
    Counted,
    HeavyKeys,
    admit,
    fade,
    find,
    first_place,
)
from skewless.strategies.cascade.orders import home_of, weight_of

NUMBERS = np.dtype(
    [
        ("weight", "f8"),  # of the records since the interval began
        ("scale", "f8"),  # weight of an average record of the last block that weighed anything
        ("faded", "f8"),  # faded weight of all records
        ("tolerance", "f8"),  # the parameter: how far above the mean a worker may be
    ]
)
COUNTERS = np.dtype(
    [
        ("records", "i8"),  # since the interval began
        ("expected", "i8"),  # records of this source in the whole interval; 0: not known
        ("since", "i8"),  # records since counts faded last
        ("epoch", "i8"),  # after this many they fade again
        ("blocks", "i8"),  # so far
        ("awaiting", "i8"),  # 1 + the blocks at the last message; 0: no answer is awaited
    ]
)

#: The most records that are decided together. Spark hands over 10,000 at a time.
BLOCK = 1 << 14
TABLE = 2 * BLOCK  # at most half of it is used, so searches are short
BYTE_VALUES = 256  # keys are sorted by one byte of their rank at a time
NO_KEY = -1  # in `table`
NO_PIECE = -1  # in `after`
NO_WORKER = -1  # in `workers`


@fixed("table")
class Buffers(NamedTuple):
    """The keys of one block and their pieces. Between two blocks only `table` means anything.

    The keys of a block are numbered in the order in which they first occur. A piece is a part of
    the records of one key that goes to one worker. The first piece of a key has the key's number.
    Each further piece uses up what a key has left, or what a worker gets.
    """

    table: SmallInts  # hash -> number of the key; NO_KEY everywhere between two blocks
    slots: SmallInts  # key -> where it is in the table; later, space for sorting
    which: SmallInts  # record -> number of its key
    keys: Keys
    hashes: Words
    homes: Workers  # the first worker in the order of each key
    weights: Floats  # what the records of each key weigh, less what has got a worker
    estimates: Floats  # what each key weighs in a usual block
    is_heavy: NDArray[np.bool_]
    listed: SmallInts  # keys that do not simply stay at home
    ranks: SmallInts  # of the listed keys: the lightest come first
    tally: Ints  # for sorting: where the keys with each value of a byte go, and where they end
    heads: SmallInts  # key -> the piece that its next record belongs to
    after: SmallInts  # piece -> the next one of the same key
    workers: Workers  # of each piece
    sizes: Floats  # of each piece: what its records may still weigh
    rooms: Floats  # of each worker: what it may take of light keys
    shares: Floats  # of each worker: what it has of light keys; later, what it gets of the rest


@fixed("seed", "owners", "strides", "costs")
@within(-MOST_WEIGHT, MOST_WEIGHT, "levels")
@within(0, MOST_WEIGHT, "numbers")
@within(0, MOST_COUNTED, "counters")
class AheadState(NamedTuple):
    """What this source has sent in the present interval, and what it knows of the heaviest keys."""

    seed: Words
    owners: Workers  # slot -> worker
    strides: Ints
    costs: Floats  # what a record of weight 1 adds to the level of each worker
    levels: Floats  # what each worker got in this interval, per capacity
    heavy: HeavyKeys
    numbers: Rows  # [1]
    counters: Rows  # [1]
    buffers: Buffers

    def check(self, fresh: AheadState) -> None:
        """Refuse numbers that no stream leads to."""
        _check_numbers(self, fresh)


def _check_numbers(state: Any, fresh: Any) -> None:
    require_same("numbers.tolerance", state.numbers["tolerance"], fresh.numbers["tolerance"])
    require_within("numbers.scale", state.numbers["scale"], 1 / MOST_WEIGHT, MOST_WEIGHT)
    require_same("counters.epoch", state.counters["epoch"], fresh.counters["epoch"])


def buffers(n_workers: int) -> Buffers:
    """Return empty buffers."""
    n_pieces = 2 * BLOCK + n_workers
    return zeros(
        Buffers,
        BLOCK,
        table=np.full(TABLE, NO_KEY, np.int32),
        tally=BYTE_VALUES + 1,
        after=n_pieces,
        workers=n_pieces,
        sizes=n_pieces,
        rooms=n_workers,
        shares=n_workers,
    )


@growing("counted.keys", "counted.counts")
@fixed("owners", "costs")
@within(-MOST_WEIGHT, MOST_WEIGHT, "levels")
@within(0, MOST_WEIGHT, "numbers")
@within(0, MOST_COUNTED, "counters")
class CondensedAhead(NamedTuple):
    """What is counted; other fields are as in `AheadState`."""

    owners: Workers
    costs: Floats
    levels: Floats
    counted: Counted
    numbers: Rows
    counters: Rows

    def check(self, fresh: CondensedAhead) -> None:
        """Refuse numbers that no stream leads to."""
        _check_numbers(self, fresh)


def carried_levels(part: AheadState | CondensedAhead) -> Floats:
    """Return the levels with which the next interval begins.

    None is further from the mean than an average record. So the next interval corrects rounding
    errors, but not what a whole interval left unbalanced.
    """
    if part.counters[0]["records"] == 0:
        kept: Floats = part.levels.copy()
        return kept
    mean = np.average(part.levels, weights=1.0 / part.costs)
    scale = part.numbers[0]["scale"]
    levels: Floats = np.clip(part.levels - mean, -scale, scale)
    return levels


HEAVY_PARTS = 16.0  # a key is heavy from 1/16 of a worker's fair share of a block on
LEAST_HEAVY = 4.0  # a new key also needs this many average records to be heavy
COUNTED_PARTS = 64.0  # a key is counted from 1/64 of a fair share of a block on
SINGLE_PARTS = 4.0  # a key with a single record is counted if that is 1/4 of a fair share
KEPT_BY_AN_EPOCH = 0.8  # of every count: old records fade
_TWO_RECORDS = 2.0  # average records: a key that weighs less has a single record
OFFER_EVERY = 8  # one key with a single record in this many is offered a counter, for all of them
STEPS_PER_RECORD = 16  # search steps that each record of a block adds to the budget
_SHIFT_32 = np.uint64(32)
_LOW_BITS = np.uint64(OFFER_EVERY - 1)


@kernel
def count_block(
    keys: Keys, weights: Floats | None, state: AheadState, begin: I64, end: I64
) -> tuple[I64, F64]:
    """Number the keys of records begin … end − 1; return their number and the total weight.

    An adversary could choose keys that make the searches in the table long. Once the searches have
    used up their budget, a key that is not found at once gets a new number, as if it were a new
    key.
    """
    buffers = state.buffers
    table, known, sums = buffers.table, buffers.keys, buffers.weights
    mask = np.uint64(table.size - 1)
    n_keys = 0
    total = 0.0
    n_steps = STEPS_PER_RECORD * (end - begin)
    for i in range(begin, end):
        key = keys[i]
        weight = weight_of(weights, i)
        total += weight
        hashed = seeded(key, state.seed[0])
        at = hashed & mask
        number = table[at]
        while number != NO_KEY and known[number] != key and n_steps > 0:
            at = (at + np.uint64(1)) & mask
            number = table[at]
            n_steps -= 1
        if number == NO_KEY or known[number] != key:
            number = np.int32(n_keys)
            n_keys += 1
            table[at] = number
            known[number] = key
            sums[number] = 0.0
            buffers.slots[number] = np.int32(at)
            buffers.hashes[number] = hashed
            buffers.homes[number] = np.int32(home_of(state, hashed))
        sums[number] += weight
        buffers.which[i - begin] = number
    for number in range(n_keys):
        table[buffers.slots[number]] = NO_KEY
    return n_keys, total


@kernel
def remember(state: AheadState, n_keys: I64, n_records: I64, total: F64) -> None:
    """Count the heavier keys of a block, and say which keys are heavy.

    A key with a counter is judged by its share of all faded records. A key without one is judged by
    what it weighs in this block, and gets a counter, or none, at random. A few records may be
    chance, so it needs LEAST_HEAVY of them. A key that weighs next to nothing in this block is
    light, and its counter is not looked for.

    Of the keys with a single record, one in OFFER_EVERY is considered for a counter, for all of
    them. The next block considers different ones.
    """
    heavy, buffers = state.heavy, state.buffers
    if state.counters[0]["since"] >= state.counters[0]["epoch"]:
        fade(heavy, KEPT_BY_AN_EPOCH)
        state.numbers[0]["faded"] *= KEPT_BY_AN_EPOCH
        state.counters[0]["since"] = 0
    state.counters[0]["since"] += n_records
    state.numbers[0]["faded"] += total
    share = total / state.levels.size
    least_new = max(LEAST_HEAVY * state.numbers[0]["scale"], share / HEAVY_PARTS)
    least_single = min(_TWO_RECORDS * state.numbers[0]["scale"], share / SINGLE_PARTS)
    least_counted = max(share / COUNTED_PARTS, least_single)
    to_block = total / (state.numbers[0]["faded"] * heavy.unit[0]) if total > 0.0 else 0.0
    turn = state.counters[0]["blocks"]
    for number in range(n_keys):
        weight = buffers.weights[number]
        buffers.estimates[number] = weight
        buffers.is_heavy[number] = weight >= least_new
        if weight < least_counted or weight <= 0.0:
            continue
        key, hashed = buffers.keys[number], buffers.hashes[number]
        first = first_place(heavy, hashed)
        place = find(heavy, first, key)
        if place != ABSENT:
            heavy.counts[place] += weight * heavy.unit[0]
            estimate = heavy.counts[place] * to_block
            buffers.estimates[number] = estimate
            buffers.is_heavy[number] = estimate >= share / HEAVY_PARTS
            continue
        amount = weight * heavy.unit[0]
        if weight < _TWO_RECORDS * state.numbers[0]["scale"]:
            if ((hashed >> _SHIFT_32) + np.uint64(turn)) & _LOW_BITS:
                continue
            amount *= OFFER_EVERY
        admit(heavy, first, key, amount, to_unit(nth_hash(hashed, turn)))
