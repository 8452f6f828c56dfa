import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import metrics

LOADS = st.lists(st.integers(0, 10**9), min_size=1, max_size=50)


@given(LOADS)
def test_imbalance_is_how_far_the_heaviest_is_above_the_mean(loads):
    mean = sum(loads) / len(loads)
    expected = (max(loads) - mean) / mean if mean else 0.0
    # One division, a few roundings of it: relative to max/mean, which may be 50.
    assert metrics.imbalance(loads) == pytest.approx(expected, abs=1e-13 * len(loads))


@given(LOADS, st.integers(1, 100))
def test_only_ratios_of_capacities_count(loads, factor):
    capacities = 1.0 + np.arange(len(loads))
    assert metrics.imbalance(loads, capacities) == pytest.approx(
        metrics.imbalance(loads, factor * capacities), rel=1e-12
    )


def test_loads_in_proportion_to_capacities_are_balanced():
    assert metrics.imbalance([10, 20, 70], capacities=[1, 2, 7]) == pytest.approx(0, abs=1e-15)


def test_nothing_is_balanced():
    assert metrics.imbalance([0, 0, 0]) == 0.0
    assert metrics.replication(0, 0) == metrics.replication_limit(5, 0) == 1.0


def test_one_worker_is_perfect():
    assert metrics.imbalance([17]) == 0.0
    assert metrics.replication_limit(1, 100) == 1.0


def test_makespan_is_perfect_when_every_window_is():
    assert metrics.makespan_ratio([30, 60], [10.0, 20.0], [3.0, 3.0]) == 1.0


def test_a_worker_twice_as_fast_counts_double():
    assert metrics.makespan_ratio([30], [10.0], [3.0]) == 1.0


def test_standard_deviation_of_loads():
    assert metrics.load_stddev([2, 4, 4, 4, 5, 5, 7, 9]) == 2.0
