"""Plans and reports: the first plan counts, and reports count by run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from skewless.spark.ledger.folder import LocalFolder
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import plan_name
from skewless.spark.routing.plan_turns import latest_plan
from spark.ledger.entries import (
    IDENTITY,
    fill,
    leftovers,
    read_report,
    read_reports,
    read_workers,
    same,
    small,
    write_report,
    write_worker,
)


def test_the_first_plan_counts(ledger):
    assert ledger.read(plan_name(4)) is None
    assert same(ledger.publish(plan_name(4), small(1)), small(1))
    assert same(ledger.publish(plan_name(4), small(2)), small(1))
    assert same(ledger.read(plan_name(4)), small(1))


def test_a_published_plan_shares_no_array_with_the_ledger(ledger):
    plan = ledger.publish(plan_name(4), small(1))
    plan.arrays["loads"][:] = 9
    assert same(ledger.read(plan_name(4)), small(1))


def test_the_latest_plan_is_the_newest_before(ledger):
    assert latest_plan(ledger, 10) is None
    for batch in (2, 9, 123_456_789):  # one digit more than the names are padded to
        ledger.publish(plan_name(batch), small(batch))
    assert latest_plan(ledger, 2) is None
    for before, batch in ((3, 2), (9, 2), (10, 9), (123_456_789, 9), (10**9, 123_456_789)):
        found = latest_plan(ledger, before)
        assert found is not None
        assert found[0] == batch
        assert same(found[1], small(batch))


def test_reports_come_back_by_source_and_by_worker(ledger):
    assert read_reports(ledger, 1) == {}
    assert read_report(ledger, 1, 3) is None
    for member in (100_000, 3, 20):
        write_report(ledger, 1, member, small(member))
        write_worker(ledger, 1, member, small(member + 1))
    write_report(ledger, 2, 5, small(5))
    assert list(read_reports(ledger, 1)) == [3, 20, 100_000]
    assert same(read_report(ledger, 1, 20), small(20))
    assert same(read_reports(ledger, 1)[100_000], small(100_000))
    assert same(read_workers(ledger, 1)[3], small(4))
    assert read_workers(ledger, 2) == {}


def test_each_run_reads_its_own_reports_whatever_a_late_task_writes(ledger):
    dead, alive = ledger.of_run("dead"), ledger.of_run("alive")
    for source in range(4):
        write_report(dead, 1, source, small(source))
    for source in range(2):
        write_report(alive, 1, source, small(10 + source))
    write_report(dead, 1, 0, small(99))  # late
    write_report(dead, 1, 7, small(99))
    write_worker(dead, 1, 3, small(99))
    for reader in (alive, ledger, ledger.of_run("later")):
        reports = read_reports(reader, 1)
        assert list(reports) == [0, 1]
        assert same(reports[0], small(10))
        assert same(read_report(reader, 1, 1), small(11))
        assert read_report(reader, 1, 7) is None
        assert read_workers(reader, 1) == {}


def test_after_a_restart_the_last_run_before_it_counts(ledger):
    for run in ("z", "m", "a"):
        write_report(ledger.of_run(run), 1, 0, small(ord(run)))
    now = ledger.of_run("now")
    assert same(read_reports(now, 1)[0], small(ord("a")))
    write_report(ledger.of_run("stranger"), 1, 0, small(1))  # registered after `now`
    assert same(read_reports(now, 1)[0], small(ord("a")))
    assert same(read_reports(ledger, 1)[0], small(1))
    assert same(read_reports(ledger.of_run("m"), 1)[0], small(ord("m")))


def test_a_run_is_registered_once_and_keeps_its_place(ledger):
    for run in ("b", "a", "b", "a"):
        ledger.of_run(run)
    names = sorted(path.name for path in (Path(ledger.folder) / "runs").iterdir())
    assert names == ["00000000.b.json", "00000001.a.json"]
    assert ledger.of_run(None) == ledger


def test_any_text_may_name_a_run(ledger):
    odd = "../../etc/passwd und mehr\n" * 20
    write_report(ledger.of_run(odd), 1, 0, small())
    assert list(read_reports(ledger.of_run(odd), 1)) == [0]
    assert all(ledger.folder in str(path) for path in Path(ledger.folder).rglob("*"))
    ledger.purge(2)
    assert ledger.batches() == []


def test_a_retried_task_writes_the_same_file(ledger):
    path = Path(ledger.folder) / "reports" / "00000001" / "unnamed" / "source-00002.arrow"
    write_report(ledger, 1, 2, small())
    first = path.read_bytes()
    write_report(ledger, 1, 2, small())
    assert path.read_bytes() == first
    assert list(path.parent.iterdir()) == [path]


def test_batches_are_all_that_the_ledger_knows_of(ledger):
    assert ledger.batches() == []
    ledger.publish(plan_name(7), small())
    write_report(ledger, 12, 0, small())
    write_worker(ledger, 3, 0, small())
    write_worker(ledger, 7, 0, small())
    assert ledger.batches() == [3, 7, 12]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda one: one.read(plan_name(-1)), "batch must be .* not -1"),
        (lambda one: write_report(one, 0, -2, small()), "source must be .* not -2"),
        (lambda one: write_worker(one, 0, -3, small()), "worker must be .* not -3"),
        (lambda one: Ledger(" "), "ledger must be a folder"),
    ],
)
def test_numbers_out_of_range_are_refused(ledger, call, text):
    with pytest.raises(ValueError, match=text):
        call(ledger)


def test_purging_deletes_what_is_before_and_nothing_else(ledger):
    ledger.claim(IDENTITY)
    ledger.bind("query")
    fill(ledger, range(10))
    ledger.purge(6)
    assert ledger.batches() == [6, 7, 8, 9]
    assert sorted(p.name for p in (Path(ledger.folder) / "reports").iterdir()) == [
        f"{batch:08}" for batch in range(6, 10)
    ]
    assert list(read_reports(ledger, 6)) == [0]
    assert ledger.check(IDENTITY)
    ledger.purge(6)
    ledger.purge(-5)
    assert ledger.batches() == [6, 7, 8, 9]
    ledger.purge(100)
    assert ledger.batches() == []


def test_purging_an_empty_ledger_does_nothing(ledger):
    ledger.purge(5)
    assert not Path(ledger.folder).exists()


def test_purging_leaves_unfinished_files_of_running_tasks(ledger):
    fill(ledger, range(4))
    folder = Path(ledger.folder)
    old = [
        folder / "plans/.00000001.arrow.ab.tmp",
        folder / "reports/00000001/unnamed/.source-00009.arrow.ab.tmp",
    ]
    running = [
        folder / "plans/.00000003.arrow.ab.tmp",
        folder / "workers/00000003/unnamed/.worker-00009.arrow.ab.tmp",
    ]
    claims = [folder / ".identity.json.ab.tmp", folder / ".query.json.ab.tmp"]
    for path in old + running + claims:
        path.write_bytes(b"half")
    os.utime(claims[0], (0, 0))
    assert ledger.batches() == [0, 1, 2, 3]
    assert list(read_workers(ledger, 3)) == [0]
    ledger.purge(2)
    assert leftovers(folder) == sorted([*running, claims[1]])


def test_purging_ignores_what_others_delete_meanwhile(ledger, monkeypatch):
    fill(ledger, range(4))
    list_files, list_folders = LocalFolder.files, LocalFolder.folders
    root = Path(ledger.folder)

    def files_then_gone(self, under):
        found = list_files(self, under)
        for name in found:
            (root / name).unlink()
        return found

    def folders_then_gone(self, under):
        found = list_folders(self, under)
        for name in found:
            shutil.rmtree(root / name)
        return found

    monkeypatch.setattr(LocalFolder, "files", files_then_gone)
    assert latest_plan(ledger, 9) is None
    monkeypatch.setattr(LocalFolder, "folders", folders_then_gone)
    ledger.purge(4)
    monkeypatch.undo()
    assert ledger.batches() == []
