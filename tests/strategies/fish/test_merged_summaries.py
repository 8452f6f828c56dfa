"""Several summaries of keys become one, as FISH merges what its sources know."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.summaries import as_dict, offer_all, offered, offers, true_weights, zipf
from reference.kernels.space_saving import SpaceSavingReference, merged_reference
from skewless.arrays import Keys
from skewless.kernels import space_saving as ss
from skewless.kernels.hashing import mix
from skewless.state import copy_state, named_arrays
from skewless.strategies.fish.key_frequencies import merged_summary


@settings(deadline=None, max_examples=50)
@given(
    streams=st.lists(st.lists(offers, max_size=40), min_size=1, max_size=4),
    capacity=st.integers(1, 6),
    spare=st.integers(0, 3),
)
def test_merge_equals_the_oracle(streams: list, capacity: int, spare: int) -> None:
    summaries, oracles = [], []
    for stream in streams:
        summary, oracle = ss.space_saving(capacity + spare), SpaceSavingReference(capacity + spare)
        for key, weight in stream:
            ss.offer(summary, np.uint64(key), weight)
            oracle.offer(key, weight)
        summaries.append(summary)
        oracles.append(oracle)
    merged = merged_summary(summaries, capacity)
    assert as_dict(merged) == merged_reference(oracles, capacity)
    assert ss.total(merged) == float(sum(oracle.total for oracle in oracles))


def test_merge_does_not_depend_on_the_order_of_summaries() -> None:
    rng = np.random.default_rng(12)
    summaries = []
    for seed in range(4):
        keys = zipf(0.8, 60, 700, seed=1) if seed % 2 else zipf(0.5, 60, 700, seed=1)[::-1].copy()
        summaries.append(offered(20, keys, rng.random(keys.size)))
        ss.decay(summaries[-1], 0.3 + 0.1 * seed)
    before = [copy_state(summary) for summary in summaries]
    results = [merged_summary(order, 20) for order in itertools.permutations(summaries)]
    for result in results[1:]:
        for (name, array), (_, first) in zip(
            named_arrays(result), named_arrays(results[0]), strict=True
        ):
            np.testing.assert_array_equal(array, first, err_msg=name)
    for summary, old in zip(summaries, before, strict=True):
        for (name, array), (_, kept) in zip(named_arrays(summary), named_arrays(old), strict=True):
            np.testing.assert_array_equal(array, kept, err_msg=name)


def test_the_guarantee_survives_merging_and_more_records() -> None:
    capacity = 100
    streams = [zipf(z, 5000, 8000, seed=13) for z in (0.6, 0.9, 1.2, 1.2)]
    streams[3] = mix_all(streams[3])  # other hot keys than the others'
    later = zipf(1.0, 5000, 8000, seed=14)
    merged = merged_summary([offered(capacity, keys) for keys in streams], capacity)
    everything = np.concatenate(streams)
    for keys in (everything, np.concatenate([everything, later])):
        if keys.size > everything.size:
            offer_all(merged, later, np.ones(later.size), np.empty(later.size))
        true, found = true_weights(keys), as_dict(merged)
        most = keys.size / capacity
        assert ss.total(merged) == keys.size
        assert {key for key, weight in true.items() if weight > most} <= set(found)
        for key, (count, error) in found.items():
            assert true.get(key, 0.0) <= count <= true.get(key, 0.0) + error
            assert error <= most


def mix_all(keys: Keys) -> Keys:
    return np.array([mix(key) for key in keys], np.uint64)


def test_means_of_equal_summaries_are_the_same_to_the_last_bit() -> None:
    summary = ss.space_saving(5)
    for key in [1, 1, 1, 2, 2, 3]:
        ss.offer(summary, np.uint64(key), 0.1)
    for n in (2, 3, 7):
        mean = merged_summary([summary] * n, 5, np.arange(1.0, n + 1))
        assert as_dict(mean) == as_dict(summary)
        assert ss.total(mean) == ss.total(summary)


def test_means_go_by_weight_and_a_weight_of_zero_counts_nothing() -> None:
    one, other, empty = (ss.space_saving(5) for _ in range(3))
    for key in [1, 1, 1, 1]:
        ss.offer(one, np.uint64(key), 1.0)
    for key in [1, 2, 2, 2, 2, 2, 2, 2]:
        ss.offer(other, np.uint64(key), 1.0)
    mean = merged_summary([one, other, empty], 5, np.array([3.0, 1.0, 0.0]))
    assert as_dict(mean) == {1: (3.25, 0.0), 2: (1.75, 0.0)}
    assert ss.total(mean) == 5.0
