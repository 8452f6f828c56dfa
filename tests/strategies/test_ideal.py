import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import ideal as reference
from skewless.checks import check_strategy
from skewless.strategies.ideal import Ideal
from strategies.streams import (
    as_keys,
    drifting,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
    workers_by_key,
)


def routed_in_batches(batches, n_workers, seed):
    strategy = Ideal()
    state = strategy.start(n_workers, seed)
    for keys in batches:
        out = np.full(len(keys), -1, np.int32)
        strategy.route(as_keys(keys), state, out)
        yield out, state


@settings(deadline=None)
@given(batches=st.lists(some_keys, max_size=4), n_workers=some_workers, seed=some_seeds)
def test_it_equals_its_oracle(batches, n_workers, seed):
    loads = [0] * n_workers
    found = routed_in_batches(batches, n_workers, seed)
    for keys, (out, _) in zip(batches, found, strict=True):
        assert out.tolist() == reference.route_batch(keys, loads, seed)


@pytest.mark.parametrize("keys", [skewed(), drifting()], ids=["skewed", "drifting"])
@pytest.mark.parametrize("n_workers", [1, 7, 128])
def test_loads_differ_by_one_and_every_batch_has_at_most_n_minus_1_splits(keys, n_workers):
    batches = np.array_split(keys, [50, 51, 400, 5_000])
    for batch, (out, state) in zip(batches, routed_in_batches(batches, n_workers, 3), strict=True):
        assert np.ptp(state.loads) <= 1
        replicas = workers_by_key(batch, out).values()
        assert sum(len(workers) - 1 for workers in replicas) <= n_workers - 1


def test_a_key_keeps_its_worker_from_batch_to_batch_unless_it_is_near_a_cut():
    keys = np.random.default_rng(1).integers(0, 1_000, 40_000)
    (first, _), (second, _) = routed_in_batches(np.array_split(keys, 2), 8, 3)
    before = workers_by_key(keys[:20_000], first)
    after = workers_by_key(keys[20_000:], second)
    kept = np.mean([bool(before[key] & after[key]) for key in before if key in after])
    # A cut moves by the noise of how many records lie before it, at most √(20,000)/2 = 71 records
    # on average, 3.5 keys of 20 records each: 7 cuts of 1,000 keys, three deviations of each.
    assert kept > 1 - 7 * 3 * 3.5 / 1_000


def test_it_keeps_the_contract():
    assert check_strategy(Ideal())
