"""Batches evaluated in part, damaged files, tasks in the wrong place, states of another program."""

from __future__ import annotations

import random
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, scale_to
from skewless.spark.ledger import Ledger, LedgerCorrupt, LedgerMismatch
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.state.planning.state_plan import to_entry
from skewless.spark.state.tasks import require_alone
from skewless.spark.state.versions.bases import StateIncomplete
from spark.state.chains import SCHEMA, chained, records
from spark.state.eight_tables import TABLES, Narrow, Wide, query, ran, rows
from spark.state.without_spark import SEED, Offsets, Query


def test_a_batch_evaluated_in_part_stops_the_next_one(tmp_path: Path) -> None:
    one = ran(tmp_path, 2)
    one.step(2, TABLES[2], workers=[1])
    with pytest.raises(StateIncomplete, match=r"no version 2 of worker 0, 2: .* show, take"):
        one.step(3, TABLES[3])
    # So does the run after a restart, unless it repeats that batch as a whole.
    with pytest.raises(StateIncomplete, match="evaluated in part"):
        query(tmp_path, 1).step(3, TABLES[3])
    again = query(tmp_path, 2)
    assert [rows(again.step(batch, TABLES[batch])) for batch in (2, 3)] == chained(TABLES)[2:4]


def test_a_batch_evaluated_twice_changes_nothing(tmp_path: Path) -> None:
    one = ran(tmp_path, 3)
    assert rows(one.step(2, TABLES[2])) == chained(TABLES)[2]
    assert rows(one.step(3, TABLES[3])) == chained(TABLES)[3]


class Gambles(KeyProcessor):
    state_schema = "n bigint"
    result_schema = "n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [], {"n": random.getrandbits(60)}


def test_an_attempt_that_writes_other_states_is_refused(tmp_path: Path) -> None:
    one = Query(tmp_path, Gambles(), SCHEMA)
    one.step(0, TABLES[0])
    with pytest.raises(RuntimeError, match="another attempt of this task wrote other states"):
        one.step(0, TABLES[0])


@pytest.mark.parametrize("place", [0, 40, -60, -1])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, place: int) -> None:
    one = ran(tmp_path, 2)
    path = next((tmp_path / "state" / "00000001").rglob("worker-00001-*"))
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LedgerCorrupt, match=r"worker-00001-of-00003\.arrow"):
        one.step(2, TABLES[2])


def test_a_damaged_plan_is_refused_by_name(tmp_path: Path) -> None:
    one = ran(tmp_path, 2)
    path = next((tmp_path / "state" / "00000001").rglob("plan.arrow"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LedgerCorrupt, match=r"plan\.arrow is truncated"):
        one.step(2, TABLES[2])


@pytest.mark.parametrize("used_by", [[], [0], [0, 1, 2]])
def test_a_plan_that_replaces_one_in_use_is_noticed(tmp_path: Path, used_by: list[int]) -> None:
    """Without an atomic create, an attempt that stood still may publish its plan at last."""
    one, none = ran(tmp_path, 2), TABLES[2].slice(0, 0)
    plan = one.plan(2, none)
    for worker in used_by:
        one.tasks.step(one.ledger, plan, 2, worker, one.sent(none))
    scale_to(str(tmp_path), 3)  # the attempt that stood still has seen it
    late = one.tasks.controller.next_plan(one.ledger, 2, SEED, one.tasks.work.shape, Offsets({}))
    one.ledger.write(state_plan_name(2, one.ledger.run), to_entry(late, SEED))
    plan = one.tasks.controller.published(one.ledger, 2, SEED)
    for worker in {0, 1, 2}.difference(used_by):
        one.tasks.step(one.ledger, plan, 2, worker, one.sent(none))
    if not used_by:
        assert one.step(3, none).num_rows == 0
        return
    with pytest.raises(StateIncomplete, match=r"plan of micro-batch 2 .* replaced .* commits/2"):
        one.step(3, TABLES[3])
    again = query(tmp_path, 1)
    assert [rows(again.step(batch, TABLES[batch])) for batch in (2, 3)] == chained(TABLES)[2:4]


def test_two_operators_of_one_query_need_two_ledgers(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    require_alone(ledger.of_run("aa-group-0"), "group-0")
    require_alone(ledger.of_run("aa-group-1"), "group-1")  # a restart
    with pytest.raises(LedgerMismatch, match="give each another ledger="):
        require_alone(ledger.of_run("bb-group-1"), "group-1")


def test_a_batch_that_was_not_evaluated_at_all_stops_the_next_one(tmp_path: Path) -> None:
    ran(tmp_path, 6)
    one = query(tmp_path, 1)
    one.step(3, TABLES[3])
    with pytest.raises(StateIncomplete, match="micro-batch 4 was not evaluated"):
        one.step(5, TABLES[5])


@pytest.mark.slow
def test_keeping_more_batches_than_before_deletes_nothing_that_is_needed(tmp_path: Path) -> None:
    tables = [records(100 if batch % 20 == 0 else 3, batch) for batch in range(60)]
    one = query(tmp_path, 0, kept=5)
    found = [rows(one.step(batch, tables[batch])) for batch in range(45)]
    other = query(tmp_path, 1, kept=30)
    found += [rows(other.step(batch, tables[batch])) for batch in range(45, 60)]
    assert found == chained(tables)


def test_a_run_is_named_by_the_tag_of_its_session(tmp_path: Path) -> None:
    tag = "spark-session-0123abcd-0123-0123-0123-0123456789ab"
    ledger = Ledger(str(tmp_path)).of_run(f"{'0' * 16}-{tag}")
    Ledger(str(tmp_path)).of_run(f"{'1' * 16}-{tag}")
    with pytest.raises(LedgerMismatch, match="two calls of process in one query share the ledger"):
        require_alone(ledger, tag)


def test_one_task_that_works_for_several_workers_is_refused(tmp_path: Path) -> None:
    """A coalesce behind `process` runs several partitions in one task, all as the first worker."""
    one = ran(tmp_path, 1)
    plan, none = one.plan(1), one.sent(TABLES[1].slice(0, 0))

    def step(attempt: int) -> pa.Table:
        return one.tasks.step(one.ledger, plan, 1, 0, none, attempt)

    first = step(attempt=5)
    assert step(attempt=6).equals(first)  # another attempt of the task
    # Each attempt is refused when it comes a second time, not only the one that wrote the report.
    for attempt in (5, 6):
        with pytest.raises(RuntimeError, match="a coalesce after process"):
            step(attempt)
    step(attempt=7)


def test_a_partition_that_no_worker_can_have_is_refused_without_records(tmp_path: Path) -> None:
    """Behind another DataFrame in a union, the partitions of `process` have higher numbers."""
    one = ran(tmp_path, 1)
    plan, none = one.plan(1), one.sent(TABLES[1].slice(0, 0))
    most = one.tasks.controller.most
    assert one.tasks.step(one.ledger, plan, 1, most - 1, none, 5).num_rows == 0
    with pytest.raises(RuntimeError, match="or a union, prevents"):
        one.tasks.step(one.ledger, plan, 1, most, none, 6)


class Other(Narrow):
    meaning = MappingProxyType({"unit": "seconds"})


def test_what_fits_no_version_is_refused_before_a_record(tmp_path: Path) -> None:
    Query(tmp_path, Wide(), SCHEMA).step(0, TABLES[0])
    with pytest.raises(LedgerMismatch, match="the field more bigint, which state_schema lacks"):
        Query(tmp_path, Narrow(), SCHEMA).plan(1, TABLES[1])
    Query(tmp_path / "other", Narrow(), SCHEMA).step(0, TABLES[0])
    with pytest.raises(LedgerMismatch, match=r"with unit: nothing, not with unit: seconds\."):
        Query(tmp_path / "other", Other(), SCHEMA).plan(1, TABLES[1])


def test_a_first_batch_that_was_not_evaluated_is_named(tmp_path: Path) -> None:
    one = query(tmp_path)
    with pytest.raises(LedgerMismatch, match=r"holds no state.* not evaluate micro-batch 0, or"):
        one.step(1, TABLES[1])
    one.plan(0)  # a plan alone is no version
    with pytest.raises(LedgerMismatch, match=r"holds no state.* not evaluate micro-batch 0, or"):
        one.step(1, TABLES[1])
