"""PStream's predictor: its tables, theorems and figures as seeded measurements.

Bounds are exact or hold for each seed; what is measured may leave them by four standard deviations
of a share of that many trials, which one in 30,000 such tests would do by chance.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import needs_a_long_stream
from skewless.arrays import Ints, Keys, SmallInts
from skewless.kernels.hashing import seed_array
from skewless.kernels.key_table import ABSENT
from skewless.plumbing.compiling import JIT_OFF, kernel
from skewless.strategies.pstream import bloom as bf
from skewless.strategies.pstream import hot_key_predictor as hp
from skewless.strategies.pstream.coin_synopsis import (
    CoinSynopsis,
    begin_decline,
    coin_synopsis,
    entries_for,
    entry_of,
    heads,
    next_declining,
    next_long_run,
    set_bit,
    shift,
    vectors,
)
from strategies.pstream.look_ups import contains
from strategies.pstream.predictors import is_hot, margin, predictor_with

TABLE_1 = {4: 0.9085, 5: 0.9596, 6: 0.9826, 7: 0.9927, 8: 0.9970}
TABLE_2 = {2**3: 0.1184, 2**4: 0.0607, 2**5: 0.0308, 2**6: 0.0155, 2**7: 0.0078}


@kernel
def fill_heads(seed: Keys, out: Ints) -> None:
    for i in range(out.size):
        out[i] = heads(seed[0], i)


def runs(seed: int, n: int) -> Ints:
    out = np.empty(n, np.int64)
    fill_heads(seed_array(seed, 1), out)
    return out


def trials(short: int, long: int) -> list:
    return [short // 20 if JIT_OFF else short, pytest.param(long, marks=pytest.mark.statistics)]


# Coins


def test_a_run_of_r_heads_has_a_chance_of_two_to_the_minus_r():
    n = 20_000 if JIT_OFF else 1_000_000
    found = runs(1, n)
    for r in range(12):
        assert abs((found >= r).mean() - 2.0**-r) <= margin(2.0**-r, n)


def test_coins_of_neighbouring_records_are_independent():
    n = 20_000 if JIT_OFF else 500_000
    long = (runs(2, n) >= 3).astype(float)
    for lag in (1, 2, 64):
        assert abs(np.corrcoef(long[lag:], long[:-lag])[0, 1]) <= 4 / math.sqrt(n)


@given(first=st.integers(0, 200), n=st.integers(0, 300), run=st.integers(0, 7))
def test_the_next_long_run_is_the_first_one(first, n, run):
    seed = seed_array(3, 1)[0]
    expected = next((i for i in range(first, first + n) if heads(seed, i) >= run), first + n)
    assert next_long_run(seed, first, first + n, run) == expected


# Theorem 1 and Table 1


def miss_two_runs(n: int, r: int) -> float:
    """Exactly: at most one of n runs is long."""
    q = 2.0**-r
    return (1 - q) ** n + n * q * (1 - q) ** (n - 1)


def miss_two_bits(n: int, r: int, length: int) -> float:
    """Exactly: the long ones among n runs set at most one bit."""
    q = 2.0**-r
    chances = [q * 2.0 ** -(b + 1) for b in range(length - 1)]
    chances.append(q - sum(chances))
    return (1 - q) ** n + sum((1 - q + chance) ** n - (1 - q) ** n for chance in chances)


def test_table_1_is_what_theorem_1_says():
    for x, recall in TABLE_1.items():
        assert 1 - (1 + x) * math.exp(-x) == pytest.approx(recall, abs=1e-4)


@pytest.mark.parametrize("n_trials", trials(2_000, 100_000))
@pytest.mark.parametrize(("x", "recall"), TABLE_1.items())
def test_two_long_runs_are_missed_as_rarely_as_table_1_promises(x, recall, n_trials):
    r = 6
    n = x * 2**r + 1
    assert 1 - miss_two_runs(n, r) > recall - 1e-4
    found = runs(x, n * n_trials).reshape(n_trials, n)
    measured = ((found >= r).sum(axis=1) >= 2).mean()
    assert measured >= recall - margin(recall, n_trials)
    assert abs(measured - (1 - miss_two_runs(n, r))) <= margin(recall, n_trials)


@pytest.mark.parametrize("n_trials", trials(1_000, 20_000))
@pytest.mark.parametrize(("x", "recall"), TABLE_1.items())
def test_two_bits_are_missed_more_often_than_that(x, recall, n_trials):
    # Algorithm 1 calls a key hot by its bits, and two runs of the same length set one bit. So the
    # predictor stays below Table 1, and exactly so far: fades play no role in so few long runs.
    r = 6
    n = x * 2**r + 1
    expected = 1 - miss_two_bits(n, r, 16)
    assert expected < recall
    keys = np.full(n, 7, np.uint64)
    found = 0
    for seed in range(n_trials):
        predictor = predictor_with(r, seed)
        is_hot(predictor, keys)
        found += hp.hot_keys(predictor) == {7}
    assert abs(found / n_trials - expected) <= margin(expected, n_trials)


# Theorem 2 and Table 2


def test_table_2_is_what_theorem_2_says():
    for ratio, rate in TABLE_2.items():
        assert 1 - (1 - ratio**-2) ** ratio == pytest.approx(rate, abs=1e-4)


@pytest.mark.parametrize("n_trials", trials(1_000, 20_000))
@pytest.mark.parametrize(("ratio", "rate"), TABLE_2.items())
def test_rare_keys_become_hot_less_often_than_table_2_allows(ratio, rate, n_trials):
    r = 10
    n_each = 2**r // ratio
    keys = np.tile(np.arange(ratio, dtype=np.uint64), n_each)
    found = 0
    for seed in range(n_trials):
        predictor = predictor_with(r, seed)
        is_hot(predictor, keys)
        found += bool(hp.hot_keys(predictor))
    assert found / n_trials <= rate + margin(rate, n_trials)
    # It is not that nothing is ever found. Keys are independent but for their fading.
    expected = 1 - miss_two_bits(n_each, r, 16) ** ratio
    assert abs(found / n_trials - expected) <= margin(expected, n_trials)


# Theorem 3: who stays and who goes


def with_share(share: float, n: int, seed: int) -> Keys:
    """Key 0 has this share, all others occur once."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < share, 0, np.arange(1, n + 1)).astype(np.uint64)


@needs_a_long_stream
@pytest.mark.parametrize(
    ("times_p", "least", "most"),
    # Theorem 3 parts keys at 2p, roughly: far above it a key is nearly always hot, far below
    # nearly never. In between, the share of time grows smoothly.
    [(16, 0.97, 1.0), (8, 0.9, 1.0), (1 / 4, 0.0, 0.15), (1 / 16, 0.0, 0.02)],
)
def test_a_key_is_hot_as_long_as_it_is_frequent(times_p, least, most):
    r, n = 5, 400_000
    keys = with_share(times_p * 2.0**-r, n, seed=1)
    hot = is_hot(predictor_with(r, 1), keys)
    settled = (keys == 0) & (np.arange(n) > 4 * 4**r)
    assert least <= hot[settled].mean() <= most


def test_a_key_that_stops_is_evicted():
    r = 5
    predictor = predictor_with(r, 2)
    is_hot(predictor, with_share(0.5, 5_000, seed=2))
    assert 0 in hp.hot_keys(predictor)
    # Its top bit is below 16, and a shift comes every 4^r records: 32 times that is enough.
    is_hot(predictor, np.arange(10_000, 10_000 + 32 * 4**r, dtype=np.uint64))
    assert 0 not in vectors(predictor.synopsis)


@given(st.integers(1, 2**16 - 1))
def test_no_vector_survives_as_many_shifts_as_it_has_bits(bits):
    synopsis = coin_synopsis(4, 0.25, 16, seed_array(1, 2))
    entry = entry_of(synopsis, np.uint64(9))
    synopsis.vectors[entry] = synopsis.fresh[entry] = bits
    ones = bits.bit_count()
    for n_shifts in range(1, 17):
        assert shift(synopsis, entry) == bits >> n_shifts
        now = vectors(synopsis).get(9, 0)
        assert now == bits >> n_shifts
        assert now.bit_count() <= ones
        ones = now.bit_count()
        if now == 0:
            break
    assert synopsis.counters[0]["size"] == 0


# Theorem 4: how many entries


@kernel
def sizes_of_strangers(synopsis: CoinSynopsis, n: int, out: Ints) -> None:
    """Submit n long runs of keys that never come again; note the number of entries after each."""
    for i in range(n):
        entry = entry_of(synopsis, np.uint64(i))
        if entry == ABSENT:
            out[n] += 1
        else:
            set_bit(synopsis, entry, heads(synopsis.seeds[0], i))
        begin_decline(synopsis)
        entry = next_declining(synopsis)
        while entry != ABSENT:
            shift(synopsis, entry)
            entry = next_declining(synopsis)
        out[i] = synopsis.counters[0]["size"]


@pytest.mark.parametrize("rate", [0.05, 0.01])
def test_strangers_fill_two_over_p_entries_and_never_the_synopsis(rate):
    # Theorem 4 says 1 / p: true right after all entries were shifted at once. They are shifted one
    # by one, each lives for 2 / p long runs in the mean, and so 2 / p of them are there.
    n = 10_000 if JIT_OFF else 1_000_000
    sizes = np.zeros(n + 1, np.int64)
    sizes_of_strangers(coin_synopsis(entries_for(rate), rate, 16, seed_array(4, 2)), n, sizes)
    settled = sizes[int(20 / rate) : n]
    # Sizes a lifetime apart are independent, and each varies by the root of its mean.
    n_independent = settled.size * rate / 2
    assert abs(settled.mean() - 2 / rate) <= 4 * math.sqrt(2 / rate / n_independent) + 1
    assert settled.max() <= entries_for(rate)
    assert sizes[n] == 0  # nobody was turned away


def test_the_synopsis_holds_the_frequent_keys_and_stays_within_its_bounds():
    r = 6
    n_keys, n = 2_000, 20_000 if JIT_OFF else 500_000
    shares = np.arange(1, n_keys + 1) ** -1.2
    shares /= shares.sum()
    keys = np.random.default_rng(3).choice(n_keys, n, p=shares).astype(np.uint64)
    predictor = predictor_with(r, 3)
    is_hot(predictor, keys)
    n_frequent = int((shares > 2 * 2.0**-r).sum())
    assert n_frequent < predictor.synopsis.counters[0]["size"] < 2 * 2**r


def test_a_newcomer_finds_no_room_in_a_full_synopsis_and_nothing_breaks():
    synopsis = coin_synopsis(3, 0.25, 16, seed_array(5, 2))
    entries = [entry_of(synopsis, np.uint64(key)) for key in range(4)]
    assert entries == [0, 1, 2, ABSENT]
    assert entry_of(synopsis, np.uint64(1)) == 1


def test_a_share_p_of_the_entries_is_chosen_each_evenly():
    n_entries, n = 10, 2_000 if JIT_OFF else 100_000
    synopsis = coin_synopsis(n_entries, 0.03, 16, seed_array(6, 2))
    for key in range(n_entries):
        entry_of(synopsis, np.uint64(key))
    chosen = np.zeros(n_entries, np.int64)
    for _ in range(n):
        begin_decline(synopsis)
        while (entry := next_declining(synopsis)) != ABSENT:
            chosen[entry] += 1
    assert abs(chosen.sum() - 0.03 * n * n_entries) <= 1
    assert np.abs(chosen / n - 0.03).max() <= margin(0.03, n)


# The filter


@kernel
def look_up_all(bloom: bf.CountingBloom, keys: Keys, places: SmallInts, hot: SmallInts) -> None:
    hp.look_up(bloom, keys, places, hot)


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(0, 70))
def test_looking_up_many_is_looking_up_each(inside, n):
    bloom = bf.two_place_bloom(20, 0.2, np.uint64(5))
    for key in inside:
        bf.add(bloom, np.uint64(key))
    keys = np.arange(n, dtype=np.uint64)
    hot = np.full(n, 9, np.int32)
    look_up_all(bloom, keys, np.zeros(2 * n, np.int32), hot)
    assert hot.tolist() == [int(contains(bloom, key)) for key in keys]


@pytest.mark.parametrize(("n_keys", "rate"), [(100, 0.01), (1_000, 0.05)])
def test_the_filter_claims_strangers_at_the_rate_asked_for(n_keys, rate):
    n_strangers = 2_000 if JIT_OFF else 100_000
    bloom = bf.two_place_bloom(n_keys, rate, np.uint64(3))
    for key in range(n_keys):
        bf.add(bloom, np.uint64(key))
    strangers = np.arange(n_keys, n_keys + n_strangers, dtype=np.uint64)
    hot = np.empty(n_strangers, np.int32)
    look_up_all(bloom, strangers, np.zeros(2 * n_strangers, np.int32), hot)
    # A fifth: how full a filter of so few keys is varies by a few percent, and counts in square.
    assert hot.mean() == pytest.approx(rate, abs=0.2 * rate + margin(rate, n_strangers))


def test_the_filter_holds_exactly_the_hot_keys():
    predictor = predictor_with(3, 4)
    keys = with_share(0.3, 3_000, seed=4) % np.uint64(50)
    for piece in np.array_split(keys, 200):
        is_hot(predictor, piece)
        expected = bf.two_place_bloom(8, 0.01, predictor.filter.seed[0])
        expected.counters.resize(predictor.filter.counters.size, refcheck=False)
        expected.counters[:] = 0
        for key in hp.hot_keys(predictor):
            bf.add(expected, np.uint64(key))
        np.testing.assert_array_equal(predictor.filter.counters, expected.counters)
