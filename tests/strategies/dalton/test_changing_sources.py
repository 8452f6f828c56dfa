"""Dalton's sources whose number changes from one micro-batch to the next, as on Spark."""

import numpy as np
import pytest

from lanes import needs_a_long_stream
from reference import dalton_from_the_paper as paper
from reference.kernels.hashing import seeded, seeds, to_worker
from skewless.kernels.merge_history import OWN, RECENT
from skewless.simulator.syncing import MicroBatches
from skewless.strategies.dalton import Dalton
from skewless.workloads import Zipf
from strategies.streams import imbalance, skewed


def cut(keys, batches):
    """Return the keys of each source in each micro-batch; `batches` are their numbers."""
    ends = np.cumsum([n for batch in batches for n in batch])
    parts = iter(np.split(keys[: ends[-1]], ends[:-1]))
    return [[next(parts) for _ in batch] for batch in batches]


def run(strategy, batches, n_workers=8, seed=1):
    sources = MicroBatches(strategy, n_workers, seed)
    for batch in cut(skewed(sum(map(sum, batches))), batches):
        sources.route(batch)
    return sources


def test_a_source_that_was_away_has_the_scale_of_the_merges_that_it_had_a_part_in():
    """It kept its whole part once while the others merged: each of 8 sources saw itself as one."""
    sources = run(Dalton(stats_window=1_000, slide=200), [[2_000] * 8, [20]] * 6)
    for source in range(8):
        assert sources.state(source).levels[0]["scale"] == pytest.approx(8, rel=0.01)


def test_the_parts_of_all_sources_are_the_recent_records_of_all():
    batches = [[300] * 4, [700], [50, 900], [1], [0, 400, 0, 100], [3] * 3, [2_000]]
    sources = run(Dalton(stats_window=1_000, slide=200), batches)
    parts = [sources.state(source).merges.sums[OWN] for source in range(4)]
    assert sum(parts) == pytest.approx(sources.plan.merges.sums[RECENT], rel=1e-12)


def by_kernel_and_oracle(monkeypatch, parameters, batches, oracle_batches):
    """Return the mean imbalance of the large micro-batches in the second half, by each.

    Which cold keys share a worker decides much, so both hash alike.
    """
    n_workers, seed = 16, 9
    hashed = seeds(seed, 1)[0]
    monkeypatch.setattr(paper, "hash_worker", lambda key, _, n: to_worker(seeded(key, hashed), n))
    stream = Zipf(z=1.4, n_keys=100_000, n_records=sum(map(sum, batches)))
    keys = np.concatenate(list(stream.chunks(5)))
    sources = MicroBatches(Dalton(**parameters), n_workers, seed)
    plain = [[part.tolist() for part in batch] for batch in cut(keys, oracle_batches)]
    routed = (
        [sources.route(batch) for batch in cut(keys, batches)],
        paper.route_micro_batches(plain, n_workers, seed, **parameters),
    )
    judged = [i for i, b in enumerate(batches) if sum(b) == 20_000 and i >= len(batches) // 2]
    return [
        np.mean([imbalance(np.concatenate(found[i]).astype(np.int32), n_workers) for i in judged])
        for found in routed
    ]


@needs_a_long_stream
def test_eight_and_one_in_turn_are_about_as_balanced_as_one_source_of_the_oracle(monkeypatch):
    """The oracle takes the mean of its sources' tables, so eight of them learn much more slowly.

    With these parameters they are at 0.96 where one is at 0.06: only one can be compared.
    """
    parameters = {"slide": 1_000, "n_slides": 10, "stats_window": 10_000}
    batches = [[2_500] * 8, [20]] * 8
    one = [[sum(batch)] for batch in batches]
    found, expected = by_kernel_and_oracle(monkeypatch, parameters, batches, one)
    # Eight sources explore apart, also without changes: 0.13 and 0.06. With the fault it was 0.48.
    assert abs(found - expected) < 0.1


@pytest.mark.slow
@needs_a_long_stream
@pytest.mark.parametrize("pause", [[[200]], [[1_000]] * 3], ids=["one", "three"])
def test_sources_that_learn_fast_agree_with_the_oracle_when_they_change(monkeypatch, pause):
    """A test of agreement alone: with these parameters the fault was within the margin as well."""
    parameters = {"slide": 2_500, "n_slides": 8, "stats_window": 10_000}
    parameters |= {"learning_rate": 0.3, "exploration": 0.2}
    batches = [[2_500] * 8, *pause] * 6
    found, expected = by_kernel_and_oracle(monkeypatch, parameters, batches, batches)
    # Over three seeds, the two differed by up to 0.04.
    assert abs(found - expected) < 0.05
