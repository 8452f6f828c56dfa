"""The hot key predictor of PStream: synopsis, filter, and a threshold that may adapt itself.

`coin_synopsis` finds the hot keys. A counting Bloom filter holds them and is looked up for every
record. A key that becomes hot is added to it (the paper's "append"), a key that is no longer hot is
removed ("delete").

The threshold f is the share of the records above which a key should be hot; p = f / 2 and
r = log2(1 / p) follow from it. It may be adapted to minimise w_T · F_L + w_S · H: the share of the
records that are not hot, for their imbalance, against the share of recent keys that are hot, for
their replicas. F_L rises with f and H falls, so the best f is near where both terms are equal.

References
----------
H. Chen, F. Zhang, H. Jin: PStream: a popularity-aware differentiated distributed stream processing
system, IEEE Transactions on Computers 2021, sections 3.2 and 4.4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, U64, Bytes, Keys, Rows, SmallInts, Words
from skewless.kernels import distinct
from skewless.kernels.hashing import seeded
from skewless.kernels.key_table import ABSENT
from skewless.kernels.merge_history import MergeHistory, merge_history
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, MOST_WEIGHT, require_same, require_within, within
from skewless.strategies.pstream import bloom as bf
from skewless.strategies.pstream.bloom import CountingBloom, place_of, two_place_bloom
from skewless.strategies.pstream.coin_synopsis import (
    CoinSynopsis,
    begin_decline,
    coin_synopsis,
    entries_for,
    entry_of,
    heads,
    is_two,
    next_declining,
    next_long_run,
    set_bit,
    set_rate,
    shift,
)

COUNTERS = np.dtype(
    [
        ("records", "i8"),  # tossed so far
        ("long", "i8"),  # v_1: long runs in this interval
        ("long_hot", "i8"),  # v_2: of them, those of hot keys
        ("intervals", "i8"),  # intervals that have ended
        ("adaptive", "i8"),  # 1 if the threshold adapts itself
        ("told", "i8"),  # of `records`, those up to the last message to the other sources
        ("in_message", "i8"),  # records that the last message was about
        ("long_told", "i8"),  # of `long`, those that all sources know of
        ("long_hot_told", "i8"),  # of `long_hot`, the same
        ("waiting", "i8"),  # 1 between a message and its answer
        ("whole_runs", "i8"),  # 1 if the whole run says which bit it sets, not its part beyond r
        ("until_evicted", "i8"),  # 1 if a key is hot until its vector is empty
    ]
)
SETTINGS = np.dtype(
    [
        ("share", "f8"),  # f
        ("least", "f8"),  # the smallest f
        ("time_weight", "f8"),  # w_T; w_S = 1 − w_T
        ("interval", "f8"),  # in units of 1 / p long runs
    ]
)

#: Flags of an entry: the key was hot at a long run of this interval; it is in the filter.
MARKED, HOT = np.uint8(1), np.uint8(2)
#: Records that are looked up together, at most.
BLOCK = 256
_FALSE_POSITIVE_RATE = 0.01
_PRECISION = 10  # of the number of keys: 2^10 bytes for a standard error of 3 %
# The largest value of a register: all bits of a 64-bit hash that do not choose the register are 0,
# and one more.
_LARGEST_RANK = 64 - _PRECISION + 1


@within(0, MOST_WEIGHT, "settings")
@within(0, MOST_COUNTED, "counters")
@within(0, _LARGEST_RANK, "registers")
class HotKeyPredictor(NamedTuple):
    """What one source has found out about its keys."""

    synopsis: CoinSynopsis
    filter: CountingBloom  # the hot keys, in two counters each
    registers: Bytes  # number of keys of this interval; only used for an adaptive threshold
    counters: Rows  # [1]
    settings: Rows  # [1]
    merges: MergeHistory

    def check(self, fresh: HotKeyPredictor) -> None:
        """Refuse other settings, and numbers that no stream leads to."""
        constant = ["least", "time_weight", "interval"]
        require_same("settings", self.settings[constant], fresh.settings[constant])
        require_within("settings", self.settings["share"], float(self.settings[0]["least"]), 1)
        constant = ["adaptive", "whole_runs", "until_evicted"]
        require_same("counters", self.counters[constant], fresh.counters[constant])
        require_within("counters", self.counters["long_hot"], 0, int(self.counters[0]["long"]))


def hot_key_predictor(
    f: float,
    *,
    least_f: float | None = None,
    floor: float | None = None,
    length: int = 16,
    time_weight: float = 0.5,
    interval: float = 1.0,
    whole_runs: bool = False,
    until_evicted: bool = False,
    seeds: Words,
) -> HotKeyPredictor:
    """Return a predictor that has seen nothing.

    `f` is the threshold. With `least_f` it is only the first threshold, which then adapts, but
    never below `floor`, or `least_f` if that is None. Memory is that for `least_f`. The three
    `seeds` are that of the filter, the same for all sources, and those of the coins and of the
    choices, which differ by source.

    The filter has its false-positive rate, 1 %, while no more than 1 / f keys are hot: no more can
    have a share of f at the same time.
    """
    least = f if least_f is None else least_f
    counters = np.zeros(1, COUNTERS)
    counters["adaptive"] = least_f is not None
    counters["whole_runs"] = whole_runs
    counters["until_evicted"] = until_evicted
    settings = np.zeros(1, SETTINGS)
    settings["share"] = f
    settings["least"] = least if floor is None else floor
    settings["time_weight"] = time_weight
    settings["interval"] = interval
    return HotKeyPredictor(
        synopsis=coin_synopsis(entries_for(least / 2), f / 2, length, seeds[1:].copy()),
        filter=two_place_bloom(math.ceil(1 / least), _FALSE_POSITIVE_RATE, seeds[0]),
        registers=distinct.registers(_PRECISION),
        counters=counters,
        settings=settings,
        merges=merge_history(),
    )


@kernel
def better_threshold(f: F64, rare_share: F64, hot_key_share: F64, time_weight: F64) -> F64:
    """Return where the two lines meet that stand for w_T · F_L and w_S · H.

    `rare_share` is F_L(f); `hot_key_share` is H(f), as a share of the keys of an interval. We have
    F_L(0) = 0, H(0) = 1, F_L(1) = 1 and H(1) = 0. If w_T · F_L is the larger at f, the lines go
    from f to 0 and meet below f, else they go from f to 1 and meet above it (Fig. 12).

    >>> round(better_threshold(0.1, 0.5, 0.0, 0.5), 4)
    0.0667
    >>> round(better_threshold(0.1, 0.0, 0.5, 0.5), 4)
    0.4
    """
    space_weight = 1.0 - time_weight
    time_cost = time_weight * rare_share
    space_cost = space_weight * hot_key_share
    if time_cost > space_cost:
        return f * space_weight / (time_cost - space_cost + space_weight)
    if time_cost < space_cost:
        return 1.0 - (1.0 - f) * time_weight / (space_cost - time_cost + time_weight)
    return f


@kernel
def _end_interval(predictor: HotKeyPredictor) -> None:
    """Estimate F_L and H from the long runs of this interval, and adapt f, p and r."""
    synopsis, counters, settings = predictor.synopsis, predictor.counters[0], predictor.settings[0]
    n_marked = 0  # v_3
    for entry in range(synopsis.counters[0]["size"]):
        n_marked += np.int64(synopsis.marked[entry] & MARKED)
        synopsis.marked[entry] &= HOT
    rare_share = 1.0 - counters["long_hot"] / counters["long"]
    n_keys = max(distinct.estimate(predictor.registers), np.float64(n_marked), 1.0)
    f = better_threshold(settings["share"], rare_share, n_marked / n_keys, settings["time_weight"])
    f = min(max(f, settings["least"]), 1.0)
    settings["share"] = f
    set_rate(synopsis, f / 2.0)
    counters["long"] = counters["long_hot"] = 0
    counters["long_told"] = counters["long_hot_told"] = 0
    predictor.registers[:] = 0
    counters["intervals"] += 1


@kernel
def end_interval_if_over(predictor: HotKeyPredictor) -> None:
    """Adapt the threshold if it may change and an interval has had its long runs."""
    counters, settings = predictor.counters[0], predictor.settings[0]
    enough = counters["long"] * settings["share"] >= 2.0 * settings["interval"]
    if counters["adaptive"] and counters["long"] > 0 and enough:
        _end_interval(predictor)


@kernel
def learn(predictor: HotKeyPredictor, key: U64, n_heads: I64) -> None:
    """Take in a long run of `key`: Alg. 1, l. 11–22, and section 4.4 at the end of an interval."""
    synopsis, counters = predictor.synopsis, predictor.counters[0]
    counters["long"] += 1
    entry = entry_of(synopsis, key)
    if entry != ABSENT:
        # Section 4.4 asks whether the key is hot; we ask before this run sets its bit. A key that
        # is hot by this very run would count in place of many records of it that were not hot.
        if synopsis.marked[entry] & HOT:
            counters["long_hot"] += 1
            synopsis.marked[entry] |= MARKED
        beyond = np.int64(0) if counters["whole_runs"] else synopsis.counters[0]["run"]
        set_bit(synopsis, entry, n_heads - beyond)
        if is_two(synopsis.vectors[entry]) and not synopsis.marked[entry] & HOT:
            synopsis.marked[entry] |= HOT
            bf.add(predictor.filter, key)  # l. 17: append
    begin_decline(synopsis)
    entry = next_declining(synopsis)
    while entry != ABSENT:
        declining = synopsis.keys[entry]
        was_hot = synopsis.marked[entry] & HOT
        bits = shift(synopsis, entry)
        if was_hot and (bits == 0 or (not counters["until_evicted"] and not is_two(bits))):
            if bits != 0:
                synopsis.marked[entry] &= MARKED
            bf.remove(predictor.filter, declining)  # l. 22: delete
        entry = next_declining(synopsis)
    end_interval_if_over(predictor)


@kernel
def look_up(bloom: CountingBloom, keys: Keys, places: SmallInts, hot: SmallInts) -> None:
    """Fill `hot` with 1 for each key that the filter contains, else 0; `places` is scratch.

    The same answers as `contains`, several times faster: hashing apart from looking up and no
    branch that depends on a key let the compiler work on many keys at once.
    """
    n = keys.size
    first, second = places[:n], places[n : 2 * n]
    for i in range(n):
        hashed = seeded(keys[i], bloom.seed[0])
        first[i] = place_of(bloom, hashed, 0)
        second[i] = place_of(bloom, hashed, 1)
    for i in range(n):
        in_first = np.int32(bloom.counters[np.uint32(first[i])] != 0)
        in_second = np.int32(bloom.counters[np.uint32(second[i])] != 0)
        hot[i] = in_first & in_second


@kernel
def observe(predictor: HotKeyPredictor, keys: Keys, hot: SmallInts, places: SmallInts) -> I64:
    """Fill `hot` with 1 for each of the first keys that is hot, else 0, and learn from them.

    Return how many keys that are, `hot.size` at most; `places` is scratch. The hot keys change only
    with a long run, and coins do not depend on keys. So all records up to and including the next
    long run are looked up at once. Then the run is learned.
    """
    coins, counters = predictor.synopsis.seeds[0], predictor.counters[0]
    first = counters["records"]
    end = first + min(hot.size, keys.size)
    record = next_long_run(coins, first, end, predictor.synopsis.counters[0]["run"])
    n = min(record + 1, end) - first
    look_up(predictor.filter, keys[:n], places, hot)
    if counters["adaptive"]:  # else the number of keys is not needed
        for i in range(n):
            distinct.add(predictor.registers, seeded(keys[i], predictor.filter.seed[0]))
    counters["records"] += n
    if record < end:
        learn(predictor, keys[n - 1], heads(coins, record))
    return n


def observe_all(predictor: HotKeyPredictor, keys: Keys, hot: Bytes) -> None:
    """Fill `hot` with 1 for each record whose key is hot when it comes, and learn from them.

    For tests, and for experiments that compare predictors.
    """
    found, places = np.empty(BLOCK, np.int32), np.empty(2 * BLOCK, np.int32)
    i = 0
    while i < keys.size:
        n = int(observe(predictor, keys[i:], found, places))
        hot[i : i + n] = found[:n]
        i += n


def hot_keys(predictor: HotKeyPredictor) -> set[int]:
    """Return the keys that are hot, without the false positives of the filter."""
    return flagged(predictor, HOT)


def flagged(predictor: HotKeyPredictor, flag: np.uint8) -> set[int]:
    """Return the keys that have this flag."""
    synopsis = predictor.synopsis
    size = int(synopsis.counters[0]["size"])
    return set(synopsis.keys[:size][synopsis.marked[:size] & flag > 0].tolist())
