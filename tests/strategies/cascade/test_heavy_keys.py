from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import needs_a_long_stream
from skewless.arrays import F64, Floats, Keys
from skewless.kernels.hashing import mix
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade import heavy_keys as hk

some_keys = st.lists(st.integers(0, 40) | st.sampled_from([2**63, 2**64 - 1]), max_size=300)


@kernel
def offer_all(heavy: hk.HeavyKeys, keys: Keys, chances: Floats) -> None:
    for i in range(keys.size):
        first = hk.first_place(heavy, mix(keys[i]))
        place = hk.find(heavy, first, keys[i])
        if place == hk.ABSENT:
            hk.admit(heavy, first, keys[i], heavy.unit[0], chances[i])
        else:
            heavy.counts[place] += heavy.unit[0]


@kernel
def fade_all(heavy: hk.HeavyKeys, factor: F64) -> bool:
    return hk.fade(heavy, factor)


def offered(n_keys: int, keys: Keys, seed: int = 0) -> hk.HeavyKeys:
    heavy = hk.heavy_keys(n_keys)
    offer_all(heavy, keys, np.random.default_rng(seed).random(keys.size))
    return heavy


def as_dict(heavy: hk.HeavyKeys) -> dict[int, float]:
    used = heavy.counts > 0
    assert np.unique(heavy.keys[used]).size == used.sum(), "a key has two places"
    counts = heavy.counts[used] / heavy.unit[0]
    return dict(zip(heavy.keys[used].tolist(), counts.tolist(), strict=True))


@settings(deadline=None)
@given(keys=some_keys, n_keys=st.sampled_from([1, 8, 9, 32]), seed=st.integers(0, 99))
def test_it_equals_lists_of_eight(keys, n_keys, seed):
    n_buckets = {1: 1, 8: 1, 9: 2, 32: 4}[n_keys]
    buckets = [[[0, 0.0] for _ in range(8)] for _ in range(n_buckets)]
    chances = np.random.default_rng(seed).random(len(keys))
    for key, chance in zip(keys, chances.tolist(), strict=True):
        bucket = buckets[int(mix(np.uint64(key))) % n_buckets]
        own = [entry for entry in bucket if entry[0] == key and entry[1] > 0]
        smallest = min(bucket, key=lambda entry: entry[1])
        if own:
            own[0][1] += 1.0
        elif chance * (smallest[1] + 1.0) < 1.0:
            smallest[:] = [key, smallest[1] + 1.0]
    heavy = offered(n_keys, np.array(keys, np.uint64), seed)
    expected = [entry for bucket in buckets for entry in bucket]
    # The bucket behind them is one that no key comes to.
    expected += [[0, 0.0]] * 8
    assert heavy.keys.tolist() == [entry[0] for entry in expected]
    assert heavy.counts.tolist() == [entry[1] for entry in expected]


@pytest.mark.parametrize("n_keys", [1, 8, 16, 100, 4_096])
def test_key_0_is_not_found_where_places_are_empty(n_keys):
    heavy = hk.heavy_keys(n_keys)
    assert heavy.keys.size >= n_keys
    for first in range(0, heavy.keys.size, hk.PLACES):
        assert hk.find(heavy, first, np.uint64(0)) == hk.ABSENT
    last = heavy.keys.size - hk.PLACES
    assert hk.admit(heavy, last, np.uint64(0), 1.0, 0.99) == last
    assert hk.find(heavy, last, np.uint64(0)) == last


def test_all_that_is_counted_is_in_some_count():
    # Whoever takes a place takes its count along: only refused records are not counted.
    keys = np.random.default_rng(3).integers(0, 9, 5_000).astype(np.uint64)
    heavy = offered(9 * 8, keys)
    assert as_dict(heavy) == dict(zip(*np.unique(keys, return_counts=True), strict=True))


@needs_a_long_stream
def test_a_heavy_key_is_found_with_high_probability():
    # Shares of 1/(2 · places), among keys that are hardly ever seen twice. In a bucket of eight
    # such a key has 1/16 of the bucket's records; the seeds are fixed, and of 20 · 16 heavy keys
    # one in fifty may be missing at the end, as it can just have been pushed out.
    n_places, n_heavy, found = 128, 16, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        names = rng.integers(0, 2**64, n_heavy, np.uint64)
        one_timers = rng.integers(0, 2**64, 100_000, np.uint64)
        share = rng.random(one_timers.size)
        rank = np.minimum((share * 2 * n_places).astype(np.int64), n_heavy)
        keys = np.where(rank < n_heavy, names[np.minimum(rank, n_heavy - 1)], one_timers)
        counted = as_dict(offered(n_places, keys, seed))
        found += sum(int(name) in counted for name in names)
    assert found >= 0.98 * 20 * n_heavy


def test_one_timers_hardly_push_out_a_key_that_is_gone():
    # With counts c in all eight places it takes about c records to push one out.
    counted = np.repeat(np.arange(1, 9, dtype=np.uint64), 1_000)
    heavy = hk.heavy_keys(8)
    one_timers = np.arange(100, 200, dtype=np.uint64)
    keys = np.concatenate([counted, one_timers])
    offer_all(heavy, keys, np.random.default_rng(1).random(keys.size))
    assert len(set(as_dict(heavy)) & set(range(1, 9))) >= 7


@pytest.mark.parametrize("factor", [1.0, 0.8, 0.5])
def test_fade_multiplies(factor):
    heavy = offered(16, np.random.default_rng(0).integers(0, 20, 500).astype(np.uint64))
    before = as_dict(heavy)
    for _ in range(3):
        assert not fade_all(heavy, factor)
    # Three divisions and one more, each off by 2^-53 at most.
    assert as_dict(heavy) == pytest.approx({k: c * factor**3 for k, c in before.items()}, rel=1e-15)


def test_fade_scales_stored_counts_before_they_overflow():
    heavy = offered(8, np.repeat(np.arange(3, dtype=np.uint64), [4, 2, 1]))
    scaled = [fade_all(heavy, 0.5) for _ in range(1_000)]
    # 2^499 is above 10^150 and 2^498 is not. Then the unit is 1 again.
    assert np.flatnonzero(scaled).tolist() == [498, 997]
    offer_all(heavy, np.full(5, 7, np.uint64), np.zeros(5))
    assert as_dict(heavy)[7] == 5.0
    assert np.isfinite(heavy.counts).all()


def sources() -> tuple[list[hk.HeavyKeys], list[np.ndarray]]:
    heavies, marks = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        heavy = offered(32, (rng.zipf(1.2, 3_000) % 1_000).astype(np.uint64), seed)
        for _ in range(seed):
            fade_all(heavy, 0.8)
        heavies.append(heavy)
        marks.append(rng.integers(1, 9, heavy.keys.size))
    return heavies, marks


def test_merged_buckets_hold_the_largest_sums_and_the_largest_marks():
    heavies, marks = sources()
    merged, merged_marks = hk.largest_together(heavies, marks)
    for first in range(0, 32, hk.PLACES):
        bucket = slice(first, first + hk.PLACES)
        sums: dict[int, float] = {}
        largest: dict[int, int] = {}
        for heavy, mark in zip(heavies, marks, strict=True):
            counts = heavy.counts[bucket] / heavy.unit[0]
            for key, count, m in zip(
                heavy.keys[bucket].tolist(), counts.tolist(), mark[bucket].tolist(), strict=True
            ):
                if count > 0:
                    sums[key] = sums.get(key, 0.0) + count
                    largest[key] = max(largest.get(key, 0), m)
        expected = sorted(sums, key=lambda key: -sums[key])[: hk.PLACES]
        assert len(sums) > hk.PLACES
        # Sums of three in another order, so the last bits may differ.
        assert sorted(merged.counts[bucket].tolist(), reverse=True) == pytest.approx(
            [sums[key] for key in expected], rel=1e-14
        )
        for key, m in zip(merged.keys[bucket].tolist(), merged_marks[bucket], strict=True):
            assert m == largest[key]


def test_merging_does_not_depend_on_the_order():
    heavies, marks = sources()
    results = []
    for order in itertools.permutations(range(3)):
        merged, merged_marks = hk.largest_together(
            [heavies[i] for i in order], [marks[i] for i in order]
        )
        results.append((merged.keys.tolist(), merged.counts.tolist(), merged_marks.tolist()))
    assert all(result == results[0] for result in results)


def test_nothing_merged_is_nothing():
    empty = hk.heavy_keys(8)
    merged, marks = hk.largest_together([empty, empty], [np.ones(8, np.int64)] * 2)
    assert as_dict(merged) == {}
    assert marks.tolist() == [1] * 8
