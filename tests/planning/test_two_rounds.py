"""Packing for two rounds: each is balanced by itself, and split keys have few pieces."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.metrics import imbalance
from skewless.planning.packing import KeyCounts, buckets_of, first_homes, pack_two_rounds


def zipf_counts(z: float, n_keys: int, n_workers: int, capacities: list[float] | None) -> KeyCounts:
    hashes = np.random.default_rng(5).integers(0, 2**63, n_keys).astype(np.uint64)
    loads = np.round(1e6 * np.arange(1, n_keys + 1) ** -z)
    n_buckets = first_homes(n_workers, capacities).size
    buckets = np.bincount(buckets_of(hashes, n_buckets), loads, n_buckets)
    return KeyCounts(hashes, loads, buckets, n_keys)


@pytest.mark.parametrize("z", [0.0, 0.8, 1.0, 1.4, 2.0])
@pytest.mark.parametrize("capacities", [None, [1.0] * 8 + [2.0] * 7 + [0.0]])
def test_each_round_is_balanced(z: float, capacities: list[float] | None) -> None:
    counts = zipf_counts(z, 5_000, 16, capacities)
    packed, first = pack_two_rounds(counts, 16, capacities)
    of_split = np.zeros(16)
    n_pieces = n_split = 0
    for key, pieces in packed.placed:
        assert sum(piece.share for piece in pieces) == pytest.approx(1.0)
        assert len({piece.worker for piece in pieces}) == len(pieces)
        assert len(pieces) == 1 or key in first
        if key in first:
            n_split, n_pieces = n_split + 1, n_pieces + len(pieces)
            for piece in pieces:
                of_split[piece.worker] += piece.share * counts.loads[key]
    whole = packed.loads - of_split
    assert packed.loads.sum() == pytest.approx(counts.buckets.sum())
    assert imbalance(whole, capacities) <= 0.05 + 1e-9
    if n_split:
        assert imbalance(of_split, capacities) < 1e-6
    assert n_pieces <= 16 + n_split
    assert (n_split > 0) == (z > 0.8)


def test_a_single_key_is_on_all_workers() -> None:
    packed, _ = pack_two_rounds(zipf_counts(1.0, 1, 4, None), 4)
    assert [len(pieces) for _, pieces in packed.placed] == [4]
    assert imbalance(packed.loads) < 1e-9


def test_no_records_are_no_pieces() -> None:
    counts = KeyCounts(np.zeros(0, np.uint64), np.zeros(0), np.zeros(first_homes(4).size), 0)
    assert pack_two_rounds(counts, 4)[0].placed == ()
