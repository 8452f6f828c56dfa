"""Counts in fixed memory: exact while keys fit, never too high, and too low by a known bound."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.spark.bounded_counts import BoundedCountsReference
from skewless.spark.routing.bounded_counts import LOWERED, add, bounded_counts, heaviest
from skewless.state import state_bytes

some_keys = st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 2**63, 2**64 - 1]), max_size=60)


def found(counts, n_keys=1 << 20):
    keys, amounts = heaviest(counts, n_keys)
    return dict(zip(keys.tolist(), amounts.tolist(), strict=True))


@settings(deadline=None)
@given(keys=some_keys, n_kept=st.integers(1, 5), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_it_equals_its_oracle_however_the_records_are_cut(keys, n_kept, cuts):
    counts, oracle = bounded_counts(n_kept), BoundedCountsReference(n_kept)
    for part in np.split(np.array(keys, np.uint64), sorted(cuts)):
        add(counts, part)
    for key in keys:
        oracle.add(key, 1)
    assert found(counts) == oracle.counts
    assert found(counts, 2) == dict(oracle.heaviest(2))


@settings(deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=40),
    n_kept=st.integers(1, 4),
)
def test_amounts_equal_the_oracle_and_their_bound(pairs, n_kept):
    counts, oracle, exact = bounded_counts(n_kept), BoundedCountsReference(n_kept), Counter()
    add(
        counts,
        np.array([k for k, _ in pairs], np.uint64),
        np.array([a for _, a in pairs], np.int64),
    )
    for key, amount in pairs:
        oracle.add(key, amount)
        exact[key] += amount
    assert found(counts) == oracle.counts
    lowered = int(counts.numbers[LOWERED])
    assert lowered * n_kept <= sum(exact.values())
    for key, amount in exact.items():
        assert amount - lowered <= found(counts).get(key, 0) <= amount


def test_up_to_twice_the_keys_that_stay_are_exact():
    counts = bounded_counts(50)
    keys = np.repeat(np.arange(100, dtype=np.uint64), np.arange(1, 101))
    add(counts, np.random.default_rng(0).permutation(keys))
    assert found(counts) == {key: key + 1 for key in range(100)}


def test_memory_does_not_grow_with_the_keys():
    counts = bounded_counts(64)
    before = state_bytes(counts)
    for part in np.array_split(np.arange(20_000, dtype=np.uint64), 7):
        add(counts, part)
    assert state_bytes(counts) == before
    assert len(found(counts)) <= 128


@pytest.mark.parametrize("n_kept", [8, 100])
def test_heavy_keys_are_found_among_many_that_occur_once(n_kept):
    rng = np.random.default_rng(1)
    once = np.arange(1_000, 21_000, dtype=np.uint64)
    heavy = np.repeat(np.arange(4, dtype=np.uint64), 5_000)
    counts = bounded_counts(n_kept)
    add(counts, rng.permutation(np.concatenate([once, heavy])))
    keys, amounts = heaviest(counts, 4)
    assert keys.tolist() == [0, 1, 2, 3]
    assert amounts.min() >= 5_000 - 40_000 // n_kept
