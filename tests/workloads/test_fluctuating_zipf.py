from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import fluctuation
from skewless.kernels.hashing import draw
from skewless.keys import hash_keys
from skewless.strategies import MinMig, MinTable, Mixed, MixedBruteForce, Readj, Simple
from skewless.strategy import AnyStrategy
from skewless.workloads import FluctuatingZipf, Zipf
from skewless.workloads.fluctuating_zipf import Frequencies, shift_load
from workloads.streams import whole


def loads(state: Frequencies) -> np.ndarray:
    n_workers = state.starts.size - 1
    return np.bincount(state.owners[state.key_at], state.by_rank, minlength=n_workers)


@given(
    z=st.floats(0.3, 2),
    n_keys=st.integers(2, 40),
    n_workers=st.integers(2, 5),
    # A rate that no load meets exactly: there the oracle's fresh sums may round differently.
    rate=st.floats(0.013, 3).map(lambda f: f * 1.000_001_7),
    seed=st.integers(0, 1_000),
)
@settings(deadline=None, max_examples=60)
def test_changes_equal_the_oracle(
    z: float, n_keys: int, n_workers: int, rate: float, seed: int
) -> None:
    stream = FluctuatingZipf(z=z, n_keys=n_keys, n_records=0, n_workers=n_workers)
    state = stream.start(seed)
    keys_by_rank = state.key_at.tolist()
    for number in range(4):
        giver, taker = number % n_workers, (number + 1) % n_workers
        bits = np.uint64(seed * 10 + number)
        keys_by_rank = fluctuation.shift_load(
            state.by_rank.tolist(),
            keys_by_rank,
            state.owners.tolist(),
            giver,
            taker,
            rate,
            lambda rank, n, bits=bits: int(draw(bits, rank)) % n,
        )
        shift_load(state, giver, taker, rate, bits)
        assert state.key_at.tolist() == keys_by_rank
        assert state.rank_of[state.key_at].tolist() == list(range(n_keys))
        assert np.allclose(state.loads, loads(state), rtol=0, atol=1e-12)  # sums of 40 terms


@pytest.mark.parametrize("f", [0.1, 0.5, 1.0, 2.0])
def test_load_changes_by_f_at_every_interval(f: float) -> None:
    stream = FluctuatingZipf(n_keys=20_000, n_records=0, f=f, n_workers=10)
    state = stream.start(3)
    touched = set()
    for number in range(1, 30):
        before = loads(state)
        stream.advance(state, number, 3)
        after = loads(state)
        giver, taker = int((after - before).argmin()), int((after - before).argmax())
        touched |= {giver, taker}
        # The kernel adds and this test sums afresh, hence the margins of rounding.
        assert before[giver] >= before.max() * (1 - 1e-9)
        assert (before[giver] - after[giver]) / after[giver] >= f * (1 - 1e-9)
        others = [worker for worker in range(10) if worker not in (giver, taker)]
        assert np.array_equal(after[others], before[others])
        # 20,000 keys are enough to meet f: no single swap is needed that is larger.
        assert (before[giver] - after[giver]) / after[giver] <= 1.05 * f * (1 + 1e-9)
    # Under a small f one worker may give every time, so it never takes.
    assert touched == set(range(10))


@pytest.mark.parametrize("n_keys", [5_000, 100_000])
def test_a_larger_rate_changes_more(n_keys: int) -> None:
    """The hottest key of a worker is half its load, and must not decide for every f."""
    changes = []
    for f in (0.1, 0.2, 0.5, 1.0, 2.0):
        stream = FluctuatingZipf(n_keys=n_keys, n_records=0, f=f)
        state = stream.start(1)
        before = loads(state)
        stream.advance(state, 1, 1)
        changes.append(np.abs(loads(state) - before).sum())
    assert all(less < 0.9 * more for less, more in pairwise(changes))
    streams = [
        whole(FluctuatingZipf(n_keys=n_keys, n_records=2_000, interval=1_000, f=f), 1)
        for f in (0.2, 0.5)
    ]
    assert not np.array_equal(*streams)


def test_no_fluctuation_is_plain_zipf() -> None:
    calm = FluctuatingZipf(z=1.0, n_keys=500, n_records=3_000, interval=100, f=0.0)
    assert np.array_equal(whole(calm, 1), whole(Zipf(1.0, 500, 3_000), 1))


def test_the_first_interval_is_plain_zipf_and_later_ones_are_not() -> None:
    stream = FluctuatingZipf(z=1.0, n_keys=500, n_records=3_000, interval=1_000)
    keys, ranks = whole(stream, 1), whole(Zipf(1.0, 500, 3_000), 1)
    assert np.array_equal(keys[:1_000], ranks[:1_000])
    assert not np.array_equal(keys[1_000:2_000], ranks[1_000:2_000])
    # Within an interval a rank is one key.
    for first in (0, 1_000, 2_000):
        pairs = set(zip(ranks[first : first + 1_000], keys[first : first + 1_000], strict=True))
        assert len(pairs) == len({rank for rank, _ in pairs}) == len({key for _, key in pairs})


@pytest.mark.parametrize(
    "strategy",
    [Mixed(), MixedBruteForce(), MinTable(), MinMig(), Readj(), Simple()],
    ids=lambda strategy: strategy.name,
)
def test_owners_are_the_homes_of_all_strategies_with_a_table(strategy: AnyStrategy) -> None:
    stream = FluctuatingZipf(n_keys=300, n_records=0, n_workers=7)
    homes = np.empty(300, np.int32)
    strategy.route(hash_keys(np.arange(1, 301)), strategy.start(7, seed=4), homes)
    assert np.array_equal(stream.start(4).owners, homes)


def test_more_workers_than_keys_are_no_trouble() -> None:
    stream = FluctuatingZipf(z=1.0, n_keys=2, n_records=100, interval=3, n_workers=50)
    assert set(whole(stream, 1).tolist()) <= {1, 2}
