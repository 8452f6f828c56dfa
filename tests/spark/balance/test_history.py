"""The history of a query, from the folder of its ledger: what is read, how often, and what not."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from skewless.dashboard import live_history
from skewless.spark.balance import history as history_module
from skewless.spark.balance.balance import read_balance
from skewless.spark.balance.explaining import read_balances
from skewless.spark.balance.history import History, find_history
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import plan_name
from skewless.spark.routing.worker_steps import first_workers
from spark.balance.reports import IDENTITY, source, worker
from spark.ledger.entries import write_report, write_worker
from spark.state.chains import SCHEMA, chain, records
from spark.state.without_spark import Query, stamp_of


def tree(folder):
    """Return all files and folders with their times and sizes."""
    found = sorted(Path(folder).rglob("*"))
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in found
    }


def made(folder, n_batches=3):
    ledger = Ledger(str(folder))
    ledger.claim({**IDENTITY, "parameters": '{"tolerance": 0.25}'})
    ledger.bind("query-1")
    for batch in range(n_batches):
        ledger.publish(plan_name(batch), Entry({}, {}))
        add(ledger, batch, [["a", "a", "b"], ["a"], []])
    return ledger


def add(ledger, batch, keys, run=None):
    write_report(ledger, batch, 0, source(*(len(part) for part in keys)), run)
    for number, part in enumerate(keys):
        write_worker(ledger, batch, number, worker(part), run)


def look(ledger):
    history = History(ledger)
    assert history.look()
    return history.as_dict()


def test_the_history_tells_what_the_balance_tells(tmp_path):
    ledger = made(tmp_path / "ledger")
    told = look(ledger)
    assert [batch["batch"] for batch in told["batches"]] == [0, 1, 2]
    for batch in told["batches"]:
        balance = read_balance(ledger, batch["batch"], 3)
        assert batch["loads"] == [row.records for row in balance.workers] == [3, 1, 0]
        assert batch["relative_loads"] == [2.25, 0.75, 0.0]
        assert batch["imbalance"] == balance.imbalance == 1.25
        assert batch["replication"] == balance.replication == 1.5
        assert (batch["moves"], batch["state_bytes"]) == (None, None)
    first = told["batches"][0]["hot_keys"][0]
    assert (first["key"], first["records"], first["workers"]) == ("a", 3, [[0, 2], [1, 1]])
    assert (told["strategy"], told["tolerance"], told["query"]) == ("pkg", 0.25, "query-1")
    assert (told["routes"], told["keeps_state"], told["workers"]) == (True, False, 3)
    assert live_history.series(told)["imbalance"] == [1.25] * 3


def test_looking_changes_nothing(tmp_path):
    ledger = made(tmp_path / "ledger")
    before = tree(tmp_path)
    history = History(ledger)
    history.look()
    history.look()
    find_history(str(tmp_path / "ledger"))
    find_history(str(tmp_path))  # one folder per query, as with spark.skewless.ledger
    assert tree(tmp_path) == before
    assert not History(Ledger(str(tmp_path / "none"))).look()
    assert not (tmp_path / "none").exists()


def test_what_cannot_change_is_read_once(tmp_path, monkeypatch):
    ledger = made(tmp_path / "ledger")
    read = []
    real = history_module.batch_balance
    monkeypatch.setattr(
        history_module, "batch_balance", lambda *given: read.append(given[0]) or real(*given)
    )
    history = History(ledger)
    history.look()
    assert read == [0, 1, 2]
    ledger.publish(plan_name(3), Entry({}, {}))
    add(ledger, 3, [["c"], ["c"], ["c"]])
    read.clear()
    history.look()
    assert read == [2, 3]  # the last one could have changed, until there was another
    read.clear()
    history.look()
    assert read == []
    add(ledger, 3, [["c"], ["c"], ["c"]], "another")  # the reports of another run
    history.look()
    assert read == [3]
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [0, 1, 2, 3]


def test_a_batch_counts_when_its_workers_have_reported(tmp_path):
    ledger = made(tmp_path / "ledger", 1)
    ledger.publish(plan_name(1), Entry({}, {}))
    write_report(ledger, 1, 0, source(2, 2, 0))
    write_worker(ledger, 1, 0, worker(["a", "b"]))
    history = History(ledger)
    history.look()
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [0]
    assert history.as_dict()["running"] == 1
    write_worker(ledger, 1, 1, worker(["a", "b"]))
    history.look()
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [0, 1]
    assert history.as_dict()["running"] is None


def test_what_the_ledger_forgets_the_history_remembers(tmp_path, monkeypatch):
    ledger = made(tmp_path / "ledger")
    history = History(ledger)
    history.look()
    ledger.purge(2)
    history.look()
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [0, 1, 2]
    monkeypatch.setattr(history_module, "REMEMBERED", 2)
    history.look()
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [1, 2]


def test_a_batch_that_another_run_does_again_is_read_again(tmp_path):
    ledger = made(tmp_path / "ledger").of_run("first")
    history = History(Ledger(ledger.folder))
    history.look()
    again = Ledger(ledger.folder).of_run("second")
    add(again, 1, [["x"], ["x"], ["x"]])
    history.look()
    # Batch 2 is of the run before, which was given up.
    assert [batch["loads"] for batch in history.as_dict()["batches"]] == [[3, 1, 0], [1, 1, 1]]
    add(again, 2, [["x"], [], ["x"]])
    history.look()
    loads = [batch["loads"] for batch in history.as_dict()["batches"]]
    assert loads == [[3, 1, 0], [1, 1, 1], [1, 0, 1]]


def test_the_time_of_a_batch_is_from_its_plan_to_its_last_report(tmp_path):
    ledger = made(tmp_path / "ledger", 2)
    for file in (tmp_path / "ledger").rglob("*.arrow"):
        os.utime(file, (1_000, 1_000))
    os.utime(tmp_path / "ledger/plans/00000001.arrow", (996, 996))
    first, second = look(ledger)["batches"]
    assert first["seconds"] is None  # all at once, as after a copy: nothing is known
    assert second["seconds"] == pytest.approx(4.0, abs=0.1)


def test_a_damaged_file_is_one_line_and_hides_nothing_else(tmp_path):
    ledger = made(tmp_path / "ledger")
    file = next((tmp_path / "ledger/workers/00000001").rglob("*.arrow"))
    file.write_bytes(file.read_bytes()[:-9])
    history = History(ledger)
    assert history.look()
    assert "is truncated or not a file of skewless" in history.problem
    assert "\n" not in history.problem
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [0, 2]
    with pytest.raises(ValueError, match="is truncated or not a file of skewless"):
        find_history(str(tmp_path / "ledger"))


def test_a_ledger_that_goes_away_is_told(tmp_path):
    ledger = made(tmp_path / "ledger")
    history = History(ledger)
    history.look()
    shutil.rmtree(tmp_path / "ledger")
    assert history.look()
    assert "has lost its identity.json" in history.problem
    assert len(history.as_dict()["batches"]) == 3


def test_another_query_in_the_folder_is_another_history(tmp_path):
    ledger = made(tmp_path / "ledger")
    history = History(ledger)
    history.look()
    shutil.rmtree(tmp_path / "ledger")
    other = Ledger(ledger.folder)
    other.claim({**IDENTITY, "seed": 9})
    other.publish(plan_name(0), Entry({}, {}))
    add(other, 0, [["z"], ["z"], ["z"]])
    history.look()
    assert [batch["loads"] for batch in history.as_dict()["batches"]] == [[1, 1, 1]]


def test_a_query_that_routes_nothing_has_no_batches(tmp_path):
    ledger = Ledger(str(tmp_path / "ledger"))
    ledger.claim({"strategy": "local", "key": "k", "seed": 0})
    told = look(ledger)
    assert (told["routes"], told["batches"], told["problem"]) == (False, [], None)


def test_folders_without_a_ledger_or_with_several_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="there is no ledger in"):
        find_history(str(tmp_path))
    with pytest.raises(ValueError, match="must be a folder"):
        find_history(str(tmp_path / "notes.txt"))
    for name in ("one", "two"):
        made(tmp_path / name, 1)
    with pytest.raises(ValueError, match=r"has the ledgers of 2 queries \(one, two\)"):
        find_history(str(tmp_path))


def test_keys_are_shown_on_one_line(tmp_path):
    ledger = made(tmp_path / "ledger", 0)
    ledger.publish(plan_name(0), Entry({}, {}))
    add(ledger, 0, [["two\nlines \x1b[31m\u202e"], [], []])
    (key,) = look(ledger)["batches"][0]["hot_keys"]
    assert key["key"] == "two\\nlines \\x1b[31m\\u202e"


def test_keyed_state_has_moves_state_and_other_numbers_of_workers(tmp_path):
    folder = tmp_path / "ledger"
    query = Query(folder, chain(), SCHEMA, strategy="mixed", workers=2)
    query.ledger.claim({"process": 1, "key": "k string", "seed": 7, "skewless": "0"})
    for batch in range(3):
        query.step(batch, records(200, batch))
    grown = Query(folder, chain(), SCHEMA, strategy="mixed", workers=3, run="run-1")
    grown.step(3, records(200, 3))
    grown.step(4, records(200, 4), workers=[0, 1])  # the third worker has not reported yet
    told = look(Ledger(str(folder)))
    assert (told["strategy"], told["keeps_state"], told["running"]) == ("mixed", True, 4)
    assert told["tolerance"] == 0.08
    batches = told["batches"]
    assert [len(batch["state_bytes"]) for batch in batches] == [2, 2, 2, 3]
    assert [batch["rescaled"] for batch in batches] == [False, False, False, True]
    assert batches[0]["moves"] == 0
    assert batches[3]["moves"] > 0
    assert all(sum(batch["state_keys"]) > 0 for batch in batches)
    assert [batch["records"] for batch in batches] == [200] * 4
    image = live_history.load_map(told)["image"][0]
    assert image.shape == (3, 4)
    assert np.isnan(image[2, :3]).all()


def test_views_leave_out_what_is_half_done_or_was_given_up(tmp_path):
    folder = tmp_path / "ledger"
    query = Query(folder, chain(), SCHEMA, strategy="mixed", workers=4, run="run-0")
    query.ledger.claim({"process": 1, "key": "k string", "seed": 7, "skewless": "0"})
    for batch in range(5):
        query.step(batch, records(200, batch))
    history = History(Ledger(str(folder)))
    history.look()
    assert [one["batch"] for one in history.as_dict()["batches"]] == [0, 1, 2, 3, 4]
    # The checkpoint is rolled back to batch 1, and the query goes on with two workers.
    log = {batch: stamp_of(records(200, batch)) for batch in range(2)}
    again = Query(folder, chain(), SCHEMA, strategy="mixed", workers=2, run="run-1", checkpoint=log)
    again.step(2, records(70, 2))
    again.step(3, records(70, 3), workers=[1])  # the other worker has not reported yet
    outside = Ledger(str(folder))
    assert first_workers(outside) == 1  # as far as it has reported
    told = read_balances(outside)
    assert [(one.batch, len(one.workers), one.records) for one in told.batches] == [
        (0, 4, 200),
        (1, 4, 200),
        (2, 2, 70),
    ]
    assert told.identity["workers"] == 2
    history.look()
    found = history.as_dict()
    assert [one["batch"] for one in found["batches"]] == [0, 1, 2]
    assert found["running"] == 3


def test_what_is_known_of_purged_batches_is_forgotten(tmp_path):
    ledger = made(tmp_path / "ledger", 5)
    history = History(ledger)
    history.look()
    assert history._settled == {0, 1, 2, 3}
    for kind in ("reports", "workers"):
        for folder in sorted((tmp_path / "ledger" / kind).iterdir())[:3]:
            shutil.rmtree(folder)
    for plan in sorted((tmp_path / "ledger" / "plans").iterdir())[:3]:
        plan.unlink()
    history.look()
    assert history._settled == {3}
    assert [batch["batch"] for batch in history.as_dict()["batches"]] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("item string, __skewless_part int", "item string"),
        ("item string, part int", "item string, part int"),
    ],
)
def test_the_key_is_told_by_the_users_columns(tmp_path, key, told):
    ledger = Ledger(str(tmp_path / "ledger"))
    ledger.claim({**IDENTITY, "key": key})
    assert look(ledger)["key"] == told
