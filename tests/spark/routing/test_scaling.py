"""`scale_to` changes the workers of a query between two micro-batches, without a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from examples.three_choices import ThreeChoices
from skewless import registry
from skewless.spark import scale_to
from skewless.spark.balance.balance import read_balance
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import plan_name
from skewless.spark.routing import router as routers
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import QueryLedger, Task
from skewless.spark.routing.router import Router
from skewless.spark.routing.worker_steps import Wishes, last_workers
from skewless.strategies import Cascade, PartialKey
from spark.routing.batches import run_batch, run_task, zipf

SEED = 11
#: One that keeps its own states, one that merges, one that condenses, one that rebalances.
FORMS = ("pkg", "fish", "cascade", "mixed")


def maker(
    strategy: Any,
    n_workers: int = 16,
    most: int = 24,
    speeds: tuple[float, ...] | None = None,
    asked: int | None = 16,
) -> PlanMaker:
    """Return what a run of a query with room for `most` workers decides by."""
    first = None if speeds is None else speeds[:n_workers]
    return PlanMaker(strategy, n_workers, SEED, first, given=Wishes(asked, most, speeds))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.mark.parametrize("name", FORMS)
def test_16_then_12_then_20_workers_in_mid_stream(name: str, ledger: Ledger, place: str) -> None:
    routing = maker(registry.make(name))
    ledger.claim({"workers": 16})
    used = []
    for batch, n_workers in enumerate((None, None, 12, None, 20, None)):
        if n_workers is not None:
            scale_to(place, n_workers)
        loads = run_batch(routing, ledger, batch, n_records=2_000)
        assert loads.sum() == 6_000
        used.append(loads.size)
        again = run_batch(routing, ledger, batch, n_records=2_000)
        assert again.tolist() == loads.tolist()
    assert used == [16, 16, 12, 12, 20, 20]
    assert last_workers(ledger) == 20


def test_a_replayed_batch_has_the_workers_of_its_plan(ledger: Ledger, place: str) -> None:
    routing = maker(Cascade())
    for batch in range(2):
        run_batch(routing, ledger.of_run("one"), batch)
    run_task(routing, ledger.of_run("one"), 2, 0, zipf(400, 5))
    scale_to(place, 12)  # while batch 2 runs
    for run in ("one", "two"):  # the same run, and one after a restart
        assert run_batch(routing, ledger.of_run(run), 2).size == 16
    assert run_batch(routing, ledger.of_run("two"), 3).size == 12


def test_a_stopped_query_follows_the_request_when_it_is_restarted(
    ledger: Ledger, place: str
) -> None:
    run_batch(maker(Cascade()), ledger.of_run("one"), 0)
    scale_to(place, 20)
    scale_to(place, 18)
    # With the same number, with the ledger's, and with room for fewer.
    assert run_batch(maker(Cascade()), ledger.of_run("two"), 1).size == 18
    assert run_batch(maker(Cascade(), asked=None), ledger.of_run("three"), 2).size == 18
    scale_to(place, 19)
    assert run_batch(maker(Cascade()), ledger.of_run("next"), 3).size == 19
    assert run_batch(maker(Cascade(), most=17), ledger.of_run("four"), 4).size == 17
    assert run_batch(maker(Cascade(), 14, 24, asked=14), ledger.of_run("five"), 5).size == 14


def test_another_number_at_the_restart_drops_an_open_request(
    ledger: Ledger, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_batch(maker(Cascade()), ledger, 0)
    scale_to(place, 20)
    other = maker(Cascade(), 14, asked=14)
    for batch in (1, 2):
        assert run_batch(other, ledger, batch).size == 14
    (line,) = [line for line in caplog.messages if "is dropped" in line]
    assert "workers=14 was given at the restart" in line
    scale_to(place, 20)
    assert run_batch(other, ledger, 3).size == 20


def test_a_request_with_too_little_room_stays_open(
    ledger: Ledger, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_batch(maker(Cascade()), ledger, 0)
    scale_to(place, 20)
    small = maker(Cascade(), most=16)
    for batch in (1, 2):
        assert run_batch(small, ledger, batch).size == 16
    assert len([line for line in caplog.messages if "room for 16" in line]) == 1
    assert run_batch(maker(Cascade()), ledger, 3).size == 20


@pytest.mark.parametrize("name", FORMS)
def test_a_worker_that_has_left_stays_away(name: str, ledger: Ledger, place: str) -> None:
    speeds = tuple(0.0 if worker in (1, 14) else 1.0 for worker in range(24))
    routing = maker(registry.make(name), speeds=speeds)
    for batch, n_workers in enumerate((16, 12, 20)):
        if batch:
            scale_to(place, n_workers)
        loads = run_batch(routing, ledger, batch, n_records=2_000)
        assert loads.size == n_workers
        assert not loads[[worker for worker in (1, 14) if worker < n_workers]].any()
        assert loads.sum() == 6_000


@pytest.mark.parametrize("name", FORMS)
def test_capacities_that_are_not_given_again_are_kept(
    name: str, ledger: Ledger, place: str
) -> None:
    """A restart without capacities, then other numbers: the worker that left stays away."""
    speeds = tuple(float(worker not in (1, 14)) for worker in range(24))
    run_batch(maker(registry.make(name), speeds=speeds), ledger.of_run("one"), 0)
    again = maker(registry.make(name))
    for batch, n_workers in enumerate((12, 16, 20), 1):
        scale_to(place, n_workers)
        loads = run_batch(again, ledger.of_run("two"), batch, n_records=2_000)
        assert loads.size == n_workers
        assert not loads[[worker for worker in (1, 14) if worker < n_workers]].any()
        assert np.count_nonzero(loads) == n_workers - (1 if n_workers == 12 else 2)


def test_a_request_that_kept_capacities_do_not_allow_is_refused(ledger: Ledger, place: str) -> None:
    run_batch(maker(Cascade(), speeds=(0.0, *(1.0,) * 23)), ledger.of_run("one"), 0)
    run_batch(maker(Cascade()), ledger.of_run("two"), 1)
    with pytest.raises(ValueError, match="n must leave a worker whose capacity is above 0, not 1"):
        scale_to(place, 1)
    # One that comes with `workers=` leaves no capacity to keep, so all are alike.
    assert run_batch(maker(Cascade(), 1, 1, asked=1), ledger.of_run("three"), 2).size == 1


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("is_followed", [False, True])
def test_other_capacities_that_leave_no_worker_of_a_request_keep_more_workers(
    name: str, is_followed: bool, ledger: Ledger, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The request came before the capacities, so `scale_to` could not refuse it."""
    before = maker(registry.make(name), 4, 4, asked=4)
    run_batch(before, ledger.of_run("one"), 0)
    scale_to(place, 2)
    if is_followed:
        assert run_batch(before, ledger.of_run("one"), 1).size == 2
    after = maker(registry.make(name), 4, 4, (0.0, 0.0, 1.0, 1.0), asked=4)
    for batch in (2, 3):
        loads = run_batch(after, ledger.of_run("two"), batch)
        assert loads[:2].tolist() == [0, 0]
        assert (loads[2:] > 0).all()
    (line,) = [line for line in caplog.messages if "capacities of the first 2 are 0" in line]
    assert "continues with 4 workers instead of 2" in line


def test_state_and_balance_go_on(ledger: Ledger, place: str) -> None:
    """After one micro-batch the workers are as even as those of a query that began with them."""
    routing, fresh = maker(Cascade()), Ledger(place + "-fresh")
    for batch, n_workers in enumerate((16, 12, 20)):
        if batch:
            scale_to(place, n_workers)
        run_batch(routing, ledger, 2 * batch, n_records=3_000)
        loads = run_batch(routing, ledger, 2 * batch + 1, n_records=3_000)
        own = PlanMaker(Cascade(), n_workers, SEED)
        run_batch(own, fresh.below(str(n_workers)), 2 * batch, n_records=3_000)
        wanted = run_batch(own, fresh.below(str(n_workers)), 2 * batch + 1, n_records=3_000)
        assert loads.max() <= wanted.max() + 0.1 * wanted.mean()


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (0, "n must be 1 …"),
        (25, "n must be at most 24, which is max_workers of the query, not 25"),
        (True, "n must be a whole number, not True"),
        ("4", "n must be a whole number, not '4'"),
        (2.5, "n must be a whole number, not 2.5"),
        (None, "n must be a whole number, not None"),
        (1, "n must leave a worker whose capacity is above 0, not 1"),
    ],
)
def test_bad_numbers_are_refused_and_nothing_is_written(
    n: Any, message: str, ledger: Ledger, place: str
) -> None:
    speeds = (0.0, *(1.0,) * 23)
    run_batch(maker(Cascade(), speeds=speeds), ledger, 0)
    with pytest.raises(ValueError, match=message):
        scale_to(place, n)
    assert not (Path(place) / "scale").exists()


def test_without_max_workers_there_can_be_fewer_but_not_more(ledger: Ledger, place: str) -> None:
    with pytest.raises(ValueError, match="holds no plan yet"):
        scale_to(place, 4)
    routing = PlanMaker(PartialKey(), 6, SEED)
    run_batch(routing, ledger, 0)
    with pytest.raises(ValueError, match="n must be at most 6, which is max_workers"):
        scale_to(place, 8)
    scale_to(place, 4)
    assert run_batch(routing, ledger, 1).size == 4


def test_a_strategy_that_cannot_rescale_is_refused(ledger: Ledger, place: str) -> None:
    run_batch(PlanMaker(ThreeChoices(), 6, SEED), ledger, 0)
    with pytest.raises(ValueError, match="cannot change the number of workers"):
        scale_to(place, 4)


def test_a_ledger_from_before_has_no_wishes(ledger: Ledger, place: str) -> None:
    """Its plans say nothing of what was asked for; the number at the restart counts."""
    run_batch(maker(Cascade()), ledger, 0)
    plan = ledger.read(plan_name(0))
    assert plan is not None
    for name in ("asked", "most", "speeds", "rescales", "request"):
        del plan.about[name]
    ledger.write(plan_name(0), plan)
    scale_to(place, 20)
    assert run_batch(maker(Cascade()), ledger, 1).size == 20


def test_an_empty_batch_scales_too(ledger: Ledger, place: str) -> None:
    routing = maker(registry.make("fish"))
    run_batch(routing, ledger, 0)
    scale_to(place, 12)
    assert run_batch(routing, ledger, 1, n_records=0).size == 12
    assert np.count_nonzero(run_batch(routing, ledger, 2)) == 12


def test_the_task_of_a_source_follows_the_plan(
    ledger: Ledger, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the code of a task: the workers of its records, and the report that it writes."""
    speeds = tuple(float(worker != 1) for worker in range(24))
    router = Router(maker(PartialKey(), speeds=speeds), QueryLedger({"seed": SEED}, ledger))
    for batch, n_workers in enumerate((16, 12, 20)):
        if batch:
            scale_to(place, n_workers)
        monkeypatch.setattr(routers, "this_task", lambda: Task(0, batch, "query", "run"))  # noqa: B023
        hashes = pa.array(zipf(4_000, batch).view(np.int64))
        (workers,) = router.route(iter([(hashes,)]))
        assert set(workers.to_pylist()) == set(range(n_workers)) - {1}
        found = read_balance(ledger, batch, 16)
        assert found is not None
        assert [row.records for row in found.workers] == np.bincount(workers).tolist()
