import numpy as np
import pytest
from hypothesis import given, settings

from reference import prompt as reference
from skewless.checks import check_strategy
from skewless.strategies.prompt import Prompt
from strategies.streams import (
    as_keys,
    routed,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
    workers_by_key,
)


@settings(deadline=None)
@given(keys=some_keys, n_workers=some_workers, seed=some_seeds)
def test_it_equals_its_oracle(keys, n_workers, seed):
    expected = reference.route_batch(keys, n_workers, seed)
    assert routed(Prompt(), as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.parametrize("z", [0.0, 0.8, 1.2, 2.0])
@pytest.mark.parametrize("n_workers", [1, 5, 16, 70])
def test_it_equals_its_oracle_on_a_long_batch(z, n_workers):
    keys = skewed(5_000, z, n_keys=700)
    expected = reference.route_batch(keys.tolist(), n_workers, 5)
    assert routed(Prompt(), keys, n_workers, 5).tolist() == expected


@pytest.mark.parametrize("z", [0.0, 0.8, 1.2, 2.0])
@pytest.mark.parametrize("n_workers", [1, 5, 16, 128])
def test_blocks_and_pieces_are_bounded(z, n_workers):
    keys = skewed(20_000, z)
    workers = routed(Prompt(), keys, n_workers, 1)
    counts = np.unique(keys, return_counts=True)[1]
    n_keys = counts.size
    largest = np.bincount(workers).max()
    mean_key = -(-keys.size // n_keys)
    assert largest <= max(-(-keys.size // n_workers), -(-n_keys // n_workers) * mean_key)
    replicas = sum(map(len, workers_by_key(keys, workers).values()))
    assert replicas <= n_keys + (counts > mean_key).sum() + n_workers


def test_keys_are_dealt_out_evenly_before_what_is_left_of_heavy_ones():
    keys = skewed(20_000, 1.2)
    workers = routed(Prompt(), keys, 16, 1)
    held = np.zeros(16)
    for key_workers in workers_by_key(keys, workers).values():
        held[list(key_workers)] += 1
    counts = np.unique(keys, return_counts=True)[1]
    # Whole laps give every worker one key each; leftovers can only add to that.
    assert held.min() >= counts.size // 16
    assert np.median(held) <= counts.size // 16 + 2


def test_a_batch_knows_nothing_of_the_one_before():
    strategy, keys = Prompt(), skewed(1_000)
    state = strategy.start(8, 1)
    first, second = np.empty((2, keys.size), np.int32)
    strategy.route(keys, state, first)
    strategy.route(keys, state, second)
    np.testing.assert_array_equal(first, second)


def test_it_keeps_the_contract():
    assert check_strategy(Prompt())
