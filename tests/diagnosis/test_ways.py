"""Predictions that are the simulator's, and advice that fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skewless import metrics, registry
from skewless.diagnosis.advice import HotKey, HotKeys
from skewless.diagnosis.costs import JOB_SECONDS, STAGE_SECONDS, Costs, makespan
from skewless.diagnosis.ways import Job, Prediction, SampledKeys, chosen_strategies, predict
from skewless.simulator import simulate
from skewless.workloads import Zipf

FEW = ["pkg", "cascade"]  # each strategy has kernels to compile


def zipf(z: float, n_records: int = 20_000, n_keys: int = 5_000) -> Any:
    return next(Zipf(z=z, n_keys=n_keys, n_records=n_records).chunks(seed=1, chunk_size=n_records))


def job(keys: Any, n_workers: int = 8, n_slots: int = 8, **more: Any) -> Job:
    return Job(SampledKeys(keys), n_workers, n_slots, keys.size, **more)


def by_name(predictions: tuple[Prediction, ...]) -> dict[str, Prediction]:
    return {one.strategy: one for one in predictions}


def test_predictions_are_what_routing_and_the_simulator_say() -> None:
    keys = zipf(1.2)
    cut = Job(SampledKeys(keys, (7_000, 0, 13_000)), 8, 8, keys.size, seed=3, batch_size=999)
    found = by_name(predict(cut, chosen_strategies(["pkg", "cascade", "mixed"])))
    for name in ("hash", "pkg", "cascade", "mixed"):
        strategy, one = registry.make(name), found[name]
        workers = np.empty(keys.size, np.int32)
        for source, part in ((0, slice(7_000)), (2, slice(7_000, None))):
            strategy.route(keys[part], strategy.start(8, 3, source=source), workers[part])
        assert one.imbalance == metrics.imbalance(np.bincount(workers, minlength=8))
        pairs = len(set(zip(keys.tolist(), workers.tolist(), strict=True)))
        assert one.replication == pytest.approx(pairs / len(set(keys.tolist())))
        run = simulate(strategy, cut.sample, n_workers=8, n_sources=4, seed=3, window=1_000)
        assert one.makespan == run.summary()["makespan_ratio"] >= 1.0
        assert one.seconds is None
    # Two choices are better than one, and moving keys is better than leaving them.
    assert found["pkg"].makespan < found["hash"].makespan  # type: ignore[operator]
    assert found["mixed"].makespan < found["hash"].makespan  # type: ignore[operator]
    assert 1.0 == found["hash"].replication < found["pkg"].replication <= 2.0


def test_what_needs_no_strategy_is_predicted_too() -> None:
    keys = zipf(1.2)
    found = by_name(predict(job(keys), chosen_strategies("hash")))
    plans = ["plan", "whole-plan"]
    salts = ["salt-2", "salt-4", "salt-8", "hot-salt-8"]
    assert [*found] == ["hash", "round-robin", *salts, *plans, "local"]
    assert {one.family for name, one in found.items() if name not in plans} == {"plain Spark"}
    # Salting hot keys only costs fewer replicas; a plan costs hardly any, and balances best.
    assert 1.0 < found["plan"].replication < found["hot-salt-8"].replication
    assert found["hot-salt-8"].replication < found["salt-8"].replication
    assert found["plan"].imbalance < found["hot-salt-8"].imbalance
    assert found["whole-plan"].replication == 1.0
    assert found["plan"].imbalance < found["whole-plan"].imbalance <= found["hash"].imbalance
    assert found["round-robin"].imbalance == 0.0
    assert found["hash"].imbalance > found["salt-2"].imbalance > found["salt-8"].imbalance
    assert 1.0 < found["salt-2"].replication < found["salt-8"].replication
    assert found["salt-8"].replication < found["round-robin"].replication
    # One partition on eight slots: seven are idle.
    assert (found["local"].imbalance, found["local"].replication) == (7.0, 1.0)
    many = by_name(predict(job(keys, n_workers=64), chosen_strategies("hash")))
    assert "salt-32" in many
    assert (
        by_name(predict(job(keys, n_workers=1), chosen_strategies("hash")))["hash"].imbalance == 0
    )


def test_sparks_own_hash_takes_the_place_of_ours() -> None:
    keys = zipf(1.2)
    plain = (np.arange(keys.size) % 2).astype(np.int32)
    found = Job(SampledKeys(keys, None, plain), 8, 8, keys.size)
    assert predict(found, chosen_strategies("hash"))[0].imbalance == 3.0


@pytest.mark.parametrize(
    ("per_record", "per_pair", "fastest", "unplanned"),
    [
        # Records alone cost something: any spreading will do, and needs no counting beforehand.
        (1e-4, 0.0, {"round-robin", "cascade"}, {"round-robin", "cascade"}),
        # Keys do: no second copy of any key. A plan packs them evenly, hashing by chance.
        (1e-4, 1e-1, {"plan"}, {"hash"}),
        # Both do, for a few seconds or less: too little to count first.
        (1e-3, 1e-2, {"cascade"}, {"cascade"}),
        (1e-4, 1e-3, {"cascade"}, {"cascade"}),
        (1e-9, 0.0, {"local"}, {"local"}),  # too little work to move a record for
    ],
)
def test_the_fastest_depends_on_the_costs(
    per_record: float, per_pair: float, fastest: Any, unplanned: Any
) -> None:
    keys = zipf(1.2)
    costs = Costs(per_record, per_pair)
    predictions = predict(job(keys, costs=costs), chosen_strategies(FEW))
    found = HotKeys(keys.size, (), 8, keys.size, predictions, slots=8, partitions=1, costs=costs)
    assert found.fastest is not None
    assert found.fastest.strategy in fastest
    others = [one for one in predictions if one.family != "planned"]
    assert min(others, key=lambda one: one.seconds or 0.0).strategy in unplanned
    # A plan that weighs keys leaves 5 % at most; moving 20,000 records from one partition and
    # counting them takes 0.026 s.
    ideal = costs.seconds(keys.size, np.unique(keys).size) / 8
    planned = by_name(predictions)["plan"].seconds or 0.0
    assert ideal < planned - JOB_SECONDS - STAGE_SECONDS - 0.026 < 1.05 * ideal
    assert ("plan_keys with per_key" in found.advice) is (found.best().strategy == "plan")
    assert found.fastest.seconds == min(one.seconds for one in predictions)  # type: ignore[type-var]
    assert "the fastest" in found.advice
    assert len(found.assumptions) == 3


def test_time_is_that_of_tasks_on_slots() -> None:
    assert makespan([3.0, 1.0, 1.0, 1.0, 1.0], n_slots=2) == 4.0
    assert makespan([], n_slots=3) == 0.0
    keys = np.zeros(100, np.uint64)
    by_hash = predict(job(keys, n_slots=4, costs=Costs(0.01, 5.0)), chosen_strategies("hash"))
    found = by_name(by_hash)
    # The shuffle of so few records takes less than a millisecond.
    stage = STAGE_SECONDS
    assert found["hash"].seconds == pytest.approx(stage + 6.0, abs=1e-3)
    assert found["round-robin"].seconds == pytest.approx(stage + 2 * (13 * 0.01 + 5.0), abs=0.02)
    # A tenth of the records: each stands for ten.
    part = Job(SampledKeys(keys), 8, 4, 1_000, Costs(0.01, 5.0))
    assert by_name(predict(part, chosen_strategies("hash")))["hash"].seconds == pytest.approx(
        stage + 15.0, abs=1e-3
    )


def test_hash_is_always_there_and_once() -> None:
    assert [one.name for one in chosen_strategies("pkg")] == ["hash", "pkg"]
    assert [one.name for one in chosen_strategies(["pkg", "hash"])] == ["hash", "pkg"]
    assert [one.name for one in chosen_strategies([registry.make("pkg")])] == ["hash", "pkg"]
    assert {one.name for one in chosen_strategies("all")} == set(registry.names())
    assert "cascade" in {one.name for one in chosen_strategies(None)}
    with pytest.raises(ValueError, match="did you mean 'cascade'"):
        chosen_strategies(["cascad"])


def predicted(**rows: tuple[float, float, float]) -> HotKeys:
    """Return hot keys of a million records with these imbalances, replications and makespans."""
    return HotKeys(
        1_000_000,
        (HotKey("a", 1_000, 0.001),),
        workers=8,
        sampled=1_000_000,
        predictions=tuple(Prediction(name, "splitting", *row) for name, row in rows.items()),
    )


def test_where_hashing_balances_plain_spark_is_advised() -> None:
    assert predicted(hash=(0.05, 1, 1.05), pkg=(0, 1.5, 1)).advice.startswith("Plain Spark is")


def test_of_strategies_that_are_alike_the_one_with_fewer_replicas_is_advised() -> None:
    skewed = predicted(
        hash=(2.0, 1, 3), shuffle=(0.0, 7.9, 1.0), cascade=(0.02, 1.1, 1.03), pkg=(0.9, 1.0, 1.9)
    )
    assert skewed.advice.startswith("The job is skewed: hashing gives the busiest worker")
    assert "use strategy='cascade'" in skewed.advice
    assert "repartition(8) spreads them" in skewed.advice
    assert "3.00 times its fair share" in skewed.advice
    assert "sum, count, min, max" in skewed.advice


def test_neither_the_limit_nor_what_does_not_help_is_advised() -> None:
    for rows in ({"ideal": (0.0, 1.0, 1.0)}, {"pkg": (2.0, 1.5, 3.0)}, {}):
        advice = predicted(hash=(2.0, 1, 3), **rows).advice
        assert "No strategy that was tried does better" in advice


def test_keys_that_move_between_micro_batches_are_not_advised() -> None:
    hashing = Prediction("hash", "moving", 2.0, 1.0, 3.0)
    moving = Prediction("mixed", "moving", 0.0, 1.0, 1.0)
    splitting = Prediction("cascade", "splitting", 0.01, 1.1, 1.0)
    keys = (HotKey("a", 1, 0.1),)
    both = HotKeys(1_000, keys, 8, 1_000, (hashing, moving, splitting))
    assert "use strategy='cascade'" in both.advice
    alone = HotKeys(1_000, keys, 8, 1_000, (hashing, moving))
    assert "No strategy that was tried does better" in alone.advice


def test_chance_in_a_small_sample_is_not_taken_for_skew() -> None:
    # A million keys of one record each over 64 workers: hashing is as good as it gets, and yet
    # the busiest of 64 workers has chance records more in a sample of 6,400.
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1 << 63, 6_400, dtype=np.uint64)
    predictions = predict(job(keys, n_workers=64), chosen_strategies("hash"))
    assert predictions[0].imbalance > 0.1
    found = HotKeys(1_000_000, (HotKey("a", 1, 1e-6),), 64, keys.size, predictions)
    assert found.advice.startswith("Plain Spark is the better choice")
    # If that is all there is, the imbalance is no matter of the sample.
    whole = HotKeys(keys.size, (HotKey("a", 1, 1 / keys.size),), 64, keys.size, predictions)
    assert whole.advice.startswith("The job is skewed")


def test_shares_alone_advise_too() -> None:
    key = (HotKey("a\nb", 300, 0.3),)
    assert HotKeys(1_000, key).advice == (
        "'a\\\\nb' has 30.0 % of the records: more than one worker's fair share from 4 workers on."
    )
    assert "2.40 times a worker's fair share" in HotKeys(1_000, key, workers=8).advice
    light = (HotKey("a", 1, 0.001),)
    assert "light keys can still be uneven" in HotKeys(1_000, light, workers=8).advice.lower()
    assert "No key stands out" in HotKeys(1_000, (), workers=8).advice
    assert "no records" in HotKeys(0, (), workers=8).advice
    assert "one worker" in HotKeys(1_000, key, workers=1).advice


def test_it_prints_as_plain_text() -> None:
    text = str(predicted(hash=(2.0, 1, 3), cascade=(0.02, 1.1, 1.03)))
    assert text.splitlines()[:-1] == [
        "1,000,000 records, 8 workers",
        "",
        "key  records  share  × fair share",
        "a      1,000  0.1 %          0.01",
        "",
        "Predicted from 1,000,000 records:",
        "strategy     family  imbalance  replicas per key  seconds  stream: × ideal time",
        "hash      splitting    200.0 %             1.000        –                  3.00",
        "cascade   splitting      2.0 %             1.100        –                  1.03",
        "",
        "Assumed: – tasks run at the same time, and the records come from – partitions in their "
        "present order.",
        "",
    ]


def test_the_best_way_with_whole_keys_keeps_each_key_on_one_worker() -> None:
    keys = zipf(1.2)
    for costs in (None, Costs(1e-2, 1e-1)):  # for a minute, so that counting does not matter
        found = predict(job(keys, costs=costs), chosen_strategies(FEW))
        hot = HotKeys(keys.size, (), 8, keys.size, found, slots=8, partitions=1, costs=costs)
        assert hot.skewed
        assert hot.best(whole_keys=True).strategy == "whole-plan"
        assert hot.best().strategy == "plan"
    with pytest.raises(ValueError, match="no predictions"):
        HotKeys(10, ()).best()
