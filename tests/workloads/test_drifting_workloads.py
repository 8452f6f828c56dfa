"""Each drifting workload, record by record, from the Zipf streams that it is made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skewless.workloads import Alternating, Burst, EvolvingZipf, PerSource, ShiftingZipf, Zipf
from skewless.workloads.zipf import zipf_probabilities
from workloads.streams import whole

N = 600


def plain(z: float, n_keys: int, seed: int, n_records: int = N) -> list[int]:
    return whole(Zipf(z=z, n_keys=n_keys, n_records=n_records), seed).tolist()


@given(period=st.integers(1, 700), share=st.floats(0, 1), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_evolving_reverses_the_end_of_each_period(period: int, share: float, seed: int) -> None:
    stream = EvolvingZipf(z=1.3, n_keys=50, n_records=N, period=period, reversed_share=share)
    expected = [
        51 - rank if i % period >= period - round(share * period) else rank
        for i, rank in enumerate(plain(1.3, 50, seed))
    ]
    assert whole(stream, seed).tolist() == expected


def test_evolving_has_the_defaults_of_the_paper() -> None:
    stream = EvolvingZipf()
    assert (stream.period, stream.n_records, stream.n_keys) == (5_000_000, 50_000_000, 100_000)
    assert stream.reversed_share == 0.2


@given(period=st.integers(1, 700), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_alternating_is_uniform_in_even_periods(period: int, seed: int) -> None:
    stream = Alternating(z=1.3, n_keys=50, n_records=N, period=period)
    uniform, skewed = plain(0, 50, seed), plain(1.3, 50, seed)
    expected = [(skewed if (i // period) % 2 else uniform)[i] for i in range(N)]
    assert whole(stream, seed).tolist() == expected


def test_shifting_gives_each_period_its_own_hot_key_and_exponent() -> None:
    period, n_keys = 20_000, 1_000
    stream = ShiftingZipf(z_min=0.8, z_max=2.0, n_keys=n_keys, n_records=8 * period, period=period)
    periods = whole(stream, seed=2).reshape(8, period)
    counts = np.array([np.bincount(keys, minlength=n_keys + 1) for keys in periods])
    assert len(set(counts.argmax(axis=1).tolist())) == 8
    shares = counts.max(axis=1) / period
    low, high = zipf_probabilities(0.8, n_keys)[0], zipf_probabilities(2.0, n_keys)[0]
    assert shares.min() > low * 0.9  # four standard deviations of the rarest top key are 8 %
    assert shares.max() < high * 1.1
    assert shares.max() > 2 * shares.min()


@pytest.mark.parametrize("heavy_hitters", ["different", "same"])
def test_per_source_is_its_distributions_in_turn(heavy_hitters: str) -> None:
    exponents, n_keys = (0.0, 1.5, 1.0), 60
    stream = PerSource(exponents, n_keys, N, heavy_hitters)  # type: ignore[arg-type]
    streams = [plain(z, n_keys, 4) for z in exponents]
    expected = []
    for i in range(N):
        j = i % 3
        offset = j * 20 if heavy_hitters == "different" else 0
        expected.append(1 + (streams[j][i] - 1 + offset) % n_keys)
    assert whole(stream, 4).tolist() == expected


@given(period=st.integers(1, 300), data=st.data())
@settings(deadline=None, max_examples=30)
def test_bursts_overlay_the_background(period: int, data: st.DataObject) -> None:
    duration = data.draw(st.integers(0, period))
    stream = Burst(z=1.0, n_keys=50, n_records=N, period=period, duration=duration, share=0.5)
    background = plain(1.0, 50, 9)
    for i, key in enumerate(whole(stream, 9).tolist()):
        bursting = i % period >= period - duration
        assert key in ({background[i], 51 + i // period} if bursting else {background[i]})


def test_a_bursting_key_takes_its_share() -> None:
    n_records, share = 200_000, 0.3
    stream = Burst(n_keys=100, n_records=n_records, period=1_000, duration=400, share=share)
    n_burst = int((whole(stream, 9) > 100).sum())
    n_in_bursts = n_records * 400 // 1_000
    # Seeded; the two-sided tail of the binomial beyond which the share would be wrong.
    assert stats.binomtest(n_burst, n_in_bursts, share).pvalue > 1e-4
    everything = Burst(n_keys=100, n_records=1_000, period=100, duration=100, share=1.0)
    assert whole(everything, 0).tolist() == [101 + i // 100 for i in range(1_000)]
