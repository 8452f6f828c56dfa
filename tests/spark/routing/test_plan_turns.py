"""One task makes a plan, and the others wait for it for a bounded time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.local_folder import LocalFolder
from skewless.spark.ledger.names import plan_name, turn_name
from skewless.spark.routing.plan_turns import PATIENCE_S, made_or_awaited
from spark.ledger.entries import write_report

PLAN = Entry({"sources": np.zeros(1)}, {"after": 0})


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.at_pause: dict[int, object] = {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        action = self.at_pause.get(len(self.pauses))
        if callable(action):
            action()

    def read(self) -> float:
        return self.now


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Entry:
        self.calls += 1
        return PLAN


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger of which batch 0 is done, by two sources."""
    ledger = Ledger(str(tmp_path / "ledger"))
    ledger.publish(plan_name(0), PLAN)
    for source in range(2):
        write_report(ledger, 0, source, Entry({"loads": np.ones(2)}))
    return ledger


def claim(ledger: Ledger, batch: int) -> None:
    ledger.files.create(turn_name(batch, ledger.run), b"by another task")


def plan_of(ledger: Ledger, batch: int, make: Maker, clock: Clock) -> Entry:
    return made_or_awaited(ledger, batch, make, sleep=clock.sleep, clock=clock.read)


def test_the_first_task_makes_the_plan_and_leaves_no_claim(ledger: Ledger, tmp_path: Path) -> None:
    make, clock = Maker(), Clock()
    assert plan_of(ledger, 1, make, clock).about == PLAN.about
    assert (make.calls, clock.pauses) == (1, [])
    assert not list(tmp_path.rglob("*.claim"))


def test_a_task_waits_for_a_plan_that_another_one_makes(ledger: Ledger) -> None:
    make, clock = Maker(), Clock()
    claim(ledger, 1)
    clock.at_pause[3] = lambda: ledger.publish(plan_name(1), PLAN)
    assert plan_of(ledger, 1, make, clock).about == PLAN.about
    assert make.calls == 0
    assert len(clock.pauses) == 3


def test_a_task_that_died_with_its_claim_costs_a_bounded_wait(ledger: Ledger) -> None:
    make, clock = Maker(), Clock()
    claim(ledger, 1)
    assert plan_of(ledger, 1, make, clock).about == PLAN.about
    assert make.calls == 1
    assert PATIENCE_S - 1.0 <= sum(clock.pauses) <= PATIENCE_S + 1.0
    assert clock.pauses == sorted(clock.pauses)  # it looks less and less often
    assert len(clock.pauses) < 100


def test_an_old_claim_costs_no_wait(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    make, clock = Maker(), Clock()
    claim(ledger, 1)
    monkeypatch.setattr(LocalFolder, "seconds_since_written", lambda self, name: 3600.0)
    plan_of(ledger, 1, make, clock)
    assert (make.calls, clock.pauses) == (1, [])


def test_a_clock_that_runs_ahead_does_not_lengthen_the_wait(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, clock = Maker(), Clock()
    claim(ledger, 1)
    monkeypatch.setattr(LocalFolder, "seconds_since_written", lambda self, name: -1e6)
    plan_of(ledger, 1, make, clock)
    assert sum(clock.pauses) <= PATIENCE_S + 1.0


def test_a_task_that_fails_takes_its_claim_back(ledger: Ledger) -> None:
    def fail() -> Entry:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        made_or_awaited(ledger, 1, fail)
    assert ledger.files.read(turn_name(1, None)) is None


def test_a_waiting_task_notices_that_the_claim_was_taken_back(ledger: Ledger) -> None:
    make, clock = Maker(), Clock()
    claim(ledger, 1)
    clock.at_pause[2] = lambda: ledger.files.delete(turn_name(1, None))
    plan_of(ledger, 1, make, clock)
    assert make.calls == 1
    assert len(clock.pauses) == 2


@pytest.mark.parametrize("n_reports", [0, 1])
def test_no_task_claims_or_waits_where_there_is_little_to_read(
    n_reports: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(str(tmp_path / "other"))

    def wait(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s")

    created, create = list[str](), LocalFolder.create

    def noted(self: LocalFolder, name: str, data: bytes) -> bytes:
        created.append(name)
        return create(self, name, data)

    monkeypatch.setattr(LocalFolder, "create", noted)
    make = Maker()
    made_or_awaited(ledger, 0, make, sleep=wait)  # the first batch
    for source in range(n_reports):
        write_report(ledger, 0, source, Entry({"loads": np.ones(2)}))
    made_or_awaited(ledger, 1, make, sleep=wait)
    assert make.calls == 2
    assert created == [plan_name(0), plan_name(1)]


def test_claims_are_purged_with_the_plans(ledger: Ledger, tmp_path: Path) -> None:
    for batch in (1, 5):
        claim(ledger, batch)
    ledger.purge(3)
    assert [path.name for path in tmp_path.rglob("*.claim")] == ["00000005.unnamed.claim"]
