"""The listener, without Spark."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skewless.spark.balance.listener import BalanceListener
from skewless.spark.ledger.ledger import Ledger
from spark.balance.reports import IDENTITY, source
from spark.ledger.entries import write_report


def event(query: str = "query-1", batch: int = 1, rate: float = 2.5) -> Any:
    progress = SimpleNamespace(
        id=query,
        name=None,
        batchId=batch,
        timestamp="2024-01-01T00:00:00.000Z",
        numInputRows=4,
        processedRowsPerSecond=rate,
        durationMs={"triggerExecution": 1600},
    )
    return SimpleNamespace(progress=progress)


def test_the_listener_tells_its_own_query_only(ledger: Ledger, tmp_path: Path) -> None:
    listener = BalanceListener(ledger.folder)
    for batch in (0, 1):
        listener.onQueryProgress(event(batch=batch))
        listener.onQueryProgress(event("query-2", batch=batch))
    assert [batch.balance.batch for batch in listener.history] == [0, 1]
    told = [json.loads(json.dumps(batch.as_dict())) for batch in listener.history]
    assert [line["batch"] for line in told] == [0, 1]
    assert (told[1]["input_rows"], told[1]["rows_per_second"]) == (4, 2.5)
    assert (told[1]["batch_seconds"], told[1]["replication"]) == (1.6, 4 / 3)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_the_listener_does_not_bind_a_ledger_that_is_nobodys(tmp_path: Path) -> None:
    listener = BalanceListener(tmp_path / "ledger")
    listener.onQueryProgress(event())
    assert listener.history == []
    assert not (tmp_path / "ledger").exists()


def test_a_rate_that_is_no_number_is_told_as_unknown(ledger: Ledger) -> None:
    listener = BalanceListener(ledger.folder)
    listener.onQueryProgress(event(rate=float("nan")))
    assert listener.history[0].rows_per_second is None


def test_errors_are_logged_once_per_kind_and_break_nothing(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    listener = BalanceListener(ledger.folder)
    with caplog.at_level(logging.ERROR):
        listener.onQueryProgress(event(batch=0))
        listener.onQueryProgress(event(batch=1))
        assert not caplog.records
        damaged = next(Path(ledger.folder).glob("workers/*1/*/worker-00000.arrow"))
        damaged.write_bytes(damaged.read_bytes()[:-1])
        listener.onQueryProgress(event(batch=1))
        listener.onQueryProgress(event(batch=1))
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        "cannot read the balance",
    ]
    assert [batch.balance.batch for batch in listener.history] == [0, 1]


def test_a_folder_of_all_queries_tells_each_by_its_name(tmp_path: Path) -> None:
    root = Ledger(str(tmp_path / "all"))
    for query, load in (("a", 2), ("b", 4)):
        one = root.below(query)
        one.claim(IDENTITY)
        one.bind(query)
        write_report(one, 1, 0, source(load, 0, 0))
    listener = BalanceListener(root.folder)
    for query in ("a", "b", "c"):
        listener.onQueryProgress(event(query))
    assert [(one.query, one.balance.records) for one in listener.history] == [("a", 2), ("b", 4)]


def test_without_a_folder_and_a_session_the_listener_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr(
        "skewless.spark.balance.explaining.SparkSession.getActiveSession", lambda: None
    )
    with pytest.raises(ValueError, match=r"ledger: give a folder, or set spark\.skewless\.ledger"):
        BalanceListener()
