"""A query goes on with other workers, with capacities, and with speeds that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from examples.three_choices import ThreeChoices
from skewless import registry
from skewless.arrays import Floats, Ints
from skewless.metrics import imbalance
from skewless.simulator.starting import places
from skewless.spark.balance.balance import read_balance
from skewless.spark.ledger.files import Entry, from_bytes, to_bytes
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerMismatch
from skewless.spark.ledger.names import plan_name
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.worker_steps import last_workers
from skewless.strategies import Cascade, Fish, Mixed
from skewless.strategy import Rescales
from spark.ledger.entries import write_report, write_worker
from spark.routing.batches import run_batch, run_task, zipf

SEED = 11
RESCALING = [name for name in registry.names() if issubclass(registry.get(name), Rescales)]


def worker_reports(
    ledger: Ledger, batch: int, loads: Ints, slow: dict[int, float], fixed: float = 0.0
) -> None:
    """Write what the workers measured: `fixed` and a millisecond per record, times `slow`."""
    for worker, records in enumerate(loads.tolist()):
        seconds = (fixed + 0.001 * records) * slow.get(worker, 1.0)
        about = {"records": records, "seconds": seconds, "pairs": 0, "top": [], "sampled_by": 1}
        write_worker(ledger, batch, worker, Entry({"keys": np.empty(0, np.uint64)}, about))


# --- balance -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fish_balances_eight_sources_with_uneven_batches(ledger: Ledger) -> None:
    routing = PlanMaker(Fish(), 32, SEED)
    loads = np.zeros(32, np.int64)
    sizes = (1, 7, 1_000, 10_001, 0, 3_000, 503, 20_003)
    for batch in range(12):
        for source in range(8):
            keys = zipf(sizes[(batch + source) % 8], [batch, source])
            loads += np.bincount(run_task(routing, ledger, batch, source, keys), minlength=32)
    assert loads.sum() == 12 * sum(sizes)
    assert imbalance(loads) <= 0.01


def test_even_keys_in_small_batches_need_no_table(ledger: Ledger) -> None:
    """200 records per worker differ by 7 % by chance, and some are beyond the tolerance of 8 %."""
    routing = PlanMaker(Mixed(), 16, SEED)
    for batch in range(4):
        for source in range(2):
            keys = np.random.default_rng([batch, source]).integers(0, 1_000_000, 1_600)
            run_task(routing, ledger, batch, source, keys.astype(np.uint64))
        _, state = routing.begin(ledger, batch + 1, 0)
        assert state.n_entries[0] == 0


# --- other workers -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESCALING)
def test_a_query_goes_on_with_more_and_with_fewer_workers(name: str, ledger: Ledger) -> None:
    strategy = registry.make(name)
    batch = 0
    for n_workers in (6, 8, 8, 5, 6):
        routing = PlanMaker(strategy, n_workers, SEED)
        for _ in range(2):
            loads = run_batch(routing, ledger, batch)
            assert loads.sum() == 3 * 400
            batch += 1
    plan = ledger.read(plan_name(batch - 1))
    assert plan is not None
    assert [n for n, _ in plan.about["worker_steps"]] == [6, 8, 5, 6]


@pytest.mark.parametrize("name", RESCALING)
def test_a_replayed_batch_goes_on_with_other_workers(name: str, ledger: Ledger) -> None:
    """The first run dies in batch 2, whose plan it has published; the next one has more workers."""
    first = PlanMaker(registry.make(name), 6, SEED)
    for batch in range(2):
        run_batch(first, ledger.of_run("one"), batch)
    run_task(first, ledger.of_run("one"), 2, 0, zipf(400, 5))
    for run, n_workers in (("two", 9), ("three", 4)):
        other = PlanMaker(registry.make(name), n_workers, SEED)
        for batch in (2, 3):
            once = run_batch(other, ledger.of_run(run), batch)
            again = run_batch(other, ledger.of_run(run), batch)
            assert once.tolist() == again.tolist()


def test_what_was_learned_is_kept(ledger: Ledger) -> None:
    fish = Fish(epoch=200)
    run_batch(PlanMaker(fish, 16, SEED), ledger, 0, n_records=3_000)
    _, before = PlanMaker(fish, 16, SEED).begin(ledger, 1, 0)
    _, after = PlanMaker(fish, 20, SEED).begin(ledger, 1, 0)
    assert before.recent.summary.keys.tolist() == after.recent.summary.keys.tolist()
    assert set(fish.hot_keys(before).tolist()) <= set(fish.hot_keys(after).tolist())


def test_a_strategy_that_cannot_rescale_says_so(ledger: Ledger) -> None:
    run_batch(PlanMaker(ThreeChoices(), 6, SEED), ledger, 0)
    with pytest.raises(
        LedgerMismatch, match="workers=6, not 8: strategy 'three-choices' cannot change"
    ):
        run_batch(PlanMaker(ThreeChoices(), 8, SEED), ledger, 1)


def test_the_last_number_of_workers_is_that_of_the_last_plan(ledger: Ledger) -> None:
    assert last_workers(ledger) is None
    ledger.claim({"workers": 6})
    assert last_workers(ledger) == 6
    run_batch(PlanMaker(Cascade(), 6, SEED), ledger, 0)
    run_batch(PlanMaker(Cascade(), 9, SEED), ledger, 1)
    assert last_workers(ledger) == 9


@pytest.mark.parametrize(
    "steps",
    [
        [],
        "6",
        [[0, None]],
        [[6]],
        [[6, [1.0]]],
        [[2, [1.0, -1.0]]],
        [[2, [0.0, 0.0]]],
        [[True, None]],
    ],
)
def test_steps_that_cannot_be_are_refused(steps: Any, ledger: Ledger, tmp_path: Path) -> None:
    run_batch(PlanMaker(Cascade(), 6, SEED), ledger, 0)
    run_batch(PlanMaker(Cascade(), 6, SEED), ledger, 1)
    path = tmp_path / "ledger" / "plans" / "00000001.arrow"
    plan = from_bytes(path.read_bytes(), "")
    path.write_bytes(to_bytes(Entry(plan.arrays, plan.about | {"worker_steps": steps})))
    with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow cannot be used: worker_steps"):
        PlanMaker(Cascade(), 6, SEED).begin(ledger, 1, 0)


# --- capacities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [Fish(), Cascade()], ids=["fish", "cascade"])
def test_workers_get_records_by_their_capacities(strategy: Any, ledger: Ledger) -> None:
    speeds = (1.0, 1.0, 2.0, 4.0)
    routing = PlanMaker(strategy, 4, SEED, speeds)
    loads = sum(run_batch(routing, ledger, batch, n_records=4_000) for batch in range(3))
    assert imbalance(loads, speeds) < 0.03
    # A restart without capacities keeps them, and one with others takes those.
    same = PlanMaker(strategy, 4, SEED)
    loads = sum(run_batch(same, ledger, batch, n_records=4_000) for batch in range(3, 6))
    assert imbalance(loads, speeds) < 0.03
    other = PlanMaker(strategy, 4, SEED, (1.0, 1.0, 1.0, 1.0))
    loads = sum(run_batch(other, ledger, batch, n_records=4_000) for batch in range(6, 12))
    assert imbalance(loads) < 0.05


# --- a worker that leaves ------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESCALING)
def test_any_worker_leaves_and_comes_back_by_its_capacity(name: str, ledger: Ledger) -> None:
    strategy = registry.make(name)
    run_batch(PlanMaker(strategy, 4, SEED), ledger, 0)
    left = PlanMaker(strategy, 4, SEED, (1.0, 0.0, 1.0, 1.0))
    for batch in (1, 2, 3):
        loads = run_batch(left, ledger, batch)
        assert loads[1] == 0
        assert (np.delete(loads, 1) > 0).all()
    assert run_batch(PlanMaker(strategy, 4, SEED), ledger, 4)[1] == 0  # capacities are kept
    assert (run_batch(PlanMaker(strategy, 4, SEED, (1.0,) * 4), ledger, 5) > 0).all()


@pytest.mark.parametrize(
    ("left", "there"),
    [((), None), ((5,), [0, 1, 2, 3, 4]), ((0,), [5, 1, 2, 3, 4]), ((1, 2, 5), [0, 4, 3])],
)
def test_the_last_workers_take_the_numbers_of_those_that_left(
    left: tuple[int, ...], there: list[int] | None
) -> None:
    found = places(np.array([float(worker not in left) for worker in range(6)]))
    assert (None if found is None else found.tolist()) == there


# --- waiting times -------------------------------------------------------------------------------


def test_all_workers_are_idle_when_a_micro_batch_begins(ledger: Ledger) -> None:
    fish = Fish()
    for batch in range(3):
        now, state = PlanMaker(fish, 8, SEED).begin(ledger, batch, 1)
        assert not fish.waiting(state).any()
        assert fish.hot_keys(state).size or batch == 0  # what was learned stays
        run_batch(now, ledger, batch)


# --- measured speeds -----------------------------------------------------------------------------


def measuring(strategy: Any) -> PlanMaker:
    return PlanMaker(strategy, 8, SEED, measures_speeds=True)


def seconds_of(routing: PlanMaker, ledger: Ledger, batch: int) -> Floats:
    _, state = routing.begin(ledger, batch, 0)
    seconds: Floats = state.backlog.seconds
    return seconds


def test_measured_speeds_change_nothing_unless_they_are_asked_for(ledger: Ledger) -> None:
    routing = PlanMaker(Fish(), 8, SEED)
    for batch in range(5):
        loads = run_batch(routing, ledger, batch, n_records=4_000)
        worker_reports(ledger, batch, loads, slow={3: 2.0})
        assert imbalance(loads) < 0.01
    assert (seconds_of(routing, ledger, 5) == Fish().seconds_per_record).all()


def test_a_worker_that_is_measured_to_be_slow_gets_half_of_the_records(ledger: Ledger) -> None:
    routing = measuring(Fish())
    for batch in range(5):
        loads = run_batch(routing, ledger, batch, n_records=4_000)
        worker_reports(ledger, batch, loads, slow={3: 2.0})
    assert loads[3] == pytest.approx(0.5 * np.delete(loads, 3).mean(), rel=0.05)
    for batch in range(5, 9):  # and it recovers
        loads = run_batch(routing, ledger, batch, n_records=4_000)
        worker_reports(ledger, batch, loads, slow={})
    assert imbalance(loads) < 0.02


def test_noise_of_a_fifth_changes_nothing(ledger: Ledger) -> None:
    routing = measuring(Fish())
    rng = np.random.default_rng(1)
    for batch in range(5):
        loads = run_batch(routing, ledger, batch, n_records=4_000)
        noise = dict(enumerate(rng.uniform(0.9, 1.1, 8).tolist()))
        worker_reports(ledger, batch, loads, slow=noise)
        assert imbalance(loads) < 0.01


@pytest.mark.parametrize(
    ("paused", "fixed"), [((0,), 20.0), ((4,), 0.0), ((4,), 20.0), ((3, 4, 5), 0.5)], ids=str
)
def test_a_pause_is_forgotten_whatever_a_task_costs(
    paused: tuple[int, ...], fixed: float, ledger: Ledger
) -> None:
    """A task costs `fixed` seconds, a record a millisecond; one worker takes 3 times as long."""
    routing = measuring(Fish())
    for batch in range(12):
        loads = run_batch(routing, ledger, batch, n_records=4_000)
        slow = {3: 3.0} if batch in paused else {}
        worker_reports(ledger, batch, loads, slow=slow, fixed=fixed)
        if len(paused) == 1:
            assert imbalance(loads) < 0.02  # one pause is not even noticed
    seconds = seconds_of(routing, ledger, 12)
    assert (seconds == seconds[0]).all()


def test_little_work_is_not_measured(ledger: Ledger) -> None:
    routing = measuring(Fish())
    for batch in range(5):
        loads = run_batch(routing, ledger, batch, n_records=8)
        worker_reports(ledger, batch, loads, slow={3: 2.0})
        seconds = seconds_of(routing, ledger, batch + 1)
        assert (seconds == seconds[0]).all()


def test_a_plan_with_measured_speeds_is_made_again_alike(ledger: Ledger, tmp_path: Path) -> None:
    routing = measuring(Fish())
    for batch in range(4):
        loads = run_batch(routing, ledger, batch, n_records=2_000)
        worker_reports(ledger, batch, loads, slow={2: 3.0})
    path = tmp_path / "ledger" / "plans" / "00000004.arrow"
    routing.begin(ledger, 4, 0)
    once = path.read_bytes()
    path.unlink()
    routing.begin(ledger, 4, 1)
    assert path.read_bytes() == once
    plan = ledger.read(plan_name(4))
    assert plan is not None
    json.dumps(plan.about)
    times = seconds_of(routing, ledger, 4)
    assert times[2] / times[0] == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("strategy", [Fish(heuristic=False), Cascade()], ids=["fish", "cascade"])
def test_a_strategy_without_waits_is_told_no_speeds(strategy: Any, ledger: Ledger) -> None:
    routing = measuring(strategy)
    for batch in range(3):
        loads = run_batch(routing, ledger, batch, n_records=2_000)
        worker_reports(ledger, batch, loads, slow={2: 3.0})
    plan = ledger.read(plan_name(2))
    assert plan is not None
    assert not any(name.startswith("last") for name in plan.arrays)


def test_a_report_says_what_records_cost_where_they_have_weights(ledger: Ledger) -> None:
    routing = PlanMaker(Cascade(), 3, SEED)
    now, state = routing.begin(ledger, 0, 0)
    loads, costs = np.array([2, 0, 1]), np.array([2.5, 0.0, 4.0])
    write_report(ledger, 0, 0, now.report(state, loads, None, {}, costs=costs))
    write_report(ledger, 0, 1, now.report(state, loads, None, {}, costs=costs))
    balance = read_balance(ledger, 0, 3)
    assert [row.cost for row in balance.workers] == [5.0, 0.0, 8.0]
    assert balance.cost_imbalance == imbalance([5.0, 0.0, 8.0])
    assert balance.imbalance == 1.0
    write_report(ledger, 1, 0, now.report(state, loads, None, {}))
    assert read_balance(ledger, 1, 3).cost_imbalance is None
    bad = np.array([1.0, np.nan, 1.0])
    write_report(ledger, 2, 0, now.report(state, loads, None, {}, costs=bad))
    with pytest.raises(LedgerCorrupt, match="costs"):
        read_balance(ledger, 2, 3)
