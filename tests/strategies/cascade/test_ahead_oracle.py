"""Cascade with foresight routes as its oracle does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import slow
from reference.cascade.cascade_ahead import AheadReference
from skewless.strategies.cascade import CascadeAhead
from skewless.strategies.cascade.ahead.state import BLOCK
from skewless.strategies.cascade.heavy_keys import n_places
from strategies.cascade.cascade_streams import STREAMS
from strategies.streams import as_keys, skewed, some_keys, some_seeds


def assert_equal_to_the_oracle(batches, n_workers, seed, weights=None, expected=0, **parameters):
    """Compare batch by batch; with `expected`, in an interval of so many records."""
    oracle = AheadReference(n_workers, seed, **parameters)
    oracle.expected = expected
    strategy = CascadeAhead(**parameters)
    state = strategy.start(n_workers, seed)
    strategy.begin(state, expected)
    for i, keys in enumerate(batches):
        out = np.full(len(keys), -1, np.int32)
        if weights is None:
            strategy.route(as_keys(keys), state, out)
            assert out.tolist() == oracle.route([int(key) for key in keys])
        else:
            strategy.route_weighted(as_keys(keys), weights[i], state, out)
            found = oracle.route([int(key) for key in keys], weights[i].tolist())
            assert out.tolist() == found
    # Not nearly, but to the last bit: both round in the same places.
    assert state.levels.tolist() == oracle.levels
    assert state.numbers[0]["scale"] == oracle.scale
    assert state.numbers[0]["faded"] == oracle.faded
    counts = state.heavy.counts[: n_places(state.heavy)]
    assert counts.tolist() == [counter.count for bucket in oracle.buckets for counter in bucket]
    return oracle


some_batches = st.lists(some_keys, min_size=1, max_size=6)


@settings(deadline=None)
@given(
    batches=some_batches,
    n_workers=st.integers(1, 3) | st.integers(1, 40),
    seed=some_seeds,
    tolerance=st.sampled_from([1e-9, 0.03, 3.0]),
    expected=st.sampled_from([0, 1, 500, 10**9]),
)
def test_it_equals_its_oracle(batches, n_workers, seed, tolerance, expected):
    assert_equal_to_the_oracle(batches, n_workers, seed, expected=expected, tolerance=tolerance)


@pytest.mark.slow
@settings(deadline=None)
@given(data=st.data(), batches=some_batches, n_workers=st.integers(1, 40), seed=some_seeds)
def test_it_equals_its_oracle_with_weights(data, batches, n_workers, seed):
    # Weights whose n-th part has no exact binary form, and one that alone fills a worker.
    some = st.sampled_from([0.0, 0.1, 1.0, 2.0, 3.7, 50.0])
    weights = [
        np.array(data.draw(st.lists(some, min_size=len(keys), max_size=len(keys))), np.float64)
        for keys in batches
    ]
    assert_equal_to_the_oracle(batches, n_workers, seed, weights, tolerance=1e-9)


@pytest.mark.parametrize("n_workers", [*slow([4]), 16, *slow([64])])
@pytest.mark.parametrize("stream", STREAMS)
def test_it_equals_its_oracle_on_a_long_stream(stream, n_workers):
    batches = np.array_split(STREAMS[stream], [1, 1, 300, 2_500, 5_000, 12_000])
    assert_equal_to_the_oracle(batches, n_workers, 5)


def test_it_equals_its_oracle_where_a_batch_is_longer_than_a_block():
    oracle = assert_equal_to_the_oracle([skewed(2 * BLOCK + 1, z=1.0)], 16, 5)
    assert oracle.blocks == 3


def test_it_equals_its_oracle_when_faded_counts_are_scaled_down():
    # 0.8 to the 1548th is below 1e-150: then stored counts are divided, after so many epochs.
    batches = np.array_split(skewed(1_560 * 64, z=1.4), 1_560)
    oracle = assert_equal_to_the_oracle(batches, 1, 5)
    assert oracle.unit < 1e10
