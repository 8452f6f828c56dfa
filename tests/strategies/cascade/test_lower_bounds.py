import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.least_loaded import least_loaded
from skewless.strategies.cascade.filling import least_of_rising, lower_bounds, renew_bounds


@settings(deadline=None)
@given(
    start=st.lists(st.sampled_from([-1.5, 0.0, 0.5, 2.0]), min_size=1, max_size=9),
    # Worker to raise and by how much; None: the least loaded one, by one.
    raises=st.lists(
        st.none() | st.tuples(st.integers(0, 8), st.sampled_from([0.0, 0.5, 1.0])), max_size=60
    ),
)
def test_lower_bounds_lead_to_the_first_of_the_least_loads(start, raises):
    loads = np.array(start)
    bounds = lower_bounds(loads)
    for raised in raises:
        found = least_of_rising(bounds, loads)
        assert found == least_loaded(loads)
        if raised is None:
            loads[found] += 1.0
        else:
            loads[raised[0] % loads.size] += raised[1]
    loads[0] -= 5.0
    renew_bounds(bounds, loads)
    assert least_of_rising(bounds, loads) == 0


@pytest.mark.parametrize("share_of_least", [0.0, 0.1, 1.0])
def test_lower_bounds_are_corrected_no_more_often_than_loads_rise(share_of_least):
    rng = np.random.default_rng(3)
    loads = np.zeros(50)
    bounds = lower_bounds(loads)
    n_corrections = 0
    for total in range(2_000):
        before = bounds[-64:].copy()
        found = least_of_rising(bounds, loads)
        assert found == least_loaded(loads)
        n_corrections += np.count_nonzero(bounds[-64:] != before)
        assert n_corrections <= total
        loads[found if rng.random() < share_of_least else rng.integers(50)] += 1.0


def test_damaged_bounds_do_not_stop_it():
    loads = np.array([3.0, 1.0, 2.0])
    for damage in (np.nan, np.inf, -np.inf):
        assert 0 <= least_of_rising(np.full(8, damage), loads) < 3
        assert 0 <= least_of_rising(lower_bounds(loads), np.full(3, damage)) < 3
