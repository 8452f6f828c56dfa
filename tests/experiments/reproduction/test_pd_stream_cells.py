"""The cells of Pd-Stream's figures: what they count is what a slow look finds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.reproduction.cells import Simulation
from experiments.reproduction.fitting import fitted_z
from experiments.reproduction.papers.pd_stream.counting import (
    cold_replicas,
    counted_looks,
    distinct,
    sampling,
)
from skewless.workloads.zipf import Zipf, zipf_probabilities


def test_expected_distinct_keys_are_the_sum_of_all_probabilities():
    row = distinct(z=1.2, n_keys=300_000, n_records=50_000, n_published=200_000, seed=1).run()
    shares = zipf_probabilities(1.2, 300_000)
    for n_records, column in ((50_000, "expected_keys"), (200_000, "expected_published")):
        expected = (1 - (1 - shares) ** n_records).sum()
        assert row[column] == pytest.approx(expected, rel=1e-4)
    assert row["keys"] == pytest.approx(row["expected_keys"], rel=0.02)


def test_windows_without_the_key_are_those_that_a_look_at_each_finds():
    row = sampling(alpha=1, n_workers=16, n_records=4_000, seed=3).run()
    length = 8  # α / θ
    ranks = np.concatenate(list(Zipf(fitted_z(100_000, 2 / 16), 100_000, 4_000).ranks(3)))
    (places,) = np.nonzero(ranks == 1)
    # A window that ends before the record at `end`, between the first and the last of the key.
    ends = range(places[0] + 1, places[-1] + 1)
    missed = [not (ranks[max(0, end - length) : end] == 1).any() for end in ends]
    assert row["missed"] == pytest.approx(np.mean(missed))


def test_cold_replicas_are_counted_as_the_simulator_counts():
    of = {"z": 1.2, "n_keys": 10_000, "n_records": 20_000}
    row = cold_replicas("pd-stream", "zipf", of, n_workers=16, n_sources=8, seed=1).run()
    whole = Simulation("pd-stream", "zipf", of=of, n_workers=16, n_sources=8, seed=1).run()
    assert row["replication"] == pytest.approx(whole["replication"])
    assert 0 < row["cold_part"] < 1


@pytest.mark.parametrize(
    ("strategy", "looks"),
    [("pkg", 2), ("w-choices", 16), ("dagreedy", 16), ("dalton", 16)],
)
def test_a_single_hot_key_is_looked_for_where_it_may_go(strategy, looks):
    of = {"z": 1.0, "n_keys": 1, "n_records": 20_000}
    row = counted_looks(strategy, "zipf", of, n_workers=16, n_sources=1, seed=1, samples=50).run()
    assert row["looks"] == looks


def test_pd_stream_looks_at_the_entry_of_a_hot_key_and_at_all_where_it_may_grow():
    of = {"z": 1.0, "n_keys": 1, "n_records": 20_000}
    row = counted_looks(
        "pd-stream", "zipf", of, n_workers=16, n_sources=1, seed=1, samples=50
    ).run()
    # ⌊p̂·16⌋ = 15 for a key that fills the window; the entry has as many, so it may not grow.
    assert (row["looks"], row["entries"]) == (15, 15)


@pytest.mark.parametrize(
    ("strategy", "looks"),
    # Not W-Choices: its summary has as many places as there can be hot keys, so that a newcomer
    # which inherits the least count passes for hot where all keys are alike.
    [("pkg", 2), ("dagreedy", 1), ("dalton", 1), ("pd-stream", 2)],
)
def test_keys_that_are_all_cold_cost_their_candidates_only(strategy, looks):
    of = {"z": 0.0, "n_keys": 10**9, "n_records": 20_000}
    row = counted_looks(strategy, "zipf", of, n_workers=16, n_sources=1, seed=1, samples=50).run()
    assert row["looks"] == looks


def test_watching_a_router_changes_nothing():
    of = {"z": 1.2, "n_keys": 10_000, "n_records": 20_000}
    for strategy in ("w-choices", "dagreedy", "dalton", "pd-stream"):
        few, many = (
            counted_looks(strategy, "zipf", of, n_workers=16, n_sources=2, seed=1, samples=n).run()
            for n in (1, 100)
        )
        assert few["entries"] == many["entries"]
