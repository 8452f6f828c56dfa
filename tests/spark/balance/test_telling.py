"""The balance as JSON values and as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skewless.spark.balance.explaining import explain_balance
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt
from spark.balance.reports import IDENTITY, source, worker
from spark.ledger.entries import write_report, write_worker


def test_json_values_hold_all_batches(ledger: Ledger) -> None:
    balance = explain_balance(ledger.folder)
    first, second = (json.loads(json.dumps(batch.as_dict())) for batch in balance.batches)
    assert balance.query == "query-1"
    assert (first["batch"], first["records"], first["replication"]) == (0, 6, None)
    second_worker = {"worker": 1, "records": 2, "seconds": 1.0, "pairs": 2, "cost": None}
    assert second["workers"][1] == second_worker
    null = {"key": "null", "records": 2, "share": 0.5, "workers": 2, "unsure": 0}
    assert second["hot_keys"][0] == null
    assert second["hot_keys"][1]["key"] == 'two\nlines "quoted" \\'


def test_the_table_is_plain_text_that_no_key_can_break(ledger: Ledger) -> None:
    text = str(explain_balance(Path(ledger.folder)))
    title, headings, *rows = text.splitlines()
    assert title == "Balance of query-1: strategy pkg, workers 3, key k"
    assert " ".join(headings.split()) == (
        "batch records busiest worker imbalance time imbalance keys replicas per key keys split "
        "heaviest key its share"
    )
    assert [" ".join(row.split()) for row in rows] == [
        "0 6 0 50.0 % – – – – – –",
        "1 4 0 50.0 % 0.0 % 3 1.333 1 null 50.0 %",
    ]
    assert text.isprintable() is False  # it has line ends,
    assert all(line.isprintable() for line in text.splitlines())  # and nothing else of the kind
    assert explain_balance(ledger)._repr_html_().startswith("<pre>")


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no ledger in .*nowhere.*by its id"):
        explain_balance(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="must be a StreamingQuery or a ledger folder, not 3"):
        explain_balance(3)
    with pytest.raises(ValueError, match="ledger: leave it out"):
        explain_balance("folder", ledger="folder")


def test_people_are_shown_the_run_that_counts(tmp_path: Path) -> None:
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY)
    dead, alive = made.of_run("dead"), made.of_run("alive")
    write_report(alive, 0, 0, source(1, 2, 3))
    for number in range(3):
        write_report(dead, 0, number, source(9, 9, 9))
        write_worker(dead, 0, number, worker(["late"]))
    (batch,) = explain_balance(made.folder).batches
    assert [row.records for row in batch.workers] == [1, 2, 3]
    assert batch.hot_keys is None


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"records": "many"}, "records must be a number"),
        ({"seconds": None}, "seconds must be a number"),
        ({"sampled_by": 0}, "sampled_by must be a number from 1"),
        ({"pairs": -1}, "pairs must be a number"),
        ({"top": 7}, "top must be a list"),
        ({"top": [["a", "b"]]}, "top must have a text"),
    ],
)
def test_a_worker_report_from_a_stranger_is_refused(
    ledger: Ledger, about: dict[str, Any], text: str
) -> None:
    good = worker(["a"])
    write_worker(ledger, 2, 0, Entry(good.arrays, good.about | about))
    with pytest.raises(LedgerCorrupt, match=rf"worker-00000\.arrow cannot be used: {text}"):
        explain_balance(ledger.folder)


@pytest.mark.parametrize("workers", ["3", 0, -1, 1 << 40, True, 2.5])
def test_an_identity_with_odd_workers_is_refused(tmp_path: Path, workers: Any) -> None:
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY | {"workers": workers})
    with pytest.raises(LedgerCorrupt, match=r"identity\.json cannot be used: workers must be"):
        explain_balance(made.folder)
