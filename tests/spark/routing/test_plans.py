"""Plans: what sources route by follows from what they reported, whoever computes it and when."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless import registry
from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import plan_name
from skewless.spark.routing.bounded_counts import add
from skewless.spark.routing.plans import KEPT_BATCHES, PlanMaker
from skewless.strategies.cascade import Cascade
from skewless.strategies.mixed.mixed import Mixed
from skewless.strategies.partial_key import PartialKey
from spark.ledger.entries import write_report
from spark.routing.source_tasks import (
    N_RECORDS,
    N_SOURCES,
    N_WORKERS,
    SEED,
    keys_of,
    route,
    run_task,
    same,
    simulated,
)


@pytest.mark.parametrize("name", registry.names())
def test_tasks_with_a_ledger_route_as_sources_that_share_memory(name: str, ledger: Ledger) -> None:
    strategy = registry.make(name)
    routing = PlanMaker(strategy, N_WORKERS, SEED)
    wanted = simulated(strategy, 4)
    for (batch, source), workers in wanted.items():
        np.testing.assert_array_equal(run_task(routing, ledger, batch, source), workers)


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_a_batch_that_is_replayed_is_routed_as_before(name: str, ledger: Ledger) -> None:
    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    for batch in range(2):
        for source in range(N_SOURCES):
            run_task(routing, ledger, batch, source)
    before = [run_task(routing, ledger, 2, source) for source in range(N_SOURCES)]
    again = [run_task(routing, ledger, 2, source) for source in range(N_SOURCES)]
    np.testing.assert_array_equal(before, again)


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_reports_of_a_run_that_was_given_up_do_not_count(name: str, tmp_path: Path) -> None:
    """Runs with their numbers of sources: `b` ends in the middle of batch 1, `c` repeats it."""

    def plan_after(folder: str, *attempts: tuple[str, int]) -> dict[str, bytes]:
        ledger = Ledger(str(tmp_path / folder))
        for source in range(3):
            run_task(routing, ledger, 0, source, "a")
        for run, n_sources in attempts:
            for source in range(n_sources):
                run_task(routing, ledger, 1, source, run)
        plan = routing.next_plan(ledger.of_run(attempts[-1][0]), 2)
        return {array_name: array.tobytes() for array_name, array in plan.arrays.items()}

    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    wanted = plan_after("calm", ("c", 2))
    assert plan_after("restarted", ("b", 3), ("c", 2)) == wanted
    assert plan_after("with more sources", ("b", 1), ("c", 2)) == wanted
    assert plan_after("tasks run again", ("b", 3), ("c", 1), ("c", 2)) == wanted
    assert plan_after("all of b", ("b", 3)) != wanted
    # A task of `b` writes when `c` has finished the batch already.
    assert plan_after("late", ("b", 1), ("c", 2), ("b", 3), ("c", 0)) == wanted


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_all_tasks_of_a_run_make_the_same_plan_whatever_is_written_late(
    name: str, ledger: Ledger
) -> None:
    """What tasks on S3 need, where the last of two plans counts and not the first."""
    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    for source in range(3):
        run_task(routing, ledger, 0, source, "dead")
    for batch in (0, 1):
        for source in range(2):
            run_task(routing, ledger, batch, source, "alive")
    for reader in (ledger.of_run("alive"), ledger.of_run("next")):
        plans = []
        for source in range(4):
            plans.append(routing.next_plan(reader, 2).arrays)
            run_task(routing, ledger, 1, source, "dead")
        for plan in plans[1:]:
            assert {n: a.tobytes() for n, a in plan.items()} == {
                n: a.tobytes() for n, a in plans[0].items()
            }


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_a_plan_does_not_depend_on_which_attempt_of_a_task_wrote_last(
    name: str, ledger: Ledger
) -> None:
    """Attempts differ in how long they took, and in nothing else."""
    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    plans = []
    for seconds in (0.1, 7.0):
        for source in range(2):
            state = routing.start(source)
            workers = route(routing.strategy, keys_of(0, source), state)
            loads = np.bincount(workers, minlength=N_WORKERS)
            about = {"records": N_RECORDS, "seconds": seconds * source}
            seen = routing.seen()
            if seen is not None:
                add(seen, keys_of(0, source))
            write_report(ledger, 0, source, routing.report(state, loads, seen, about))
        ledger.publish(plan_name(0), routing.next_plan(ledger, 0))
        plans.append(to_bytes(routing.next_plan(ledger, 1)))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_whoever_makes_the_plan_makes_the_same(name: str, ledger: Ledger) -> None:
    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    for source in range(N_SOURCES):
        run_task(routing, ledger, 0, source)
    first, second = (routing.next_plan(ledger, 1) for _ in range(2))
    assert first.about == second.about
    assert first.arrays.keys() == second.arrays.keys()
    assert all(a.tobytes() == second.arrays[n].tobytes() for n, a in first.arrays.items())


def test_sources_that_share_start_with_what_the_others_know(ledger: Ledger) -> None:
    routing = PlanMaker(Cascade(), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    newcomer = routing.begin(ledger, 1, source=7)[1]
    assert same(newcomer, routing.begin(ledger, 1, source=0)[1])
    assert not same(newcomer, routing.start(7))


def test_a_source_that_keeps_its_own_finds_it_after_a_while_away(ledger: Ledger) -> None:
    routing = PlanMaker(PartialKey(), N_WORKERS, SEED)
    state = routing.start(1)
    route(routing.strategy, keys_of(0, 1), state)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    for batch in (1, 2):
        run_task(routing, ledger, batch, 0)
    assert same(routing.begin(ledger, 3, 1)[1], state)


def test_what_nobody_told_for_long_is_forgotten(ledger: Ledger) -> None:
    routing = PlanMaker(PartialKey(), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    last = KEPT_BATCHES + 16
    for batch in range(1, last):
        run_task(routing, ledger, batch, 0)
    assert same(routing.begin(ledger, last, 1)[1], routing.start(1))
    assert not same(routing.begin(ledger, last, 0)[1], routing.start(0))
    assert len(ledger.batches()) <= KEPT_BATCHES + 16


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "mixed"])
def test_a_batch_without_records_loses_nothing(name: str, ledger: Ledger) -> None:
    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    known = routing.begin(ledger, 1, 0)[1]  # a plan, and nobody reports
    assert not same(known, routing.start(0))
    later = routing.begin(ledger, 5, 0)[1]  # and batches that had no task at all
    if name != "mixed":  # a controller may move keys back when it sees no load
        assert same(later, known)
    assert routing.begin(ledger, 5, 0)[1] is not later


def test_keys_move_between_batches_and_only_then(ledger: Ledger) -> None:
    routing = PlanMaker(Mixed(), N_WORKERS, SEED)
    homes: list[dict[int, set[int]]] = []
    for batch in range(3):
        seen: dict[int, set[int]] = {}
        for source in range(N_SOURCES):
            workers = run_task(routing, ledger, batch, source)
            for key, worker in zip(keys_of(batch, source).tolist(), workers.tolist(), strict=True):
                seen.setdefault(key, set()).add(worker)
        assert all(len(workers) == 1 for workers in seen.values())
        homes.append(seen)
    moved = [key for key in homes[0] if key in homes[1] and homes[0][key] != homes[1][key]]
    assert moved
