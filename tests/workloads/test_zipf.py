from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from lanes import needs_a_long_stream
from skewless.workloads import Zipf
from skewless.workloads.zipf import zipf_probabilities
from workloads.streams import whole


def chi_square(ranks: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the p-value of the ranks under exact probabilities, rare ranks taken together."""
    expected = probabilities * ranks.size
    observed = np.bincount(ranks - 1, minlength=probabilities.size)
    # Ranks fall in probability. Few groups see a small bias that many would drown in noise.
    tail = expected.size + np.floor(np.cumsum(expected) / 2_000).astype(np.int64)
    group = np.where(expected >= 2_000, np.arange(expected.size), tail)
    _, group = np.unique(group, return_inverse=True)
    expected, observed = np.bincount(group, expected), np.bincount(group, observed)
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("n_keys", [2, 10, 10_000])
@pytest.mark.parametrize("z", [0.0, 0.5, 0.9995, 1.0, 1.0005, 1.1, 2.0, 5.0])
def test_ranks_have_the_exact_probabilities(z: float, n_keys: int) -> None:
    ranks = whole(Zipf(z=z, n_keys=n_keys, n_records=400_000), seed=11)
    # Seeded, so it never flakes; how little bias it takes to fail is the next test.
    assert chi_square(ranks, zipf_probabilities(z, n_keys)) > 1e-4


@needs_a_long_stream
def test_the_check_itself_sees_a_wrong_exponent() -> None:
    ranks = whole(Zipf(z=1.01, n_keys=10_000, n_records=400_000), seed=11)
    assert chi_square(ranks, zipf_probabilities(1.0, 10_000)) < 1e-6


@pytest.mark.parametrize("z", [0.0, 0.3, 1.0, 1.5, 3.0, 20.0])
@pytest.mark.parametrize("n_keys", [1, 2, 3, 10**7, 2**40])
def test_ranks_stay_in_the_domain(z: float, n_keys: int) -> None:
    ranks = whole(Zipf(z=z, n_keys=n_keys, n_records=20_000), seed=3)
    assert ranks.min() >= 1
    assert ranks.max() <= n_keys


@needs_a_long_stream
def test_the_tail_of_a_large_domain_is_reached() -> None:
    n_keys = 10**7
    ranks = whole(Zipf(z=0.5, n_keys=n_keys, n_records=100_000), seed=3)
    # Pr[rank > K/2] = 1 − √½ up to 1/√K; six standard deviations of a share of 100,000.
    share = float((ranks > n_keys // 2).mean())
    assert share == pytest.approx(1 - 0.5**0.5, abs=6 * (0.3 * 0.7 / 100_000) ** 0.5)


@needs_a_long_stream
def test_successive_records_are_independent() -> None:
    ranks = whole(Zipf(z=1.0, n_keys=8, n_records=400_000), seed=5)
    pairs = (ranks[:-1:2] - 1) * 8 + ranks[1::2] - 1
    p = zipf_probabilities(1.0, 8)
    observed = np.bincount(pairs, minlength=64)
    # Seeded; see above.
    assert stats.chisquare(observed, np.outer(p, p).ravel() * pairs.size).pvalue > 1e-4


@needs_a_long_stream
def test_memory_does_not_grow_with_the_domain_or_the_stream() -> None:
    workload = Zipf(z=1.2, n_keys=10**9, n_records=10**9)
    next(workload.chunks(0, 1_000))
    tracemalloc.start()
    chunks = workload.chunks(0, 1_000)
    for _ in range(20):
        next(chunks)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000  # two arrays of a chunk are 16 kB; the rest is the test's own


@pytest.mark.slow
@pytest.mark.spark
def test_spark_makes_the_same_keys_from_ranks(spark: object) -> None:
    workload = Zipf(z=1.0, n_keys=1_000, n_records=500)
    ranks = whole(workload, 1).tolist()
    frame = spark.createDataFrame([(rank,) for rank in ranks], "rank BIGINT")  # type: ignore[attr-defined]
    hashes = [row[0] for row in frame.selectExpr("xxhash64(rank)").collect()]
    assert next(workload.chunks(1)).view(np.int64).tolist() == hashes
