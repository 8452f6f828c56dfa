"""Coin runs and the synopsis of PStream: which keys are frequent now, without counting records.

Every record tosses a coin until it shows tails. A run of at least r heads is rare, 2^−r, so a key
that has several of them has many records. The synopsis keeps one bit vector per key that had a
long run: a run of r + b heads sets bit b. **A key is hot while at least two bits are set.**

With every long run, a share p of the vectors, chosen at random, is shifted right by one bit: a key
without new long runs loses its bits and then its entry.

**Several sources.** Each source has a part of the records. In a synopsis of all sources, the long
runs of all would shift the vectors, but between two merges a source has only its own. So it routes
by a vector that its own runs set and shift, as a single source does. What it sends to the others is
kept separately. Its new bits are shifted at the rate `scale` · p, where `scale` is all records /
its own records, as fast as if it saw all long runs. For the bits that all sources got from the last
merge, it sends how often its own runs have shifted them. A merge applies the shifts of all.

**What bounds it.** A vector with top bit b lives for b + 1 shifts, two on average, of 1 / p long
runs each. So even if every long run is of a new key, 2 / p entries are held on average, and the
number varies like a Poisson number. The synopsis has six standard deviations more than that. A new
key that finds no room is dropped until its next long run.

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

from skewless.arrays import F64, I64, U64, Bytes, Floats, Rows, SmallInts, Words
from skewless.kernels.bits import lowest_bit, without_lowest
from skewless.kernels.hashing import draw, mix, seeded, to_unit, to_worker
from skewless.kernels.key_table import (
    ABSENT,
    KeyTable,
    clear,
    find_slot,
    key_table,
    remove_slot,
    require_entries,
)
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, require_same, require_within, within, zeros

COUNTERS = np.dtype(
    [
        ("size", "i8"),  # entries in use
        ("run", "i8"),  # r: heads that make a run long
        ("length", "i8"),  # l: bits of a vector
        ("rate", "i8"),  # p, in units of 2^−32
        ("owed", "i8"),  # shifts that are due, in units of 2^−32
        ("chosen", "i8"),  # random choices of entries so far
        ("generation", "i8"),  # merges that this synopsis comes from
    ]
)

_UNIT = 1 << 32
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_AT_ONCE = 32  # coin runs looked at together
#: The largest `scale`: a source with an even smaller part of the records shifts no faster.
MOST_SCALE = 512.0


@within(0, MOST_COUNTED, "shifts")
@within(0, 3, "marked")
@within(1, MOST_SCALE, "scale")
class CoinSynopsis(NamedTuple):
    """Entries 0 … `size` − 1, in no order; `vectors` has what this source routes by."""

    table: KeyTable  # key -> entry
    keys: Words
    vectors: Words
    shared: Words  # bits that all sources got from the last merge
    fresh: Words  # bits of this source's own long runs since its last message
    shifts: SmallInts  # how often this source has shifted `shared` since then
    marked: Bytes  # flags of the caller; 0 for a new entry
    counters: Rows  # [1]
    scale: Floats  # [records of all sources / those of this one]
    seeds: Words  # of the coins, of the choices

    def check(self, fresh: CoinSynopsis) -> None:
        """Refuse entries that do not exist, and counters that are out of range."""
        counters = self.counters
        size, length = int(counters["size"][0]), int(counters["length"][0])
        require_within("counters", counters, 0, MOST_COUNTED)
        require_within("counters", counters["size"], 0, self.keys.size)
        require_within("counters", counters["run"], 0, 32)
        require_same("counters", counters["length"], fresh.counters["length"])
        require_within("counters", counters["rate"], 1, _UNIT)
        require_entries(self.table, self.keys, np.arange(size, self.keys.size))
        require_within("vectors", self.vectors, 0, (1 << length) - 1)
        require_within("shared", self.shared, 0, (1 << length) - 1)
        require_within("fresh", self.fresh, 0, (1 << length) - 1)


def entries_for(rate: float) -> int:
    """Compute the entries that a synopsis needs that declines at `rate`.

    >>> entries_for(0.01)
    285
    """
    mean = 2 / rate
    return math.ceil(mean + 6 * math.sqrt(mean))


def coin_synopsis(n_entries: int, rate: float, length: int, seeds: Words) -> CoinSynopsis:
    """Return an empty synopsis with room for `n_entries` keys.

    `rate` is p, from 2^−32 to 0.5; r follows from it. `length` is l, the bits of a vector. The two
    `seeds` are those of the coins and of the choices; they differ by source.
    """
    counters = np.zeros(1, COUNTERS)
    counters["length"] = length
    synopsis = zeros(
        CoinSynopsis,
        n_entries,
        table=key_table(n_entries),
        counters=counters,
        scale=np.ones(1),
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
    synopsis.counters[0]["run"] = run
    synopsis.counters[0]["rate"] = np.int64(rate * _UNIT)


@kernel
def heads(seed: U64, record: I64) -> I64:
    """Toss the coin of record number `record`: the heads before tails, 64 at most.

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
def entry_of(synopsis: CoinSynopsis, key: U64) -> I64:
    """Return the entry of `key`, a new one if it has none, or ABSENT if there is no room.

    Alg. 1, l. 12–13.
    """
    counters = synopsis.counters[0]
    slot = find_slot(synopsis.table, key)
    entry = np.int64(synopsis.table.values[slot])
    if entry == ABSENT and counters["size"] < synopsis.keys.size:
        entry = counters["size"]
        counters["size"] += 1
        synopsis.table.keys[slot] = key
        synopsis.table.values[slot] = entry
        synopsis.keys[entry] = key
        synopsis.vectors[entry] = _ZERO
        synopsis.shared[entry] = _ZERO
        synopsis.fresh[entry] = _ZERO
        synopsis.shifts[entry] = 0
        synopsis.marked[entry] = 0
    return entry


@kernel
def set_bit(synopsis: CoinSynopsis, entry: I64, number: I64) -> None:
    """Set this bit of a vector, or the last one if there are fewer (l. 14–15)."""
    bit = min(number, synopsis.counters[0]["length"] - 1)
    synopsis.vectors[entry] |= _ONE << np.uint64(bit)
    synopsis.fresh[entry] |= _ONE << np.uint64(bit)


@kernel
def begin_decline(synopsis: CoinSynopsis) -> None:
    """Make a share p of the entries due for a shift, once for each long run of all sources.

    Fractions add up until they are one.
    """
    counters = synopsis.counters[0]
    counters["owed"] += np.int64(counters["rate"] * synopsis.scale[0]) * counters["size"]


@kernel
def next_declining(synopsis: CoinSynopsis) -> I64:
    """Return an entry to shift, any of them with equal chance, or ABSENT when none is due.

    Alg. 1, l. 18. Every call costs O(1), and a long run makes p · entries of them due: two at most,
    on average.
    """
    counters = synopsis.counters[0]
    if counters["size"] == 0:
        counters["owed"] = 0
    if counters["owed"] < _UNIT:
        return np.int64(ABSENT)
    counters["owed"] -= _UNIT
    counters["chosen"] += 1
    return np.int64(to_worker(draw(synopsis.seeds[1], counters["chosen"]), counters["size"]))


@kernel
def shift(synopsis: CoinSynopsis, entry: I64) -> U64:
    """Shift the entry's vector, and evict an empty one; return the vector afterwards.

    Alg. 1, l. 20–22. Every shift applies to the fresh bits. Only a shift for this source's own long
    runs also applies to the vector and the shared bits.
    """
    bits = mix(draw(synopsis.seeds[1], synopsis.counters[0]["chosen"]))
    if to_unit(bits) * synopsis.scale[0] < 1.0:
        synopsis.vectors[entry] >>= _ONE
        synopsis.shared[entry] >>= _ONE
        synopsis.shifts[entry] += 1
    synopsis.fresh[entry] >>= _ONE
    after = synopsis.vectors[entry]
    if after == _ZERO:
        last = synopsis.counters[0]["size"] - 1
        synopsis.counters[0]["size"] = last
        remove_slot(synopsis.table, find_slot(synopsis.table, synopsis.keys[entry]))
        if entry != last:
            synopsis.keys[entry] = synopsis.keys[last]
            synopsis.vectors[entry] = synopsis.vectors[last]
            synopsis.shared[entry] = synopsis.shared[last]
            synopsis.fresh[entry] = synopsis.fresh[last]
            synopsis.shifts[entry] = synopsis.shifts[last]
            synopsis.marked[entry] = synopsis.marked[last]
            synopsis.table.values[find_slot(synopsis.table, synopsis.keys[last])] = entry
    return after


def vectors(synopsis: CoinSynopsis) -> dict[int, int]:
    """Return the bit vector of every key that has one."""
    size = int(synopsis.counters[0]["size"])
    bits = synopsis.vectors[:size].tolist()
    return dict(zip(synopsis.keys[:size].tolist(), bits, strict=True))


def merge_vectors(synopses: Sequence[CoinSynopsis], missed: Sequence[float]) -> dict[int, int]:
    """Return the vectors of a synopsis with the records of all sources, in any order of them.

    Fresh bits are united: each stands for a long run of one source, and was shifted as if that
    source had seen all long runs. `missed` has, by source, the shifts that a bit has missed since
    the last merge, because there were more sources than this one knew of. Shared bits are copies of
    one vector. Each source has shifted its copy by its own long runs, so the vector is shifted by
    their sum. It is empty if one source has shifted it out. A source that has missed the latest
    merge has no copy.
    """
    latest = max(int(synopsis.counters[0]["generation"]) for synopsis in synopses)
    united: dict[int, int] = {}
    copies: list[dict[int, tuple[int, int]]] = []  # key -> shifts, bits
    for synopsis, most in zip(synopses, missed, strict=True):
        size = int(synopsis.counters[0]["size"])
        names = synopsis.keys[:size].tolist()
        for key, bits in zip(names, synopsis.fresh[:size].tolist(), strict=True):
            late = _missed_shifts(synopsis, key, most) if most and bits else 0
            united[key] = united.get(key, 0) | bits >> late
        if int(synopsis.counters[0]["generation"]) == latest:
            shifts = synopsis.shifts[:size].tolist()
            shared = zip(shifts, synopsis.shared[:size].tolist(), strict=True)
            copies.append(dict(zip(names, shared, strict=True)))
    for key in set().union(*copies):
        found = [copy.get(key, (0, 0)) for copy in copies]
        if all(bits for _, bits in found):
            fewest, bits = min(found)
            n_more = sum(n_shifts for n_shifts, _ in found) - fewest
            united[key] = united.get(key, 0) | bits >> n_more
    return {key: bits for key, bits in united.items() if bits}


def _missed_shifts(synopsis: CoinSynopsis, key: int, most: float) -> int:
    """Draw how many of `most` shifts came after the bits of `key`, which came at any time."""
    own = np.uint64(seeded(np.uint64(key), synopsis.seeds[1]))
    word = np.uint64(draw(own, synopsis.counters[0]["generation"]))
    age, rounding = to_unit(word), to_unit(np.uint64(mix(word)))
    return min(64, int(most * age + rounding))


def send_off(synopsis: CoinSynopsis) -> None:
    """Note that all fresh bits and shifts have been sent: only what follows is fresh."""
    synopsis.fresh[:] = 0
    synopsis.shifts[:] = 0


def news(synopsis: CoinSynopsis) -> dict[int, tuple[int, int]]:
    """Return for each key its fresh bits and how often its shared ones were shifted."""
    size = int(synopsis.counters[0]["size"])
    found = zip(synopsis.fresh[:size].tolist(), synopsis.shifts[:size].tolist(), strict=True)
    return dict(zip(synopsis.keys[:size].tolist(), found, strict=True))


def add_news(synopsis: CoinSynopsis, news: dict[int, tuple[int, int]]) -> None:
    """Add `news`, what came after a message, to a synopsis that was just filled.

    Vectors that are empty by then, and those without room, are left out.
    """
    shared = vectors(synopsis)
    found = {}
    for key in shared.keys() | news.keys():
        fresh, n_shifts = news.get(key, (0, 0))
        found[key] = shared.get(key, 0) >> n_shifts, fresh, n_shifts if key in shared else 0
    clear(synopsis.table)
    fill(synopsis, {key: s | fresh for key, (s, fresh, _) in found.items() if s | fresh})
    for entry in range(int(synopsis.counters[0]["size"])):
        synopsis.shared[entry], synopsis.fresh[entry], synopsis.shifts[entry] = found[
            int(synopsis.keys[entry])
        ]


def fill(synopsis: CoinSynopsis, vectors: dict[int, int]) -> None:
    """Put `vectors` into an empty synopsis as shared bits; the weakest are left out if too many."""
    synopsis.counters[0]["size"] = 0
    by_strength = sorted(vectors, key=lambda key: (-vectors[key].bit_count(), -vectors[key], key))
    for entry, key in enumerate(by_strength[: synopsis.keys.size]):
        slot = find_slot(synopsis.table, np.uint64(key))
        synopsis.table.keys[slot] = key
        synopsis.table.values[slot] = entry
        synopsis.keys[entry] = key
        synopsis.vectors[entry] = synopsis.shared[entry] = vectors[key]
        synopsis.counters[0]["size"] = entry + 1
