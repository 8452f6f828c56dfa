"""The keys of one block: what each weighs now, and what it weighs in a usual block."""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, I64, U64, Floats, Keys
from skewless.kernels.hashing import nth_hash, seeded, to_unit
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.ahead.state import NO_KEY, AheadState
from skewless.strategies.cascade.heavy_keys import ABSENT, admit, fade, find, first_place
from skewless.strategies.cascade.state import home_of, weight_of

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
    what it weighs in this block. A few records may be chance, so it needs LEAST_HEAVY of them. A
    key that weighs next to nothing in this block is light, and its counter is not looked for.
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
        else:
            _offer(state, key, hashed, first, weight)


@kernel
def _offer(state: AheadState, key: U64, hashed: U64, first: I64, weight: F64) -> None:
    """Give a key a counter, or none, at random.

    Of the keys with a single record, one in OFFER_EVERY is considered, for all of them. The next
    block considers different ones.
    """
    heavy = state.heavy
    turn = np.uint64(state.counters[0]["blocks"])
    amount = weight * heavy.unit[0]
    if weight < _TWO_RECORDS * state.numbers[0]["scale"]:
        if ((hashed >> _SHIFT_32) + turn) & _LOW_BITS:
            return
        amount *= OFFER_EVERY
    admit(heavy, first, key, amount, to_unit(nth_hash(hashed, state.counters[0]["blocks"])))
