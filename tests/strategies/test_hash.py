import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import hash as reference
from skewless.strategies import Hash
from strategies.streams import as_keys, routed, skewed, some_keys, some_seeds, some_workers

DISTINCT = np.arange(5_000, dtype=np.uint64)


@settings(deadline=None)
@given(keys=some_keys, n_workers=some_workers, seed=some_seeds)
def test_it_equals_its_oracle(keys, n_workers, seed):
    expected = reference.route(keys, n_workers, seed)
    assert routed(Hash(), as_keys(keys), n_workers, seed).tolist() == expected


@settings(deadline=None, max_examples=40)
@given(keys=some_keys, n_workers=some_workers, seed=some_seeds, virtual_nodes=st.integers(1, 20))
def test_the_ring_equals_its_oracle(keys, n_workers, seed, virtual_nodes):
    parameters = {"ring": True, "virtual_nodes": virtual_nodes}
    expected = reference.route(keys, n_workers, seed, **parameters)
    assert routed(Hash(**parameters), as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.parametrize("parameters", [{}, {"ring": True, "virtual_nodes": 16}])
def test_it_equals_its_oracle_on_a_long_stream(parameters):
    keys = skewed()
    expected = reference.route(keys, 13, 5, **parameters)
    assert routed(Hash(**parameters), keys, 13, 5).tolist() == expected


def test_all_sources_agree_and_other_seeds_do_not():
    one = routed(Hash(), DISTINCT, 16, 1, source=0)
    np.testing.assert_array_equal(one, routed(Hash(), DISTINCT, 16, 1, source=3))
    # Two independent choices among 16 agree on 1/16; binomial, four standard deviations.
    agreement = (one == routed(Hash(), DISTINCT, 16, 2)).mean()
    assert agreement == pytest.approx(1 / 16, abs=4 * np.sqrt(1 / 16 / DISTINCT.size))


def test_keys_spread_evenly():
    loads = np.bincount(routed(Hash(), DISTINCT, 64, 3), minlength=64)
    # Poisson in each of 64: 4.5 standard deviations for the largest of them.
    assert np.abs(loads - loads.mean()).max() < 4.5 * np.sqrt(loads.mean())


def where(state, strategy):
    out = np.full(DISTINCT.size, -1, np.int32)
    strategy.route(DISTINCT, state, out)
    return out


@pytest.mark.parametrize(("before", "after"), [(5, 6), (6, 5), (20, 23)])
def test_on_the_ring_only_joining_and_leaving_workers_take_and_give(before, after):
    strategy = Hash(ring=True)
    state = strategy.start(before, 4)
    old = where(state, strategy)
    new = where(strategy.rescale(state, after), strategy)
    moved = old != new
    assert moved.any()
    assert (np.maximum(old, new)[moved] >= min(before, after)).all()
    np.testing.assert_array_equal(new, where(strategy.start(after, 4), strategy))


def test_on_the_ring_a_faster_joining_worker_only_takes():
    strategy = Hash(ring=True)
    state = strategy.start(4, 4)
    old = where(state, strategy)
    new = where(strategy.rescale(state, 5, np.array([1.0, 1.0, 1.0, 1.0, 2.0])), strategy)
    assert (new[old != new] == 4).all()
    # Its share is 2/6; with 256 points of 768, four standard deviations are 4·√(1 − 1/3)/16 of it.
    assert (new == 4).mean() == pytest.approx(1 / 3, rel=0.2)


def test_without_the_ring_half_of_the_keys_move():
    strategy = Hash()
    state = strategy.start(8, 4)
    moved = where(state, strategy) != where(strategy.rescale(state, 9), strategy)
    # Range w of 8 and range w of 9 overlap in (8 − w)/72 of all hashes, half of them in all.
    assert moved.mean() == pytest.approx(0.5, abs=0.03)  # four standard deviations


def test_parameters_out_of_range_are_refused_by_name():
    with pytest.raises(ValueError, match="virtual_nodes"):
        Hash(virtual_nodes=0)
