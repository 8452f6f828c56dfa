from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.strategies.dalton.key_counts import (
    count,
    count_of,
    exact_counts,
    forget_counts,
    hybrid_counts,
    sketched_counts,
)

keys_of_a_period = st.lists(st.sampled_from([0, 1, 2, 3, 4, 2**63, 2**64 - 1]), max_size=40)


@settings(deadline=None)
@given(periods=st.lists(keys_of_a_period, max_size=4))
def test_exact_counts_are_exact_and_begin_again(periods):
    counts = exact_counts(7)
    for period in periods:
        expected = Counter()
        for key in period:
            expected[key] += 1
            assert count(counts, np.uint64(key)) == expected[key]
        assert counts.counters[0]["n_keys"] == len(expected)
        assert all(count_of(counts, np.uint64(key)) == n for key, n in expected.items())
        assert count_of(counts, np.uint64(99)) == 0
        forget_counts(counts)


@settings(deadline=None)
@given(periods=st.lists(keys_of_a_period, max_size=4))
def test_no_estimate_is_below_the_count(periods):
    for counts in (sketched_counts(0.05, 0.05, 1), hybrid_counts(3, 0.05, 0.05, 1)):
        for period in periods:
            expected = Counter()
            for key in period:
                expected[key] += 1
                assert count(counts, np.uint64(key)) >= expected[key]
            assert all(count_of(counts, np.uint64(key)) >= n for key, n in expected.items())
            forget_counts(counts)


def test_the_mixture_sketches_after_a_period_of_many_keys():
    counts = hybrid_counts(3, 0.01, 0.01, 1)
    sketches = []
    for n_keys in (3, 4, 9, 2, 2):
        for key in range(n_keys):
            count(counts, np.uint64(key))
        forget_counts(counts)
        sketches.append(int(counts.counters[0]["sketches"]))
    assert sketches == [0, 1, 1, 0, 0]


def test_keys_that_find_the_table_full_are_counted_by_the_sketch():
    counts = hybrid_counts(2, 0.01, 0.01, 1)
    for key in [1, 2, 3, 3, 3, 1]:
        count(counts, np.uint64(key))
    assert [count_of(counts, np.uint64(key)) for key in (1, 2, 3, 4)] == [2, 1, 3, 0]


def test_without_a_sketch_they_count_as_met_once():
    counts = exact_counts(1)
    assert [count(counts, np.uint64(key)) for key in [1, 2, 2, 1]] == [1, 1, 1, 2]
