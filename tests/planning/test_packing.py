"""The packing of counted keys: few splits, little imbalance, nothing lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.metrics import imbalance
from skewless.planning import KeyCounts, Packed, pack
from skewless.planning.packing import buckets_of, first_homes, listed_per_bucket


def counted(loads: Any, n: int, capacities: Any = None, seed: int = 0) -> KeyCounts:
    """Count keys of these loads as an engine does: the heaviest keys of every bucket."""
    loads = np.asarray(loads, np.float64)
    hashes = np.random.default_rng(seed).integers(0, 2**64, loads.size, np.uint64)
    n_buckets = first_homes(n, capacities).size
    buckets = buckets_of(hashes, n_buckets)
    order = np.lexsort((hashes, -loads))
    seen: dict[int, int] = {}
    listed = []
    for key in order.tolist():
        seen[int(buckets[key])] = seen.get(int(buckets[key]), 0) + 1
        if seen[int(buckets[key])] <= listed_per_bucket(n_buckets):
            listed.append(key)
    sums = np.bincount(buckets, loads, n_buckets)
    return KeyCounts(hashes[listed], loads[listed], sums, loads.size)


def recounted(counts: KeyCounts, packed: Packed, n: int) -> np.ndarray:
    """Return the loads from the homes and the table alone."""
    buckets = buckets_of(counts.hashes, packed.homes.size)
    rests = counts.buckets.copy()
    loads = np.zeros(n)
    for key, pieces in packed.placed:
        rests[buckets[key]] -= counts.loads[key]
        for worker, share in pieces:
            loads[worker] += share * counts.loads[key]
    return loads + np.bincount(packed.homes, rests, n)


KEY_LOADS = st.lists(st.integers(0, 10**6) | st.integers(0, 50), max_size=300)
CAPACITIES = st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=24)


@settings(max_examples=300, deadline=None)
@given(
    KEY_LOADS,
    st.integers(1, 40),
    CAPACITIES,
    st.sampled_from([0.0, 0.01, 0.05, 0.5]),
    st.integers(0, 9),
    st.booleans(),
)
def test_any_keys_are_packed(
    loads: list[int], n: int, capacities: Any, tolerance: float, seed: int, whole: bool
) -> None:
    if capacities is not None:
        capacities = capacities if any(capacities) else [*capacities, 1.0]
        n = len(capacities)
    counts = counted(loads, n, capacities, seed)
    packed = pack(counts, n, capacities, tolerance, whole_keys=whole)
    assert packed.n_splits <= (0 if whole else n - 1)
    for _, pieces in packed.placed:
        assert sum(share for _, share in pieces) == pytest.approx(1.0)
        assert len({worker for worker, _ in pieces}) == len(pieces)
        assert all(0 <= worker < n and share > 0 for worker, share in pieces)
    np.testing.assert_allclose(packed.loads, recounted(counts, packed, n), atol=1e-3)
    assert packed.loads.sum() == pytest.approx(sum(loads))
    if capacities is not None:
        assert not packed.loads[np.asarray(capacities) == 0].any()
    again = pack(counts, n, capacities, tolerance, whole_keys=whole)
    assert packed.placed == again.placed
    assert (packed.homes == again.homes).all()
    # What stays in a bucket cannot be cut. All else can, so the tolerance holds.
    speeds = np.ones(n) if capacities is None else np.asarray(capacities)
    fair = sum(loads) * speeds[speeds > 0].min() / speeds.sum()
    rests = counts.buckets.copy()
    is_heavy = counts.loads >= sum(loads) * speeds.max() / speeds.sum() / 64
    at = buckets_of(counts.hashes, rests.size)[is_heavy]
    np.subtract.at(rests, at, counts.loads[is_heavy])
    if not whole and rests.max(initial=0.0) <= tolerance * fair:
        assert imbalance(packed.loads, capacities) <= tolerance + 1e-6


@pytest.mark.parametrize("n", [16, 32, 128])
@pytest.mark.parametrize("z", [0.8, 1.0, 1.3, 2.0])
def test_of_many_keys_only_those_too_heavy_for_one_worker_are_split(n: int, z: float) -> None:
    loads = np.floor(1e8 * np.arange(1, 200_001) ** -z) + 1
    counts = counted(loads, n)
    packed = pack(counts, n)
    fair = loads.sum() / n
    split = sorted(counts.loads[key] for key, pieces in packed.placed if len(pieces) > 1)
    assert split == sorted(loads[loads > 1.05 * fair])
    assert imbalance(packed.loads) <= 0.05
    assert len(packed.placed) <= 64 * n


def test_a_key_is_split_into_as_few_pieces_as_it_needs() -> None:
    loads = np.concatenate([[3.4e6], np.full(96_600, 1e3)])  # 3.4 of the fair shares of 100 workers
    packed = pack(counted(loads, 100), 100)
    assert [len(pieces) for _, pieces in packed.placed] == [4]


def test_a_key_that_fits_whole_on_no_worker_is_split_although_it_is_not_too_heavy_for_one() -> None:
    counts = counted(np.full(17, 100.0), 16)
    packed = pack(counts, 16)
    assert [len(pieces) for _, pieces in packed.placed if len(pieces) > 1] == [16]
    assert imbalance(packed.loads) <= 0.05
    assert pack(counts, 16, whole_keys=True).n_splits == 0


def test_nothing_moves_if_the_hash_is_balanced_already() -> None:
    loads = np.ones(500_000)
    counts = counted(loads, 16)
    packed = pack(counts, 16)
    assert not packed.placed
    assert (packed.homes == first_homes(16)).all()


def test_no_keys_one_key_and_one_worker() -> None:
    assert pack(counted([], 5), 5).loads.tolist() == [0.0] * 5
    alone = pack(counted([60.0], 5), 5)
    assert alone.loads == pytest.approx(np.full(5, 12.0))
    assert alone.n_splits == 4
    assert pack(counted([60.0, 1.0], 1), 1).loads.tolist() == [61.0]
    whole = pack(counted([60.0], 5), 5, whole_keys=True)
    assert sorted(whole.loads.tolist()) == [0, 0, 0, 0, 60]


def test_light_keys_leave_a_bucket_that_is_too_full() -> None:
    """A small tolerance needs more than buckets: listed keys move one by one."""
    loads = np.random.default_rng(3).integers(1, 9, 2_000)
    counts = counted(loads, 8)
    loose, tight = pack(counts, 8, tolerance=0.1), pack(counts, 8, tolerance=0.003)
    assert len(loose.placed) <= len(tight.placed)
    assert imbalance(tight.loads) <= 0.003
