"""Figures 8 and 10 of Pd-Stream's paper, on its streams: 10⁷ records, Zipf over 10⁷ keys.

The replicas that are compared are those beyond one per key, RF − 1.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from skewless.arrays import Keys
from skewless.strategies.partial_key import PartialKey
from skewless.strategies.pd_stream import PdStream
from skewless.workloads.zipf import Zipf
from strategies.streams import imbalance, routed
from strategies.together import replicas

#: Table IV: distinct keys, in thousands.
TABLE_IV = {1.2: 563, 1.4: 127, 1.8: 10.7, 2.0: 4.3}

pytestmark = pytest.mark.statistics


@functools.lru_cache(maxsize=1)
def stream(z: float) -> Keys:
    return np.concatenate(list(Zipf(z, 10**7, 10**7).chunks(0)))


@pytest.mark.parametrize("z", TABLE_IV)
def test_the_streams_are_those_of_table_iv(z):
    assert np.unique(stream(z)).size / 1_000 == pytest.approx(TABLE_IV[z], rel=0.02)


@pytest.mark.parametrize(
    ("z", "n_workers", "published"), [(1.4, 64, 1.19), (1.8, 64, 1.35), (2.0, 128, 1.74)]
)
def test_balance_and_replicas_are_near_the_published_ones(z, n_workers, published):
    keys = stream(z)
    workers = routed(PdStream(), keys, n_workers, 0)
    assert imbalance(workers, n_workers) <= 1e-4
    # The paper does not say how equal loads are told apart, which moves the replicas beyond one per
    # key by some per cent; with 128 workers and a key of 61 % by more: hence 30 % there.
    assert replicas(keys, workers) - 1 == pytest.approx(published - 1, rel=0.3)


def test_at_z_1_2_the_cold_keys_alone_have_more_replicas_than_were_published():
    """The paper has 1.05 for z = 1.2 and 16 workers. Its algorithm cannot reach that.

    A key that is never twice in the window goes to the lighter of two workers, as with PKG. While
    loads are level, that is either of them: each second key with two records is on both.
    """
    keys, n_workers, published = stream(1.2), 16, 1.05
    workers = routed(PdStream(), keys, n_workers, 0)
    found = replicas(keys, workers)
    assert found - 1 > 3 * (published - 1)
    # Keys with fewer than 300 of 10⁷ records are not hot but by chance. They have nearly all of it.
    known, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    cold = counts[index] < 300
    of_cold = (replicas(keys[cold], workers[cold]) - 1) * (counts < 300).sum() / known.size
    assert of_cold > 0.9 * (found - 1)
    # PKG has more than that too, although its loads are not level: the same worker of a key's two
    # is then often the lighter one.
    assert replicas(keys, routed(PartialKey(), keys, n_workers, 0)) > published


@pytest.mark.parametrize(
    "reading",
    [
        PdStream(step=2),
        PdStream(step=32),
        PdStream(count_incoming=True),
        PdStream(confidence=0.999),
        PdStream(adaptive=True),
    ],
    ids=repr,
)
def test_no_reading_of_the_paper_comes_near_1_05(reading):
    keys = stream(1.2)
    assert replicas(keys, routed(reading, keys, 16, 0)) > 1.14


@pytest.mark.parametrize("n_records", [10**5, 10**6])
def test_neither_does_a_shorter_stream(n_records):
    keys = stream(1.2)[:n_records]
    assert replicas(keys, routed(PdStream(), keys, 16, 0)) > 1.12
