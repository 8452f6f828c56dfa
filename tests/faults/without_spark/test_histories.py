"""Whatever happens at whatever file operation, keyed operators return what plain Python returns.

A history that fails names its operator and its seed, and tells what happened. To repeat it:
`SKEWLESS_HISTORY=7 python -m pytest tests/faults/without_spark -k "quick and top_n"`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from faults.without_spark.disturbed_folders import Faults, ObjectStore
from faults.without_spark.histories import History
from faults.without_spark.operators import OPERATORS
from skewless.spark.ledger import Ledger, LedgerCorrupt
from skewless.spark.state import tasks
from skewless.spark.state.planning import controller
from skewless.spark.state.versions import bases

#: The seed of a history that is repeated, and how many `make test-nightly` plays.
SEED, NUMBER = "SKEWLESS_HISTORY", "SKEWLESS_HISTORIES"
#: Restarts of abandoned copies without a checkpoint, and a late worker with other spread keys.
FAILED_ONCE = {
    "top_n": (578_659, 909_151),
    "join, inner": (383_426, 548_036),
    "join, left": (875_941,),
}


@pytest.fixture(autouse=True)
def _without_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Let a report of a failure show what happened, and not what the log says of it."""
    caplog.set_level(logging.ERROR, "skewless")


def play(operator: str, seeds: Iterable[int], folder: Path) -> None:
    for seed in seeds:
        history = History(operator, seed, folder / str(seed))
        try:
            history.play()
        except Exception as error:
            error.add_note(f"{operator}: to repeat it, set {SEED}={seed}")
            raise


@pytest.mark.parametrize("operator", OPERATORS)
def test_quick_histories_return_what_plain_python_returns(operator: str, tmp_path: Path) -> None:
    """An even seed has a local disk, an odd one a store without atomic create."""
    given = os.environ.get(SEED)
    seeds = (2, 3, *FAILED_ONCE.get(operator, ()))
    play(operator, seeds if given is None else (int(given),), tmp_path)


@pytest.mark.faults
@pytest.mark.nightly
@pytest.mark.parametrize("operator", OPERATORS)
def test_thousands_of_histories_return_what_plain_python_returns(
    operator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other choices in every run: the first seed comes from the clock unless it is given."""
    first = int(os.environ.get(SEED, str(time.time_ns() % 1_000_000)))
    number = int(os.environ.get(NUMBER, "2000")) // len(OPERATORS)
    play(operator, range(first, first + number), tmp_path)
    with capsys.disabled():
        print(f"\n{operator}: {number} histories from {SEED}={first} on")


def latest_version(ledger: Ledger, batch: int, offsets: Any) -> Any:
    """Build on the newest version of any run."""
    return bases.newest(ledger) if batch else None


def leave_keys_at_their_origin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "forgotten", lambda layout, _: layout.empty())


def build_on_the_latest_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(controller, "base_of", latest_version)


#: Faults of a program, and an operator that shows them.
PLANTED: Iterable[tuple[Callable[[pytest.MonkeyPatch], None], str]] = (
    (build_on_the_latest_version, "top_n"),
    (leave_keys_at_their_origin, "sessions"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "operator"), PLANTED)
def test_ten_histories_find_a_planted_fault(
    plant: Callable[[pytest.MonkeyPatch], None],
    operator: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, LedgerCorrupt), match=r"rows, not|is gone") as found:
        play(operator, range(10), tmp_path)
    assert f"{operator}: to repeat it, set {SEED}=" in found.value.__notes__[-1]


def test_the_store_of_the_histories_has_no_atomic_create() -> None:
    """Two tasks create the same file: both find none, and the last one wins."""
    store = ObjectStore(Faults())
    inner = store.overwrite

    def late(name: str, data: bytes) -> None:
        inner(name, b"of another task")
        inner(name, data)

    store.overwrite = late  # type: ignore[method-assign]
    assert store.create("a/b", b"of the last task") == b"of the last task"
    assert store.read("a/b") == b"of the last task"
    assert (store.files("a"), store.folders("")) == (["a/b"], ["a"])
