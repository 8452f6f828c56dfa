"""Predicted seconds: records leave by the tasks that read them, and advice follows the times."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.diagnosis.advice import HotKeys
from skewless.diagnosis.costs import STAGE_SECONDS, Costs, Moving
from skewless.diagnosis.ways import Job, Prediction, SampledKeys, chosen_strategies, predict


@pytest.mark.parametrize("moving", [Moving.SHUFFLED, Moving.DEALT, Moving.ROUTED])
def test_one_partition_is_one_task_however_many_slots_there_are(moving: Moving) -> None:
    per_record, at_all = moving.value
    assert moving.seconds([8e6], n_slots=8) == pytest.approx(at_all + 8e6 * per_record)
    assert moving.seconds([1e6] * 8, n_slots=8) == pytest.approx(at_all + 1e6 * per_record)
    assert moving.seconds([1e6] * 9, n_slots=8) == pytest.approx(at_all + 2e6 * per_record)
    assert moving.seconds([5e6, *[1e6] * 3], n_slots=8) == pytest.approx(at_all + 5e6 * per_record)
    assert moving.seconds([], n_slots=8) == at_all
    assert Moving.NONE.seconds([8e6], n_slots=8) == 0.0


def test_a_job_moves_records_partition_by_partition() -> None:
    keys = np.arange(8_000, dtype=np.uint64)
    nothing = np.zeros(8, np.int64)
    for sizes, largest in (
        ((8_000,), 8e6),
        ((1_000,) * 8, 1e6),
        ((0, 6_000, 2_000), 6e6),
        (None, 8e6),
    ):
        # A sample of a thousandth.
        job = Job(SampledKeys(keys, sizes), 8, 8, 8_000_000, Costs(0.0))
        shuffling = job.seconds(nothing, nothing, Moving.SHUFFLED)
        assert shuffling == pytest.approx(STAGE_SECONDS + largest * 1e-6)


def hot(
    keys: np.ndarray, sizes: tuple[int, ...], costs: Costs | None, n_workers: int = 8
) -> HotKeys:
    job = Job(SampledKeys(keys, sizes), n_workers, 8, keys.size, costs)
    predictions = predict(job, chosen_strategies("hash"))
    return HotKeys(keys.size, (), n_workers, keys.size, predictions, 8, len(sizes), costs)


def test_salts_are_random_even_if_keys_come_in_turn() -> None:
    """Salts dealt out in turn would give each of these keys one salt, and one worker."""
    in_turn = np.arange(8_000, dtype=np.uint64) % 8
    found = {one.strategy: one for one in hot(in_turn, (8_000,), None).predictions}
    for n_salts in (2, 4, 8):
        # Expected distinct workers of 8 for this many salts, each hashed to a worker.
        expected = 8 * (1 - (7 / 8) ** n_salts)
        assert found[f"salt-{n_salts}"].replication == pytest.approx(expected, rel=0.25)


def test_even_keys_are_left_where_they_are_if_that_is_the_fastest() -> None:
    even = np.arange(80_000, dtype=np.uint64)
    assert hot(even, (10_000,) * 8, None).advice.startswith("Plain Spark is the better choice")
    found = hot(even, (10_000,) * 8, Costs(1e-6))
    assert found.predictions[0].imbalance < 0.1
    assert found.fastest is not None
    assert found.fastest.strategy == "local"
    assert "without a shuffle, is the fastest" in found.advice
    assert "The job is not skewed" in found.advice
    # One worker gets all; the partitions as they are keep eight slots busy.
    alone = hot(even, (10_000,) * 8, Costs(1e-3), n_workers=1)
    assert "without a shuffle, is the fastest" in alone.advice
    assert "nothing to balance" in hot(even, (80_000,), None, n_workers=1).advice


@pytest.mark.parametrize("imbalance", [0.05, 2.0])
@pytest.mark.parametrize(
    ("fastest", "told"),
    [
        ("hash", "plain Spark by key"),
        ("round-robin", "a plain repartition(8) without a key"),
        ("local", "without a shuffle,"),
        ("salt-4", "salting by 4"),
        ("cascade-ahead", "strategy='cascade-ahead'"),
    ],
)
def test_the_advice_names_what_is_fastest(imbalance: float, fastest: str, told: str) -> None:
    names = ("hash", "round-robin", "local", "salt-4", "cascade-ahead")
    predictions = tuple(
        Prediction(
            name,
            "splitting" if name == "cascade-ahead" else "plain Spark",
            imbalance,
            1.0,
            seconds=1.0 if name == fastest else 2.0,
        )
        for name in names
    )
    found = HotKeys(1_000, (), 8, 1_000, predictions, 8, 8, Costs(1e-3))
    assert found.fastest is not None
    assert found.fastest.strategy == fastest
    assert f"{told} is the fastest: 1.00 s" in found.advice
    assert "Try that first" not in found.advice


@pytest.mark.parametrize(("local", "is_as_good"), [(1.06, True), (1.14, True), (1.16, False)])
def test_the_advice_says_if_a_simpler_way_is_about_as_fast(local: float, is_as_good: bool) -> None:
    found = three_ways(local)
    assert found.best().strategy == "cascade-ahead"
    assert "strategy='cascade-ahead' is the fastest: 1.00 s, against 3.00 s by hash" in found.advice
    simpler = f"without a shuffle, is simpler: {local:.2f} s. Try that first."
    assert (simpler in found.advice) == is_as_good


def test_what_gains_next_to_nothing_is_not_advised() -> None:
    found = three_ways(1.04)
    assert found.fastest is not None
    assert (found.fastest.strategy, found.best().strategy) == ("cascade-ahead", "local")
    assert "is the simplest of the fastest ways: 1.04 s, against" in found.advice
    assert "1.00 s by cascade-ahead" in found.advice
    assert "Try that first" not in found.advice


def three_ways(local: float) -> HotKeys:
    predictions = (
        Prediction("hash", "plain Spark", 2.0, 1.0, seconds=3.0),
        Prediction("local", "plain Spark", 0.0, 1.0, seconds=local),
        Prediction("cascade-ahead", "splitting", 0.0, 1.0, seconds=1.0),
    )
    return HotKeys(1_000, (), 8, 1_000, predictions, 8, 8, Costs(1e-3))
