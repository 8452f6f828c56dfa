"""Checkpoint and ledger against each other: rollbacks, copies, abandoned runs, purges."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skewless.spark import scale_to
from skewless.spark.ledger import Ledger, LedgerMismatch
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.bases import StateIncomplete
from spark.state.chains import SCHEMA, chained
from spark.state.counting import Counts, of_keys
from spark.state.eight_tables import OTHERS, TABLES, Narrow, Wide, offsets_of, query, ran, rows
from spark.state.without_spark import SEED, Offsets, Query


def test_an_older_checkpoint_goes_on_with_other_batches(tmp_path: Path) -> None:
    ran(tmp_path, 6)
    checkpoint = offsets_of(TABLES[:3])
    one = query(tmp_path, 1, checkpoint=checkpoint)
    found = [rows(one.step(batch, OTHERS[batch])) for batch in (3, 4)]
    # Another restart: what the second run wrote counts, not what the first one has of batch 4.
    other = query(tmp_path, 2, checkpoint=checkpoint)
    found.append(rows(other.step(5, OTHERS[5])))
    assert found == chained(OTHERS)[3:6]


def test_two_copies_of_a_checkpoint_restored_in_turn_keep_their_own_states(tmp_path: Path) -> None:
    ran(tmp_path, 6)
    for run, (first, last) in enumerate([(3, 6), (5, 7), (4, 7), (6, 8)], start=1):
        tables = OTHERS if run % 2 else TABLES
        one = query(tmp_path, run, checkpoint=offsets_of(tables[:first]))
        found = [rows(one.step(batch, tables[batch])) for batch in range(first, last)]
        assert found == chained(tables)[first:last], run


@pytest.mark.parametrize("tables", [TABLES, OTHERS])
def test_without_its_checkpoint_no_restart_is_guessed(tmp_path: Path, tables: Any) -> None:
    """An abandoned copy that is started again looks like the query itself."""
    ran(tmp_path, 3)
    with pytest.raises(LedgerMismatch, match=r"Set spark\.skewless\.checkpoint to the folder"):
        query(tmp_path, 1, checkpoint={}).step(3, tables[3])
    one = query(tmp_path, 2, checkpoint=offsets_of(TABLES[:3]))
    assert rows(one.step(3, tables[3])) == chained([*TABLES[:3], tables[3]])[3]


def test_a_checkpoint_that_is_not_found_is_named_before_the_query_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unseen: list[dict[int, int]] = [{}, {}]
    for batch, seen in enumerate(unseen):
        query(tmp_path, checkpoint=seen).step(batch, TABLES[batch])
    assert "cannot be started again before you set spark.skewless.checkpoint" in caplog.text


def test_a_repeated_micro_batch_is_recognised_without_the_checkpoint(tmp_path: Path) -> None:
    ran(tmp_path, 4)
    one = query(tmp_path, 1, workers=2, checkpoint={})
    found = [rows(one.step(batch, TABLES[batch])) for batch in (2, 3, 4)]
    assert found == chained(TABLES)[2:5]


def test_a_sink_that_leaves_out_a_micro_batch_after_a_rollback_loses_nothing(
    tmp_path: Path,
) -> None:
    ran(tmp_path, 5)
    for first in (4, 5):  # the sink has left out all micro-batches from 3 on
        one = query(tmp_path, first, checkpoint=offsets_of(OTHERS[:first]))
        with pytest.raises(
            StateIncomplete, match=rf"other micro-batches than .*commits/{first - 1}"
        ):
            one.step(first, OTHERS[first])
    # One that leaves out a micro-batch which an earlier run has done goes on.
    one = query(tmp_path, 6, checkpoint=offsets_of(TABLES[:5]))
    assert rows(one.step(5, TABLES[5])) == chained(TABLES)[5]


def test_a_newer_run_stops_an_older_one(tmp_path: Path) -> None:
    first = ran(tmp_path, 3, checkpoint={})
    copy = query(tmp_path, 1, checkpoint=offsets_of(TABLES[:3]))
    copy.step(3, OTHERS[3])
    with pytest.raises(LedgerMismatch, match="a newer run of this query uses the ledger"):
        first.step(3, TABLES[3])
    again = query(tmp_path, 2, checkpoint=offsets_of(TABLES[:3]))
    found = [rows(again.step(batch, TABLES[batch])) for batch in (3, 4)]
    assert found == chained(TABLES)[3:5]
    with pytest.raises(LedgerMismatch, match="a newer run"):
        copy.step(4, OTHERS[4])


def test_runs_that_began_at_once_have_an_order(tmp_path: Path) -> None:
    """Two drivers have found the same number free: one of them goes on."""
    one, other = query(tmp_path, 0), query(tmp_path, 1)
    (tmp_path / "runs" / "00000001.run-1.json").rename(tmp_path / "runs" / "00000000.run-1.json")
    with pytest.raises(LedgerMismatch, match="a newer run"):
        one.step(0, TABLES[0])
    assert rows(other.step(0, TABLES[0])) == chained(TABLES)[0]


def test_versions_of_one_moment_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """Two copies of a checkpoint ran at once, and planned micro-batch 2 in one millisecond."""
    ran(tmp_path, 2)
    log = offsets_of(TABLES[:2]) | {2: 0}
    runs = []
    for run in (1, 2):
        runs.append(query(tmp_path, run, checkpoint=dict(log), purge_every=5))
        runs[-1].tasks.begin(runs[-1].ledger, 2, SEED, Offsets(log))
    for number, one in enumerate(runs):
        one.step(2, TABLES[2].slice(0, 90 + number))
    with pytest.raises(LedgerMismatch, match="two versions 2 that contradict each other"):
        query(tmp_path, 3, checkpoint=log).step(3, TABLES[3])


def test_a_reader_beside_a_query_that_purges_lists_each_version_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(tmp_path, 2)
    listed: Counter[int] = Counter()
    members = Ledger.members

    def purged_after_a_look(ledger: Ledger, kind: str, batch: int) -> Any:
        listed[batch] += 1
        return members(ledger, kind, batch) if listed[batch] == 1 else {}

    monkeypatch.setattr(Ledger, "members", purged_after_a_look)
    found = bases.newest(Ledger(str(tmp_path)))
    assert found is not None
    assert found.batch == 1


@pytest.mark.parametrize("workers", [3, 5])
def test_a_late_worker_of_an_abandoned_run_contradicts_nothing(
    tmp_path: Path, workers: int
) -> None:
    """It completes its version after a newer run has placed the same states elsewhere."""
    ran(tmp_path, 2)
    log = offsets_of(TABLES[:3])
    abandoned = query(tmp_path, 1, checkpoint=dict(log), strategy="hash", purge_every=9)
    abandoned.step(2, TABLES[2], [0, 1])
    again = query(tmp_path, 2, checkpoint=dict(log), workers=workers, purge_every=9)
    again.step(2, TABLES[2])
    late = abandoned.tasks.controller.published(abandoned.ledger, 2, SEED)
    part = abandoned.parts(2, late, TABLES[2])[2]
    abandoned.tasks.step(abandoned.ledger, late, 2, 2, part, 9)
    assert len(bases.versions(Ledger(str(tmp_path)), 2)["run-1"]) == 3
    after = query(tmp_path, 3, checkpoint=dict(log))
    assert rows(after.step(3, TABLES[3])) == chained(TABLES)[3]


def test_a_corrected_processor_repeats_a_micro_batch_whose_sink_failed(tmp_path: Path) -> None:
    counts = Query(tmp_path, Narrow(), SCHEMA, run="run-0")
    for batch in (0, 1):
        counts.step(batch, TABLES[batch])

    class Corrected(Narrow):
        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            rows, new = super().update_key(key, records, state, at)
            return rows, {"n": new["n"] + 1000}

    log = offsets_of(TABLES[:2])
    Query(tmp_path, Corrected(), SCHEMA, run="run-1", checkpoint=log).step(1, TABLES[1])
    after = Query(tmp_path, Corrected(), SCHEMA, run="run-2", checkpoint=log)
    keys = set(TABLES[1].column("k").to_pylist()) & set(TABLES[2].column("k").to_pylist())
    found = {row["k"]: row["n"] for row in after.step(2, TABLES[2]).to_pylist()}
    assert keys
    assert all(found[key] > 1000 for key in keys)


def test_a_newer_checkpoint_is_refused(tmp_path: Path) -> None:
    ran(tmp_path, 4)
    shutil.rmtree(tmp_path / "state" / "00000003")
    with pytest.raises(LedgerMismatch, match=r"holds versions 0 … 2, and micro-batch 4 needs"):
        query(tmp_path, 1).step(4, TABLES[4])
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(LedgerMismatch, match=r"holds no state, and the query is at micro-batch 4"):
        query(tmp_path, 1).step(4, TABLES[4])


def test_a_late_task_of_an_abandoned_run_changes_nothing(tmp_path: Path) -> None:
    dead = ran(tmp_path, 3, purge_every=5)
    dead.plan(3, TABLES[7])  # with records that it should never have seen
    alive = query(tmp_path, 1, checkpoint=offsets_of(TABLES[:3]))
    found = [rows(alive.step(3, TABLES[3]))]
    dead.step(3, TABLES[7])
    found.append(rows(alive.step(4, TABLES[4])))
    assert found == chained(TABLES)[3:5]


def test_after_a_rollback_the_older_timeline_does_not_count(tmp_path: Path) -> None:
    ran(tmp_path, 6)
    checkpoint = offsets_of(TABLES[:3])
    query(tmp_path, 1, checkpoint=checkpoint).step(3, OTHERS[3], workers=[1])
    with pytest.raises(StateIncomplete, match="evaluated in part"):
        query(tmp_path, 2, checkpoint=checkpoint).step(4, TABLES[5])


def test_readers_follow_the_run_that_went_on_from_an_older_checkpoint(tmp_path: Path) -> None:
    ran(tmp_path, 6, workers=3)
    checkpoint = offsets_of(TABLES[:2])
    one = query(tmp_path, 1, workers=2, most=2, checkpoint=checkpoint)
    for batch in (2, 3):
        one.step(batch, TABLES[batch + 2])
    ledger = Ledger(str(tmp_path))
    found = bases.newest(ledger)
    assert found == bases.Base(3, "run-1", 2)  # and not version 5 of the abandoned timeline
    with pytest.raises(ValueError, match="n must be at most 2, which is max_workers"):
        scale_to(str(tmp_path), 3)
    # A run that has finished nothing yet changes nothing.
    query(tmp_path, 2, checkpoint=checkpoint).step(4, TABLES[4], workers=[0])
    assert bases.newest(ledger) == found


def test_an_older_program_goes_on_from_a_checkpoint_before_its_successor(tmp_path: Path) -> None:
    for batch, processor in enumerate((Narrow(), Narrow(), Wide(), Wide())):
        run = f"run-{batch // 2}"
        Query(tmp_path, processor, SCHEMA, run=run).step(batch, TABLES[batch])
    counts: dict[Any, int] = {}
    for table in (TABLES[0], TABLES[1], TABLES[5]):
        for key in table.column("k").to_pylist():
            counts[key] = counts.get(key, 0) + 1
    log = offsets_of(TABLES[:2])
    narrow = Query(tmp_path, Narrow(), SCHEMA, run="run-2", checkpoint=log)
    found = narrow.step(2, TABLES[5]).to_pylist()
    assert all(row["n"] == counts[row["k"]] for row in found)
    newer = Query(tmp_path, Narrow(), SCHEMA, run="run-3", checkpoint=offsets_of(TABLES[:4]))
    with pytest.raises(LedgerMismatch, match="states with the field more bigint"):
        newer.step(4, TABLES[4])


def test_a_purge_that_was_killed_takes_nothing_that_a_rolled_back_query_needs(
    tmp_path: Path,
) -> None:
    keys = [f"k{number}" for number in range(600)]
    tables = [of_keys(keys), *(of_keys(keys[batch : batch + 9]) for batch in range(1, 14))]

    def counting(run: int, n_done: int, **settings: Any) -> Query:
        checkpoint = offsets_of(tables[:n_done])
        given = {"workers": 3, "run": f"run-{run}", "checkpoint": checkpoint, **settings}
        return Query(tmp_path, Counts(), SCHEMA, **given)

    one = counting(0, 0, purge_every=99)
    for batch in range(5):
        one.step(batch, tables[batch])
    one.step(5, tables[5], workers=[1])  # the driver dies
    other = counting(1, 5, purge_every=99)
    for batch in range(5, 13):
        other.step(batch, tables[batch])
    # A purge from 6 on is killed in the folder of the second run.
    for file in ("plan.arrow", "worker-00000-of-00003.arrow", "worker-00002-of-00003.arrow"):
        (tmp_path / "state" / "00000005" / "run-1" / file).unlink()
    again = counting(2, 11, kept=5, purge_every=1)
    for batch in range(11, 14):
        again.step(batch, tables[batch])
    whole = counting(3, 14).step(14, tables[0]).to_pylist()
    seen = Counter(key for table in [*tables, tables[0]] for key in table["k"].to_pylist())
    assert {row["k"]: row["n"] for row in whole} == seen
