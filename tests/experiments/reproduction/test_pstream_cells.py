"""The cells and the stand-in streams of PStream's figures, against what they must be."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.reproduction.cells import Simulation
from experiments.reproduction.papers.pstream.counting import (
    aggregation,
    coin_trials,
    predicted_hot_keys,
    time_hot,
)
from experiments.reproduction.papers.pstream.rivals import (
    KINDS,
    SplitKeys,
    SplitSimulation,
    predictor,
    synopsis_bytes,
)
from lanes import needs_a_long_stream
from skewless import workloads
from skewless.plumbing.compiling import JIT_OFF

# Coins


def test_two_long_runs_are_as_likely_as_they_should_be():
    n_each, r, n_trials = 96, 5, 400 if JIT_OFF else 40_000
    row = coin_trials(n_each, n_trials, long_run=r).run()
    q = 2.0**-r
    exact = 1 - (1 - q) ** n_each - n_each * q * (1 - q) ** (n_each - 1)
    # Four standard deviations of a share of that many trials.
    assert abs(row["two_runs"] - exact) <= 4 * np.sqrt(exact * (1 - exact) / n_trials)
    assert row["two_bits"] < row["two_runs"]


def test_coin_trials_are_the_same_every_time_and_differ_by_seed():
    assert coin_trials(40, 500, long_run=4).run() == coin_trials(40, 500, long_run=4).run()
    assert coin_trials(40, 500, long_run=4).run() != coin_trials(40, 500, long_run=4, seed=2).run()


def test_one_toss_never_makes_a_key_hot():
    assert coin_trials(1, 200, n_keys=5, long_run=0).run() == {"two_runs": 0.0, "two_bits": 0.0}


# Predictors


def one_hot_key(n: int) -> np.ndarray:
    """Key 7 has half of the records, every other key one."""
    keys = np.arange(1_000, 1_000 + n, dtype=np.uint64)
    keys[::2] = 7
    return keys


@needs_a_long_stream
@pytest.mark.parametrize("kind", KINDS)
def test_every_predictor_finds_an_obvious_key_and_hardly_any_other(kind):
    keys = one_hot_key(40_000)
    hot = np.full(keys.size, 9, np.uint8)
    finder = predictor(kind, 0.05, 48_000, window=2_000, seed=1)
    finder.observe(keys, hot)
    assert set(np.unique(hot)) <= {0, 1}
    late = np.arange(keys.size) > 10_000
    assert hot[late & (keys == 7)].mean() > 0.8
    assert hot[late & (keys != 7)].mean() < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_no_predictor_knows_a_key_before_it_came(kind):
    hot = np.ones(1, np.uint8)
    predictor(kind, 0.05, 2_000, window=100, seed=1).observe(np.array([3], np.uint64), hot)
    assert hot[0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_predictors_are_asked_record_by_record_however_the_stream_is_cut(kind):
    keys = next(workloads.Zipf(z=1.2, n_keys=500, n_records=1_500).chunks(1))
    whole, parts = np.zeros(keys.size, np.uint8), np.zeros(keys.size, np.uint8)
    predictor(kind, 0.05, 2_000, window=500, seed=1).observe(keys, whole)
    finder = predictor(kind, 0.05, 2_000, window=500, seed=1)
    for begin in range(0, keys.size, 500):
        finder.observe(keys[begin : begin + 500], parts[begin : begin + 500])
    assert (whole == parts).all()


def test_a_predictor_of_no_known_kind_is_refused():
    with pytest.raises(ValueError, match="predictor must be one of coins, count-min"):
        predictor("oracle", 0.01, synopsis_bytes(0.01), window=100, seed=1)


@needs_a_long_stream
def test_coins_take_two_tosses_per_record_and_count_min_ten_steps():
    of = {"z": 1.0, "n_keys": 1_000, "n_records": 20_000}
    # A run of heads has a mean of one, and the toss that ends it; long runs are rare.
    assert predicted_hot_keys("coins", "zipf", of).run()["steps"] == pytest.approx(2.0, abs=0.1)
    assert predicted_hot_keys("count-min", "zipf", of).run()["steps"] == 10.0


@needs_a_long_stream
def test_precision_and_recall_of_a_predictor_that_calls_everything_hot():
    # A sketch of 2 columns: each estimate is about half of all records.
    of = {"z": 1.5, "n_keys": 1_000, "n_records": 30_000}
    row = predicted_hot_keys("count-min", "zipf", of, memory=1).run()
    assert row["key_recall"] == 1.0
    assert row["key_precision"] < 0.2
    assert row["key_precision"] <= row["key_precision_near"]


@needs_a_long_stream
def test_the_more_frequent_a_key_the_longer_it_is_hot():
    # An entry is shifted every 25,600 records in the mean, so one lucky run can keep a rare key hot
    # for some 100,000: the stream must be much longer than that.
    often, seldom = (time_hot(share, 2_000_000).run()["hot"] for share in (0.08, 0.00125))
    assert often > 0.9
    assert seldom < 0.3
    assert time_hot(1e-9, 1_000).run() == {"hot": 0.0}  # a key that never comes


# The DKG that splits keys


def split(keys: np.ndarray, n_workers: int, sample: int, seed: int = 1) -> np.ndarray:
    out = np.full(keys.size, -1, np.int32)
    strategy = SplitKeys(sample=sample)
    strategy.route(keys, strategy.start(n_workers, seed), out)
    return out


def test_a_key_has_as_many_parts_as_its_share_of_the_sample_demands():
    keys = np.arange(1_000, 5_000, dtype=np.uint64)  # each of them once, but for two
    keys[::4], keys[1::16] = 7, 8  # a quarter and a sixteenth of the records
    out = split(keys, n_workers=16, sample=1_600)
    later = np.arange(keys.size) >= 1_600
    assert [np.unique(out[(keys == key) & ~later]).size for key in (7, 8)] == [1, 1]
    assert [np.unique(out[(keys == key) & later]).size for key in (7, 8)] == [4, 1]
    parts = np.bincount(out[(keys == 7) & later], minlength=16)
    assert parts.max() <= 1.2 * parts[parts > 0].mean()


def test_keys_that_become_hot_after_the_sample_are_not_split():
    keys = np.arange(1_000, 2_000, dtype=np.uint64)
    keys[500:] = 7
    assert np.unique(split(keys, 16, sample=500)[500:]).size == 1
    assert np.unique(split(keys, 16, sample=600)[600:]).size == 3  # ⌈16 · 100 / 600⌉


def test_split_keys_is_routed_record_by_record_however_the_stream_is_cut():
    keys = next(workloads.Zipf(z=1.2, n_keys=500, n_records=1_500).chunks(1))
    whole, parts = split(keys, 8, sample=300), np.empty(keys.size, np.int32)
    state = SplitKeys(sample=300).start(8, 1)
    for begin in range(0, keys.size, 70):
        SplitKeys(sample=300).route(keys[begin : begin + 70], state, parts[begin : begin + 70])
    assert (whole == parts).all()


def test_a_sample_of_nothing_is_refused():
    with pytest.raises(ValueError, match="sample must be from 1 to 10\\^8, not 0"):
        SplitKeys(sample=0)


def test_splitting_by_frequency_is_more_even_than_a_hash():
    of = {"z": 1.0, "n_keys": 10_000, "n_records": 40_000}
    split_keys = SplitSimulation(of=of, settings={"sample": 4_000}, n_workers=32).run()
    hashed = Simulation("hash", "zipf", of=of, n_workers=32).run()
    assert 0 < split_keys["imbalance"] < 0.75 * hashed["imbalance"]


# aggregation


def test_hashed_keys_have_no_partial_results_and_shuffled_ones_all():
    of = {"z": 1.0, "n_keys": 100, "n_records": 2_000}
    hashed = aggregation("hash", "zipf", of, 4, window=500).run()
    assert hashed["partial_results"] == hashed["waiting_share"] == hashed["merge_seconds"] == 0.0
    shuffled = aggregation("shuffle", "zipf", of, 4, window=500, forwarding=False).run()
    assert shuffled["waiting_share"] == 1.0
    split = aggregation("shuffle", "zipf", of, 4, window=500).run()
    assert 0 < split["partial_results"] < shuffled["partial_results"]


def test_partial_results_of_one_key_are_as_many_as_workers():
    of = {"z": 1.0, "n_keys": 1, "n_records": 1_000}
    row = aggregation("shuffle", "zipf", of, 8, window=100, merge=1e-3, reducers=2).run()
    assert row["partial_results"] == 8 * 10 / 1_000
    assert row["merge_seconds"] == pytest.approx(8 * 1e-3 / 2)


def test_a_strategy_that_moves_keys_has_no_partial_results():
    with pytest.raises(ValueError, match="dkg moves keys"):
        aggregation("dkg", "zipf", {"z": 1.0, "n_keys": 10, "n_records": 10}, 2).run()
