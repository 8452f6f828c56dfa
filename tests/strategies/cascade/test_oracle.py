"""Cascade routes as its oracle does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import slow
from strategies.cascade.cascade_streams import STREAMS, assert_equal_to_the_oracle
from strategies.streams import (
    drifting,
    some_keys,
    some_seeds,
)

PARTS = ["nothing", "splitting", "grading", "fading", "yielding", "handicaps"]


@settings(deadline=None)
@given(
    keys=some_keys,
    times=st.integers(1, 8),  # an epoch has 64 records per worker
    n_workers=st.integers(1, 3) | st.integers(1, 40),
    seed=some_seeds,
    tolerance=st.sampled_from([1e-9, 0.05, 3.0]),
    without=st.sampled_from(PARTS),
)
def test_it_equals_its_oracle(keys, times, n_workers, seed, tolerance, without):
    assert_equal_to_the_oracle(keys * times, n_workers, seed, tolerance=tolerance, without=without)


@settings(deadline=None)
@given(data=st.data(), keys=some_keys, n_workers=st.integers(1, 40), seed=some_seeds)
def test_it_equals_its_oracle_with_weights(data, keys, n_workers, seed):
    # Weights whose n-th part has no exact binary form, and one that alone fills a worker.
    some = st.sampled_from([0.0, 0.1, 1.0, 2.0, 3.7, 50.0])
    weights = np.array(data.draw(st.lists(some, min_size=len(keys), max_size=len(keys))))
    assert_equal_to_the_oracle(keys, n_workers, seed, weights, tolerance=1e-9)


@pytest.mark.parametrize("without", PARTS)
@pytest.mark.parametrize("n_workers", [*slow([4]), 16])
@pytest.mark.parametrize("stream", STREAMS)
def test_it_equals_its_oracle_on_a_long_stream(stream, n_workers, without):
    assert_equal_to_the_oracle(STREAMS[stream], n_workers, 5, without=without)


def test_it_equals_its_oracle_when_faded_counts_are_scaled_down():
    # 0.8 to the 1548th is below 1e-150: then stored counts are divided, after so many epochs.
    n_workers = 1
    keys = drifting(1_560 * 64 * n_workers, every=9_000, z=1.4)
    assert_equal_to_the_oracle(keys, n_workers, 5)
