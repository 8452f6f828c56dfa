"""Plans: what sources route by follows from what they reported, whoever computes it and when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless import registry
from skewless.arrays import Keys, Workers
from skewless.kernels.bounded_counts import add
from skewless.simulator.cooperation import merge_and_fork
from skewless.spark.ledger.files import Entry, from_bytes, seal, to_bytes, unseal
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerMismatch, LedgerTooNew
from skewless.spark.routing import plans
from skewless.spark.routing.plans import KEPT_BATCHES, Routing
from skewless.state import copy_state, named_arrays, state_bytes
from skewless.strategies.cascade import Cascade
from skewless.strategies.mixed import Mixed
from skewless.strategies.partial_key import PartialKey
from skewless.strategy import Merges, Rebalances, Report

N_WORKERS, SEED, N_SOURCES, N_RECORDS = 6, 11, 3, 400


def keys_of(batch: int, source: int) -> Keys:
    """Return the records that a source reads in a batch: some keys are hot, others come and go.

    None is so hot that it alone is above a worker's share: `mixed` would then move nothing.
    """
    rng = np.random.default_rng([batch, source])
    return (rng.integers(0, 60, N_RECORDS) ** 2 // 60 + 20 * (batch // 2)).astype(np.uint64)


def route(strategy: Any, keys: Keys, state: Any) -> Workers:
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, state, out)
    return out


def run_task(
    routing: Routing, ledger: Ledger, batch: int, source: int, run: str | None = None
) -> Workers:
    """Do what a task does: resume, route, report."""
    ledger = ledger.of_run(run)
    state = routing.resume(ledger, batch, source)
    keys = keys_of(batch, source)
    workers = route(routing.strategy, keys, state)
    loads = np.bincount(workers, minlength=routing.n_workers)
    seen = routing.seen()
    if seen is not None:
        add(seen, keys)
    ledger.write_report(batch, source, routing.report(state, loads, seen, {}))
    return workers


def simulated(strategy: Any, n_batches: int) -> dict[tuple[int, int], Workers]:
    """Return the workers of all records, with states handed on in memory."""
    states = [strategy.start(N_WORKERS, SEED, source=s) for s in range(N_SOURCES)]
    table = strategy.start(N_WORKERS, SEED, source=0)
    found = {}
    for batch in range(n_batches):
        for source, state in enumerate(states):
            found[batch, source] = route(strategy, keys_of(batch, source), state)
        if isinstance(strategy, Rebalances):
            keys = np.concatenate([keys_of(batch, source) for source in range(N_SOURCES)])
            distinct, counts = np.unique(keys, return_counts=True)
            report = Report(distinct, counts.astype(np.float64), np.ones(distinct.size))
            table, _ = strategy.rebalance(report, table)
            states = [copy_state(table) for _ in states]
        elif isinstance(strategy, Merges):
            states = merge_and_fork(strategy, states)
    return found


def same(one: Any, other: Any) -> bool:
    pairs = zip(named_arrays(one), named_arrays(other), strict=True)
    return all(a.tobytes() == b.tobytes() for (_, a), (_, b) in pairs)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger"))


@pytest.mark.parametrize("name", registry.names())
def test_tasks_with_a_ledger_route_as_sources_that_share_memory(name: str, ledger: Ledger) -> None:
    strategy = registry.make(name)
    routing = Routing(strategy, N_WORKERS, SEED)
    wanted = simulated(strategy, 4)
    for (batch, source), workers in wanted.items():
        np.testing.assert_array_equal(run_task(routing, ledger, batch, source), workers)


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_a_batch_that_is_replayed_is_routed_as_before(name: str, ledger: Ledger) -> None:
    routing = Routing(registry.make(name), N_WORKERS, SEED)
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

    routing = Routing(registry.make(name), N_WORKERS, SEED)
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
    routing = Routing(registry.make(name), N_WORKERS, SEED)
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
    routing = Routing(registry.make(name), N_WORKERS, SEED)
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
            ledger.write_report(0, source, routing.report(state, loads, seen, about))
        ledger.publish_plan(0, routing.next_plan(ledger, 0))
        plans.append(to_bytes(routing.next_plan(ledger, 1)))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "pkg", "mixed"])
def test_whoever_makes_the_plan_makes_the_same(name: str, ledger: Ledger) -> None:
    routing = Routing(registry.make(name), N_WORKERS, SEED)
    for source in range(N_SOURCES):
        run_task(routing, ledger, 0, source)
    first, second = (routing.next_plan(ledger, 1) for _ in range(2))
    assert first.about == second.about
    assert first.arrays.keys() == second.arrays.keys()
    assert all(a.tobytes() == second.arrays[n].tobytes() for n, a in first.arrays.items())


def test_sources_that_share_start_with_what_the_others_know(ledger: Ledger) -> None:
    routing = Routing(Cascade(), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    newcomer = routing.resume(ledger, 1, source=7)
    assert same(newcomer, routing.resume(ledger, 1, source=0))
    assert not same(newcomer, routing.start(7))


def test_a_source_that_keeps_its_own_finds_it_after_a_while_away(ledger: Ledger) -> None:
    routing = Routing(PartialKey(), N_WORKERS, SEED)
    state = routing.start(1)
    route(routing.strategy, keys_of(0, 1), state)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    for batch in (1, 2):
        run_task(routing, ledger, batch, 0)
    assert same(routing.resume(ledger, 3, 1), state)


def test_what_nobody_told_for_long_is_forgotten(ledger: Ledger) -> None:
    routing = Routing(PartialKey(), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    last = KEPT_BATCHES + 16
    for batch in range(1, last):
        run_task(routing, ledger, batch, 0)
    assert same(routing.resume(ledger, last, 1), routing.start(1))
    assert not same(routing.resume(ledger, last, 0), routing.start(0))
    assert len(ledger.batches()) <= KEPT_BATCHES + 16


@pytest.mark.parametrize("name", ["cascade", "cascade-ahead", "dalton", "mixed"])
def test_a_batch_without_records_loses_nothing(name: str, ledger: Ledger) -> None:
    routing = Routing(registry.make(name), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    known = routing.resume(ledger, 1, 0)  # a plan, and nobody reports
    assert not same(known, routing.start(0))
    later = routing.resume(ledger, 5, 0)  # and batches that had no task at all
    if name != "mixed":  # a controller may move keys back when it sees no load
        assert same(later, known)
    assert routing.resume(ledger, 5, 0) is not later


def test_keys_move_between_batches_and_only_then(ledger: Ledger) -> None:
    routing = Routing(Mixed(), N_WORKERS, SEED)
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


def test_a_damaged_plan_or_report_is_an_error_and_never_a_guess(
    ledger: Ledger, tmp_path: Path
) -> None:
    routing = Routing(Cascade(), N_WORKERS, SEED)
    run_task(routing, ledger, 0, 0)
    (report,) = (tmp_path / "ledger" / "reports").rglob("*.arrow")
    whole = report.read_bytes()
    report.write_bytes(whole[:-5])
    with pytest.raises(LedgerCorrupt, match=r"source-00000\.arrow"):
        routing.resume(ledger, 1, 0)
    report.write_bytes(whole)
    routing.resume(ledger, 1, 0)
    plan = tmp_path / "ledger" / "plans" / "00000001.arrow"
    plan.write_bytes(plan.read_bytes()[:100])
    with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow"):
        routing.resume(ledger, 1, 0)


def test_a_plan_of_a_later_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    routing = Routing(Cascade(), N_WORKERS, SEED)
    run_task(routing, ledger, 0, 0)
    plan = tmp_path / "ledger" / "plans" / "00000000.arrow"
    table = pa.ipc.open_stream(unseal(plan.read_bytes(), "plan")).read_all()
    newer = table.replace_schema_metadata(table.schema.metadata | {b"version": b"2"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, newer.schema) as writer:
        writer.write_table(newer)
    plan.write_bytes(seal(sink.getvalue().to_pybytes()))
    with pytest.raises(LedgerTooNew, match=r"00000000\.arrow"):
        routing.resume(ledger, 0, 0)


def rewritten(path: Path, change: Any) -> None:
    """Seal the file again after `change` was made to what it holds."""
    entry = from_bytes(path.read_bytes(), "here")
    arrays, about = dict(entry.arrays), dict(entry.about)
    change(arrays, about)
    path.write_bytes(to_bytes(Entry(arrays, about)))


N_SLOTS = Cascade().start(N_WORKERS, SEED).owners.size


def whole(arrays: dict[str, Any], name: str, array: Any) -> None:
    """Make an array of the shared state this one, instead of a few changes."""
    arrays.pop(f"shared.{name}@", None)
    arrays[f"shared.{name}"] = array


CHANGES = {
    "no sources": lambda arrays: arrays.pop("sources"),
    "no reported": lambda arrays: arrays.pop("reported"),
    "sources twice": lambda arrays: arrays.update(sources=np.array([0, 0])),
    "more reported": lambda arrays: arrays.update(reported=np.array([0, 0, 0])),
    "text": lambda arrays: arrays.update(sources=np.array(["0", "1"])),
    "a strange array": lambda arrays: arrays.update({"shared.more": np.zeros(3)}),
    "keys without counts": lambda arrays: arrays.pop("shared.counts"),
    "another order of bytes": lambda arrays: whole(arrays, "levels", np.ones(N_WORKERS, ">f8")),
    "long owners": lambda arrays: whole(arrays, "owners", np.zeros(1 << 20, np.int32)),
    "an owner that is not there": lambda arrays: whole(
        arrays, "owners", np.full(N_SLOTS, 1 << 30, np.int32)
    ),
    "a negative owner": lambda arrays: whole(arrays, "owners", np.full(N_SLOTS, -7, np.int32)),
    "a reach beyond all workers": lambda arrays: (
        whole(arrays, "wide", np.zeros(1, np.int32)),
        whole(arrays, "reaches", np.full(1, 1 << 20, np.int32)),
    ),
    "levels that are no numbers": lambda arrays: whole(
        arrays, "levels", np.full(N_WORKERS, np.nan)
    ),
    "a change of a worker that is not there": lambda arrays: arrays.update(
        {"shared.levels@": np.array([1 << 20], np.uint32), "shared.levels": np.ones(1)}
    ),
    "keys of no bucket": lambda arrays: whole(arrays, "keys", np.ones(1, np.uint64)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_plan_from_a_stranger_is_refused_in_one_line(
    change: Any, ledger: Ledger, tmp_path: Path
) -> None:
    routing = Routing(Cascade(), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    routing.resume(ledger, 1, 0)
    path = tmp_path / "ledger" / "plans" / "00000001.arrow"
    rewritten(path, lambda arrays, about: change(arrays))
    with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow cannot be used: ") as refused:
        routing.resume(ledger, 1, 0)
    assert "\n" not in str(refused.value)


def test_a_plan_of_another_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    routing = Routing(Cascade(), 64, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    routing.resume(ledger, 1, 0)
    path = tmp_path / "ledger" / "plans" / "00000001.arrow"
    plan = from_bytes(path.read_bytes(), "")
    path.write_bytes(to_bytes(Entry(plan.arrays, plan.about | {"shared.base": 1})))
    with pytest.raises(LedgerMismatch, match=r"00000001\.arrow was written by another version"):
        routing.resume(ledger, 1, 0)


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("cascade", lambda arrays: arrays.pop("loads"), "no array 'loads'"),
        ("cascade", lambda arrays: arrays.update(loads=np.zeros(9, np.int64)), "loads must be 6"),
        (
            "cascade",
            lambda arrays: arrays.update({"own.owners": np.full(N_SLOTS, 6, np.int32)}),
            "owners must be",
        ),
        ("mixed", lambda arrays: arrays.update(keys=np.zeros(3)), "keys must be a row of uint64"),
        ("mixed", lambda arrays: arrays["counts"].fill(-1), "counts must be from 0"),
        ("mixed", lambda arrays: arrays.update(counts=np.ones(1, np.int64)), "as many"),
    ],
)
def test_a_report_from_a_stranger_is_refused(
    name: str, change: Any, text: str, ledger: Ledger, tmp_path: Path
) -> None:
    routing = Routing(registry.make(name), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    (path, _) = sorted((tmp_path / "ledger" / "reports").rglob("*.arrow"))
    rewritten(path, lambda arrays, about: change(arrays))
    with pytest.raises(LedgerCorrupt, match=rf"source-00000\.arrow cannot be used: .*{text}"):
        routing.resume(ledger, 1, 0)


class Watching(Mixed):
    """Mixed that keeps the reports which it was given."""

    reports: ClassVar[list[Report]] = []

    def rebalance(self, report: Report, state: Any) -> Any:
        self.reports.append(report)
        return super().rebalance(report, state)


def test_a_report_names_the_heaviest_keys_and_the_rest_is_counted_by_worker(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "REPORTED_KEYS", 8)
    monkeypatch.setattr(plans, "_PLANNED_KEYS", 8)
    monkeypatch.setattr(Watching, "reports", [])
    routing = Routing(Watching(), N_WORKERS, SEED)
    workers = [run_task(routing, ledger, 0, source) for source in range(N_SOURCES)]
    told = ledger.read_reports(0)
    assert all(report.arrays["keys"].size <= 8 for report in told.values())
    routing.resume(ledger, 1, 0)
    (report,) = Watching.reports
    assert 0 < report.keys.size <= 16
    assert report.rest is not None
    owners = route(routing.strategy, report.keys, routing.start(0))
    loads = np.bincount(owners, report.loads, N_WORKERS) + report.rest
    np.testing.assert_array_equal(loads, np.bincount(np.concatenate(workers), minlength=N_WORKERS))
    exact = Counter(np.concatenate([keys_of(0, source) for source in range(N_SOURCES)]).tolist())
    for key, load in zip(report.keys.tolist(), report.loads.tolist(), strict=True):
        assert load <= exact[key]
    heaviest_key = max(exact, key=lambda key: exact[key])
    assert heaviest_key in report.keys


def test_a_report_that_names_every_key_has_no_rest(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watching, "reports", [])
    routing = Routing(Watching(), N_WORKERS, SEED)
    for source in range(N_SOURCES):
        run_task(routing, ledger, 0, source)
    routing.resume(ledger, 1, 0)
    (report,) = Watching.reports
    assert report.rest is None
    assert report.loads.sum() == N_SOURCES * N_RECORDS


def test_what_a_router_remembers_of_keys_is_bounded() -> None:
    routing = Routing(Mixed(), N_WORKERS, SEED)
    seen = routing.seen()
    assert seen is not None
    before = state_bytes(seen)
    for part in range(10):
        add(seen, np.arange(part * 20_000, (part + 1) * 20_000, dtype=np.uint64))
    assert state_bytes(seen) == before < 5e6
    report = routing.report(None, np.zeros(N_WORKERS, np.int64), seen, {})
    assert len(to_bytes(report)) < 16 * plans.REPORTED_KEYS + 10_000
    assert Routing(Cascade(), N_WORKERS, SEED).seen() is None


def test_two_hundred_sources_and_a_thousand_workers_stay_below_200_mb_a_batch(
    ledger: Ledger,
) -> None:
    n_workers = 1_000
    routing = Routing(Cascade(), n_workers, SEED)
    rng = np.random.default_rng(0)
    for source in range(2):
        state = routing.resume(ledger, 0, source)
        # Many keys of little weight, so that every place of the counters is taken.
        keys = rng.integers(0, 1 << 60, 400_000).astype(np.uint64)
        loads = np.bincount(route(routing.strategy, keys, state), minlength=n_workers)
        report = routing.report(state, loads, None, {})
        ledger.write_report(0, source, report)
    plan = routing.next_plan(ledger, 1)
    # Each source writes its report, one task reads all of them, and every task reads the plan.
    assert 200 * (2 * len(to_bytes(report)) + len(to_bytes(plan))) < 200e6


def test_a_plan_on_top_of_another_fresh_state_is_refused(ledger: Ledger) -> None:
    run_task(Routing(registry.make("pkg"), N_WORKERS, SEED), ledger, 0, 0)
    with pytest.raises(LedgerMismatch, match="another version of this strategy"):
        Routing(registry.make("pkg"), N_WORKERS, SEED + 1).resume(ledger, 1, 0)


def test_a_condensed_report_that_cannot_be_is_an_error(ledger: Ledger) -> None:
    routing = Routing(Cascade(), N_WORKERS, SEED)
    run_task(routing, ledger, 0, 0)
    report = ledger.read_report(0, 0)
    assert report is not None
    report.arrays["own.counts"] = report.arrays["own.counts"][:-1]
    ledger.write_report(0, 0, report)
    with pytest.raises(LedgerCorrupt, match=r"source-00000\.arrow cannot be used: counts must be"):
        routing.resume(ledger, 1, 0)
