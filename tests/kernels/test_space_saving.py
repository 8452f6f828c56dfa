from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.summaries import as_dict, offer_all, offered, offers, true_weights, zipf
from lanes import slow
from reference.kernels.space_saving import SpaceSavingReference
from skewless.kernels import space_saving as ss
from skewless.plumbing.compiling import JIT_OFF
from skewless.state import copy_state

#: A decay by a power of two is exact, as sums of the weights are.
halvings = st.sampled_from([0.5, 0.25, 1.0])


@settings(deadline=None, max_examples=100)
@given(capacity=st.integers(1, 9), steps=st.lists(st.one_of(offers, halvings), max_size=120))
def test_it_equals_the_oracle_on_any_stream(capacity: int, steps: list) -> None:
    summary, oracle = ss.space_saving(capacity), SpaceSavingReference(capacity)
    for step in steps:
        if isinstance(step, float):
            ss.decay(summary, step)
            oracle.decay(step)
        else:
            key, weight = step
            assert ss.offer(summary, np.uint64(key), weight) == float(oracle.offer(key, weight))
        assert ss.total(summary) == float(oracle.total)
    assert as_dict(summary) == oracle.as_dict()


@pytest.mark.parametrize("capacity", [1, 2, 5, 6, 22, 64, 300])
@pytest.mark.parametrize("z", [*slow([0.5]), 1.4])
@pytest.mark.parametrize("with_weights", [False, True])
def test_it_equals_the_oracle_on_a_long_stream(capacity: int, z: float, with_weights: bool) -> None:
    keys = zipf(z, n_keys=2000, n_records=4000, seed=capacity)
    rng = np.random.default_rng(capacity)
    weights = rng.integers(1, 9, keys.size) * 0.125 if with_weights else np.ones(keys.size)
    summary, oracle = ss.space_saving(capacity), SpaceSavingReference(capacity)
    estimates = np.empty(keys.size)
    offer_all(summary, keys, weights, estimates)
    expected = [
        float(oracle.offer(key, weight))
        for key, weight in zip(keys.tolist(), weights.tolist(), strict=True)
    ]
    assert estimates.tolist() == expected
    assert as_dict(summary) == oracle.as_dict()


def test_the_oldest_of_the_smallest_entries_leaves() -> None:
    summary = offered(3, np.array([1, 2, 3, 1, 2, 3, 2, 9], np.uint64))
    # 1 and 3 have two records each; 1 was updated before 3.
    assert as_dict(summary) == {2: (3.0, 0.0), 9: (3.0, 2.0), 3: (2.0, 0.0)}


@pytest.mark.parametrize("z", [0.8, 1.4])
@pytest.mark.parametrize("capacity", [50, 320])
@pytest.mark.parametrize("with_weights", [False, True])
def test_the_guarantee_holds(z: float, capacity: int, with_weights: bool) -> None:
    n_records = 5_000 if JIT_OFF else 200_000
    keys = zipf(z, n_keys=20_000, n_records=n_records, seed=7)
    weights = np.random.default_rng(7).integers(1, 50, keys.size) * 1.0
    weights = weights if with_weights else np.ones(keys.size)
    true = true_weights(keys, weights)
    summary = offered(capacity, keys, weights)
    found = as_dict(summary)
    most = weights.sum() / capacity
    assert ss.total(summary) == weights.sum()
    assert {key for key, weight in true.items() if weight > most} <= set(found)
    for key, (count, error) in found.items():
        assert true[key] <= count <= true[key] + error
        assert error <= most
    smallest = min(count for count, _ in found.values())
    assert all(weight <= smallest for key, weight in true.items() if key not in found)


def test_decay_equals_multiplying_every_counter() -> None:
    # Random weights leave no two counts so near that rounding could change who is evicted.
    rng = np.random.default_rng(3)
    summary, oracle = ss.space_saving(20), SpaceSavingReference(20)
    for key in zipf(0.9, n_keys=100, n_records=1500, seed=3):
        weight = float(rng.random())
        estimate = ss.offer(summary, key, weight)
        # Every addition and every epoch rounds once: a few thousand times 1.1e-16.
        assert estimate == pytest.approx(float(oracle.offer(int(key), weight)), rel=1e-12)
        if oracle.clock % 100 == 0:
            ss.decay(summary, 0.2)
            oracle.decay(0.2)
    expected = oracle.as_dict()
    assert as_dict(summary).keys() == expected.keys()
    for key, (count, error) in as_dict(summary).items():
        assert (count, error) == pytest.approx(expected[key], rel=1e-12)
    assert ss.total(summary) == pytest.approx(float(oracle.total), rel=1e-12)


def test_decay_may_go_on_for_ever() -> None:
    # Halving is exact, so floats that are halved round exactly like floats that are not.
    summary, oracle = ss.space_saving(8), SpaceSavingReference(8, number=float)
    rng = np.random.default_rng(4)
    for i, key in enumerate(zipf(0.7, n_keys=30, n_records=8000, seed=4).tolist()):
        weight = float(rng.random())
        assert ss.offer(summary, np.uint64(key), weight) == oracle.offer(key, weight)
        if i % 4 == 3:  # 2000 epochs: stored counts pass the largest unit three times
            ss.decay(summary, 0.5)
            oracle.decay(0.5)
        assert summary.unit[0] <= 1e200
    assert as_dict(summary) == oracle.as_dict()


def test_a_factor_of_one_does_not_decay() -> None:
    keys = zipf(1.0, n_keys=50, n_records=500, seed=5)
    summary = offered(10, keys)
    before = as_dict(summary)
    ss.decay(summary, 1.0)
    assert as_dict(summary) == before


def test_a_copy_goes_on_like_the_original() -> None:
    keys = zipf(0.8, 500, 2000, seed=10)
    summary = offered(40, keys[:1000])
    copy = copy_state(summary)
    for one in (summary, copy):
        offer_all(one, keys[1000:], np.ones(1000), np.empty(1000))
    assert as_dict(summary) == as_dict(copy)


def test_entries_come_largest_first() -> None:
    _, counts, errors = ss.entries(offered(30, zipf(1.0, 300, 2000, seed=11)))
    assert (np.diff(counts) <= 0).all()
    assert (errors <= counts).all()


def test_a_factor_of_zero_forgets_all_counts_and_keeps_the_places() -> None:
    summary = ss.space_saving(2)
    for key in [7, 7, 8]:
        ss.offer(summary, np.uint64(key), 1.0)
    ss.decay(summary, 0.0)
    assert as_dict(summary) == {7: (0.0, 0.0), 8: (0.0, 0.0)}
    assert ss.total(summary) == 0.0
    ss.offer(summary, np.uint64(9), 1.0)  # takes the place of the older one
    assert as_dict(summary) == {9: (1.0, 0.0), 8: (0.0, 0.0)}


def test_a_capacity_below_1_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="capacity must be an integer of at least 1, not 0"):
        ss.space_saving(0)
