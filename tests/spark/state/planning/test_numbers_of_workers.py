"""Numbers of workers: none gets lost silently, whatever meets at a restart."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from skewless.spark import scale_to
from skewless.spark.ledger import Ledger
from skewless.spark.routing.requests import purge_requests
from spark.state.chains import SCHEMA, chain, chained, in_order, records
from spark.state.without_spark import Query

TABLES = [records(150, seed) for seed in range(6)]


class Restarts:
    """One query that is started again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: list[list[tuple[Any, ...]]] = []
        self.checkpoint: dict[int, int] = {}

    def step(self, workers: int | None, most: int, *, run: str) -> int:
        """Count the workers of the next micro-batch."""
        batch = len(self.found)
        rest: Any = {"run": run, "checkpoint": self.checkpoint}
        query = Query(self.folder, chain(), SCHEMA, workers=workers, most=most, **rest)
        results = query.step(batch, TABLES[batch])
        self.found.append(in_order(tuple(row.values()) for row in results.to_pylist()))
        assert self.found[batch] == chained(TABLES)[batch]
        return int(query.plan(batch).n_workers)

    def scale_to(self, n: int) -> None:
        scale_to(str(self.folder), n)


@pytest.fixture
def query(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Restarts:
    caplog.set_level(logging.WARNING, "skewless")
    return Restarts(tmp_path)


def test_a_request_without_room_is_told_of_and_stays_open(
    query: Restarts, caplog: pytest.LogCaptureFixture
) -> None:
    assert query.step(2, 8, run="a") == 2
    query.scale_to(6)
    assert query.step(2, 2, run="b") == 2
    assert "continues with 2 workers instead of 6" in caplog.text
    assert "max_workers=6" in caplog.text
    caplog.clear()
    assert query.step(2, 2, run="b") == 2
    assert not caplog.text  # once in a run
    assert query.step(2, 2, run="c") == 2
    assert "instead of 6" in caplog.text
    caplog.clear()
    assert query.step(2, 8, run="d") == 6
    assert not caplog.text


def test_a_request_that_was_taken_up_is_cut_and_taken_up_again(
    query: Restarts, caplog: pytest.LogCaptureFixture
) -> None:
    assert query.step(2, 8, run="a") == 2
    query.scale_to(6)
    assert query.step(2, 8, run="a") == 6
    assert query.step(2, 3, run="b") == 3
    assert "continues with 3 workers instead of 6" in caplog.text
    assert query.step(2, 3, run="b") == 3
    assert query.step(2, 8, run="c") == 6
    assert query.step(2, 8, run="c") == 6


def test_another_number_at_a_restart_drops_an_open_request_with_a_warning(
    query: Restarts, caplog: pytest.LogCaptureFixture
) -> None:
    assert query.step(2, 8, run="a") == 2
    query.scale_to(6)
    assert query.step(4, 8, run="b") == 4
    assert "workers=4 was given at the restart" in caplog.text
    assert "6 workers" in caplog.text
    assert query.step(4, 8, run="b") == 4
    query.scale_to(6)
    assert query.step(4, 8, run="c") == 6


def test_a_number_of_the_ledger_without_room_is_told_of(
    query: Restarts, caplog: pytest.LogCaptureFixture
) -> None:
    assert query.step(6, 8, run="a") == 6
    assert query.step(None, 3, run="b") == 3
    assert "continues with 3 workers instead of 6" in caplog.text
    assert "workers=6" in caplog.text
    caplog.clear()
    assert query.step(None, 8, run="c") == 3
    assert not caplog.text


def test_a_request_during_the_first_micro_batch_survives_its_repetition(query: Restarts) -> None:
    assert query.step(2, 8, run="a") == 2
    query.scale_to(5)
    query.found.clear()  # the driver died before Spark committed the micro-batch
    assert query.step(2, 8, run="b") == 2
    assert query.step(2, 8, run="b") == 5


def test_a_request_after_purged_ones_is_followed(query: Restarts, tmp_path: Path) -> None:
    """The last request stays: from it the next one has its number."""
    assert query.step(2, 5, run="run-0") == 2
    for n_workers in (3, 4):
        query.scale_to(n_workers)
        assert query.step(2, 5, run="run-0") == n_workers
        purge_requests(Ledger(str(tmp_path)))
