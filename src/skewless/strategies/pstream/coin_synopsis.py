"""Coin runs and the synopsis of PStream: which keys are frequent now, without counting records.

Every record tosses a coin until it shows tails. A run of at least r heads is rare, 2^−r, so a key
that has several of them has many records. The synopsis keeps one bit vector per key that had a
long run: a run of r + b heads sets bit b. **A key is hot while at least two bits are set.**

With every long run, a share p of the vectors, chosen at random, is shifted right by one bit: a key
without new long runs loses its bits and then its entry.

**What bounds it.** A vector with top bit b lives for b + 1 shifts, two in the mean, of 1 / p long
runs each. So even if every long run is of a new key, 2 / p entries are held in the mean, and the
number varies like a Poisson number. The synopsis has six standard deviations more than that; a
newcomer that finds no room is forgotten, and others have left when it comes again.

References
----------
H. Chen, F. Zhang, H. Jin: PStream: a popularity-aware differentiated distributed stream processing
system, IEEE Transactions on Computers 2021, Algorithm 1, sections 3.2, 4.2, 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Bytes, Ints, Words
from skewless.kernels.bits import lowest_bit, without_lowest
from skewless.kernels.hashing import draw, to_worker
from skewless.kernels.key_table import (
    ABSENT,
    KeyTable,
    find_slot,
    key_table,
    remove_slot,
    require_entries,
)
from skewless.sound import MOST_COUNTED, require_same, require_within

# Positions in `counters`.
SIZE = 0  # entries in use
RUN = 1  # r: heads that make a run long
LENGTH = 2  # l: bits of a vector
RATE = 3  # p, in units of 2^−32
OWED = 4  # shifts that are due, in units of 2^−32
CHOSEN = 5  # random choices of entries so far
GENERATION = 6  # merges that this synopsis comes from

_UNIT = 1 << 32
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_AT_ONCE = 32  # coin runs looked at together


class CoinSynopsis(NamedTuple):
    """Entries 0 … SIZE − 1, in no order; a key's vector is `shared | fresh` of its entry."""

    table: KeyTable  # key -> entry
    keys: Words
    shared: Words  # bits that all sources got from the last merge
    fresh: Words  # bits of this source's own long runs since then
    marked: Bytes  # for the user of the synopsis; 0 for a new entry
    counters: Ints
    seeds: Words  # of the coins, of the choices

    def check(self, fresh: CoinSynopsis) -> None:
        """Refuse entries that are not there, and coins that nobody can toss."""
        counters = self.counters
        require_within("counters", counters, 0, MOST_COUNTED)
        require_within("counters", counters[[SIZE]], 0, self.keys.size)
        require_within("counters", counters[[RUN]], 0, 32)
        require_same("counters", counters[[LENGTH]], fresh.counters[[LENGTH]])
        require_within("counters", counters[[RATE]], 1, _UNIT)
        require_entries(self.table, self.keys, np.arange(int(counters[SIZE]), self.keys.size))
        for name in ("shared", "fresh"):
            require_within(name, getattr(self, name), 0, (1 << int(counters[LENGTH])) - 1)
        require_within("marked", self.marked, 0, 1)


def entries_for(rate: float) -> int:
    """Return how many entries a synopsis needs that declines at `rate`.

    >>> entries_for(0.01)
    285
    """
    mean = 2 / rate
    return math.ceil(mean + 6 * math.sqrt(mean))


def coin_synopsis(n_entries: int, rate: float, length: int, seeds: Words) -> CoinSynopsis:
    """Return an empty synopsis with room for `n_entries` keys.

    `rate` is p; r follows from it. `length` is l, the bits of a vector. `seeds` are two: of the
    coins and of the choices, and different ones for every source.
    """
    if not 2.0**-32 <= rate <= 0.5:
        raise ValueError(f"rate must be from 2^-32 to 0.5, not {rate!r}")
    if not 2 <= length <= 32:
        raise ValueError(f"length must be from 2 to 32, not {length!r}")
    synopsis = CoinSynopsis(
        table=key_table(n_entries),
        keys=np.zeros(n_entries, np.uint64),
        shared=np.zeros(n_entries, np.uint64),
        fresh=np.zeros(n_entries, np.uint64),
        marked=np.zeros(n_entries, np.uint8),
        counters=np.array([0, 0, length, 0, 0, 0, 0]),
        seeds=seeds,
    )
    set_rate(synopsis, rate)
    return synopsis


@kernel
def set_rate(synopsis: CoinSynopsis, rate: F64) -> None:
    """Decline at this rate from now on, and call runs of r = ⌊log2(1 / p)⌋ heads long."""
    run = 0
    chance = 0.5  # of one head more; powers of two are exact, a logarithm would not be
    while chance >= rate:
        run += 1
        chance *= 0.5
    synopsis.counters[RUN] = run
    synopsis.counters[RATE] = np.int64(rate * _UNIT)


@kernel
def heads(seed: U64, record: I64) -> I64:
    """Return how many heads record number `record` tosses before tails; 64 at most.

    One draw is 64 coins: heads are zeros, counted from the lowest bit.
    """
    coins = draw(seed, record)
    if coins == _ZERO:
        return np.int64(64)
    return lowest_bit(coins)


@kernel
def next_long_run(seed: U64, first: I64, end: I64, run: I64) -> I64:
    """Return the first of the records `first` … `end` − 1 with at least `run` heads, or `end`."""
    low = (_ONE << np.uint64(run)) - _ONE
    record = first
    # Draws depend on nothing but their number, so many are made at once, without a branch.
    while record + _AT_ONCE <= end:
        any_long = 0
        for j in range(_AT_ONCE):
            any_long |= np.int64((draw(seed, record + j) & low) == _ZERO)
        if any_long:
            break
        record += _AT_ONCE
    while record < end and (draw(seed, record) & low) != _ZERO:
        record += 1
    return record


@kernel
def is_two(bits: U64) -> bool:
    """Tell whether at least two bits are set."""
    return bool(bits != _ZERO and without_lowest(bits) != _ZERO)


@kernel
def vector(synopsis: CoinSynopsis, entry: I64) -> U64:
    """Return the bit vector of an entry."""
    return synopsis.shared[entry] | synopsis.fresh[entry]


@kernel
def entry_of(synopsis: CoinSynopsis, key: U64) -> I64:
    """Return the entry of `key`, a new one if it has none, or ABSENT if there is no room.

    Alg. 1, l. 12–13.
    """
    counters = synopsis.counters
    slot = find_slot(synopsis.table, key)
    entry = np.int64(synopsis.table.values[slot])
    if entry == ABSENT and counters[SIZE] < synopsis.keys.size:
        entry = counters[SIZE]
        counters[SIZE] += 1
        synopsis.table.keys[slot] = key
        synopsis.table.values[slot] = entry
        synopsis.keys[entry] = key
        synopsis.shared[entry] = _ZERO
        synopsis.fresh[entry] = _ZERO
        synopsis.marked[entry] = 0
    return entry


@kernel
def set_bit(synopsis: CoinSynopsis, entry: I64, n_heads: I64) -> bool:
    """Set the bit of a long run; return whether fewer than two bits became two (l. 14–16)."""
    counters = synopsis.counters
    before = vector(synopsis, entry)
    bit = min(n_heads - counters[RUN], counters[LENGTH] - 1)
    synopsis.fresh[entry] |= _ONE << np.uint64(bit)
    return bool(not is_two(before) and is_two(vector(synopsis, entry)))


@kernel
def begin_decline(synopsis: CoinSynopsis) -> None:
    """Let a share p of the entries be due for a shift; fractions add up until they are one."""
    counters = synopsis.counters
    counters[OWED] += counters[RATE] * counters[SIZE]


@kernel
def next_declining(synopsis: CoinSynopsis) -> I64:
    """Return an entry to shift, any of them with equal chance, or ABSENT when none is due.

    Alg. 1, l. 18. Every call costs O(1), and a long run makes p · entries of them due: two at most,
    in the mean.
    """
    counters = synopsis.counters
    if counters[SIZE] == 0:
        counters[OWED] = 0
    if counters[OWED] < _UNIT:
        return np.int64(ABSENT)
    counters[OWED] -= _UNIT
    counters[CHOSEN] += 1
    return np.int64(to_worker(draw(synopsis.seeds[1], counters[CHOSEN]), counters[SIZE]))


@kernel
def shift(synopsis: CoinSynopsis, entry: I64) -> bool:
    """Shift the entry's vector, and evict an empty one; return whether two bits became fewer.

    Alg. 1, l. 20–22.
    """
    before = vector(synopsis, entry)
    synopsis.shared[entry] >>= _ONE
    synopsis.fresh[entry] >>= _ONE
    after = before >> _ONE
    if after == _ZERO:
        last = synopsis.counters[SIZE] - 1
        synopsis.counters[SIZE] = last
        remove_slot(synopsis.table, find_slot(synopsis.table, synopsis.keys[entry]))
        if entry != last:
            synopsis.keys[entry] = synopsis.keys[last]
            synopsis.shared[entry] = synopsis.shared[last]
            synopsis.fresh[entry] = synopsis.fresh[last]
            synopsis.marked[entry] = synopsis.marked[last]
            synopsis.table.values[find_slot(synopsis.table, synopsis.keys[last])] = entry
    return bool(is_two(before) and not is_two(after))


def vectors(synopsis: CoinSynopsis) -> dict[int, int]:
    """Return the bit vector of every key that has one."""
    size = int(synopsis.counters[SIZE])
    bits = (synopsis.shared | synopsis.fresh)[:size]
    return dict(zip(synopsis.keys[:size].tolist(), bits.tolist(), strict=True))


def merge_vectors(synopses: Sequence[CoinSynopsis]) -> dict[int, int]:
    """Return the vectors that one synopsis would have, had it been fed by all sources.

    A fresh bit is a long run of one source and would have been set in the one vector of the key:
    fresh bits are united. Shared bits are copies of one vector that declined on their own; each
    of their shifts would have been made to the one vector: of the copies the one counts that
    declined furthest, the smallest, 0 where it was evicted. Uniting copies would turn one bit
    that was shifted here and not there into two, and the key into a hot one. A source that has
    missed the latest merge has no copy. All this is the same in any order.
    """
    latest = max(int(synopsis.counters[GENERATION]) for synopsis in synopses)
    united: dict[int, int] = {}
    copies: list[dict[int, int]] = []
    for synopsis in synopses:
        size = int(synopsis.counters[SIZE])
        names = synopsis.keys[:size].tolist()
        for key, bits in zip(names, synopsis.fresh[:size].tolist(), strict=True):
            united[key] = united.get(key, 0) | bits
        if int(synopsis.counters[GENERATION]) == latest:
            copies.append(dict(zip(names, synopsis.shared[:size].tolist(), strict=True)))
    for key in set().union(*copies):
        united[key] = united.get(key, 0) | min(copy.get(key, 0) for copy in copies)
    return {key: bits for key, bits in united.items() if bits}


def fill(synopsis: CoinSynopsis, vectors: dict[int, int]) -> None:
    """Put `vectors` into an empty synopsis as shared bits; the weakest are left out if too many."""
    by_strength = sorted(vectors, key=lambda key: (-vectors[key].bit_count(), -vectors[key], key))
    for entry, key in enumerate(by_strength[: synopsis.keys.size]):
        slot = find_slot(synopsis.table, np.uint64(key))
        synopsis.table.keys[slot] = key
        synopsis.table.values[slot] = entry
        synopsis.keys[entry] = key
        synopsis.shared[entry] = vectors[key]
        synopsis.counters[SIZE] = entry + 1
