"""Streams that stand in for others have the shares that they were fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.reproduction.figure import SIZES
from experiments.reproduction.fitting import (
    expected_keys,
    fitted_z,
    harmonic,
    same_head,
    share_of_top,
)
from experiments.reproduction.papers import dalton, pd_stream, pstream
from skewless import workloads
from skewless.workloads.zipf import zipf_probabilities


@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.2205, 2.0])
@pytest.mark.parametrize("n_keys", [1, 999, 1_000, 1_001, 50_000])
def test_sums_of_powers_are_exact(z: float, n_keys: int) -> None:
    exact = (np.arange(1, n_keys + 1) ** -z).sum()
    assert harmonic(n_keys, z) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("n_top", [1, 300, 20_000])
def test_the_share_of_the_first_ranks_is_that_of_the_probabilities(n_top: int) -> None:
    exact = zipf_probabilities(1.0129, 50_000)[:n_top].sum()
    assert share_of_top(1.0129, 50_000, n_top) == pytest.approx(exact, rel=1e-9)


def streams() -> list[tuple[int, float, int, int]]:
    """Return keys, share, the keys that have it, and digits, of all streams that stand in."""
    tops = [(250_000, 7.31 / 64), (1_036, 0.04), (50, 0.3)]
    tops += [(keys, share) for _, keys, share in pd_stream.STREAMS.values()]
    traces = [(keys, 0.8, round(top * keys), 4) for _, keys, top in pstream.TRACES.values()]
    coarse = [(*stream, 1, 3) for stream in dalton.STREAMS.values()]
    return [*((*top, 1, 4) for top in tops), *traces, *coarse]


@pytest.mark.parametrize(("n_keys", "share", "n_top", "digits"), streams())
def test_a_fitted_exponent_gives_the_share(
    n_keys: int, share: float, n_top: int, digits: int
) -> None:
    z = fitted_z(n_keys, share, n_top, digits)
    found = zipf_probabilities(z, n_keys)[:n_top].sum()
    # An exponent of so many digits gives about as many of the share.
    assert found == pytest.approx(share, rel=20 * 10**-digits)


@pytest.mark.parametrize("stream", ["HA", "TW", "ST"])
def test_the_traces_of_pstream_have_the_published_number_of_distinct_keys(stream: str) -> None:
    n_records, n_distinct, top = pstream.TRACES[stream]
    of = pstream.stream_of(SIZES["published"], stream, 0.0)
    assert expected_keys(of["z"], of["n_keys"], n_records) == pytest.approx(n_distinct, rel=0.02)
    n_top = round(top * n_distinct)
    assert share_of_top(of["z"], of["n_keys"], n_top) == pytest.approx(0.8, rel=2e-3)


@pytest.mark.parametrize("stream", ["DS", "HT"])
def test_the_streams_of_pd_stream_have_the_published_keys_and_first_key(stream: str) -> None:
    published, n_distinct, share = pd_stream.STREAMS[stream]
    workload, of = pd_stream.stream_of(stream, 0.0, published)
    others = round((1 - of.get("share", 0.0)) * published)
    found = expected_keys(of["z"], of["n_keys"], others)
    assert found == pytest.approx(n_distinct, rel=0.02)
    keys = next(workloads.make(workload, **of).chunks(1))
    assert np.unique(keys, return_counts=True)[1].max() / keys.size == pytest.approx(
        share, rel=0.03
    )


def test_fewer_keys_keep_the_head_of_the_distribution() -> None:
    published = zipf_probabilities(0.85, 100_000)[0]
    fewer = zipf_probabilities(same_head(0.85, 100_000, 500), 500)[0]
    assert fewer == pytest.approx(published, rel=1e-3)
