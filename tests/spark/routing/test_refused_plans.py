"""Plans and reports that are damaged, foreign or of another version are refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless import registry
from skewless.spark.ledger.files import VERSION, Entry, from_bytes, seal, to_bytes, unseal
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerMismatch, LedgerTooNew
from skewless.spark.routing.plans import PlanMaker
from skewless.strategies.cascade import Cascade
from spark.ledger.entries import read_report, write_report
from spark.routing.source_tasks import (
    N_WORKERS,
    SEED,
    run_task,
)


def test_a_damaged_plan_or_report_is_an_error_and_never_a_guess(
    ledger: Ledger, tmp_path: Path
) -> None:
    routing = PlanMaker(Cascade(), N_WORKERS, SEED)
    run_task(routing, ledger, 0, 0)
    (report,) = (tmp_path / "ledger" / "reports").rglob("*.arrow")
    whole = report.read_bytes()
    report.write_bytes(whole[:-5])
    with pytest.raises(LedgerCorrupt, match=r"source-00000\.arrow"):
        routing.begin(ledger, 1, 0)
    report.write_bytes(whole)
    routing.begin(ledger, 1, 0)
    plan = tmp_path / "ledger" / "plans" / "00000001.arrow"
    plan.write_bytes(plan.read_bytes()[:100])
    with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow"):
        routing.begin(ledger, 1, 0)


def test_a_plan_of_a_later_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    routing = PlanMaker(Cascade(), N_WORKERS, SEED)
    run_task(routing, ledger, 0, 0)
    plan = tmp_path / "ledger" / "plans" / "00000000.arrow"
    table = pa.ipc.open_stream(unseal(plan.read_bytes(), "plan")).read_all()
    later = str(VERSION + 1).encode()
    newer = table.replace_schema_metadata(table.schema.metadata | {b"version": later})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, newer.schema) as writer:
        writer.write_table(newer)
    plan.write_bytes(seal(sink.getvalue().to_pybytes()))
    with pytest.raises(LedgerTooNew, match=r"00000000\.arrow"):
        routing.begin(ledger, 0, 0)


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
    "keys without counts": lambda arrays: arrays.pop("shared.counted.counts"),
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
    "keys of no bucket": lambda arrays: whole(arrays, "counted.keys", np.ones(1, np.uint64)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_plan_from_a_stranger_is_refused_in_one_line(
    change: Any, ledger: Ledger, tmp_path: Path
) -> None:
    routing = PlanMaker(Cascade(), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    routing.begin(ledger, 1, 0)
    path = tmp_path / "ledger" / "plans" / "00000001.arrow"
    rewritten(path, lambda arrays, about: change(arrays))
    with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow cannot be used: ") as refused:
        routing.begin(ledger, 1, 0)
    assert "\n" not in str(refused.value)


def test_a_plan_of_another_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    routing = PlanMaker(Cascade(), 64, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    routing.begin(ledger, 1, 0)
    path = tmp_path / "ledger" / "plans" / "00000001.arrow"
    plan = from_bytes(path.read_bytes(), "")
    path.write_bytes(to_bytes(Entry(plan.arrays, plan.about | {"shared.base": 1})))
    with pytest.raises(LedgerMismatch, match=r"00000001\.arrow was written by another version"):
        routing.begin(ledger, 1, 0)


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
        ("mixed", lambda arrays: arrays.update(counts=np.ones(1, np.int64)), "same length"),
    ],
)
def test_a_report_from_a_stranger_is_refused(
    name: str, change: Any, text: str, ledger: Ledger, tmp_path: Path
) -> None:
    routing = PlanMaker(registry.make(name), N_WORKERS, SEED)
    for source in range(2):
        run_task(routing, ledger, 0, source)
    (path, _) = sorted((tmp_path / "ledger" / "reports").rglob("*.arrow"))
    rewritten(path, lambda arrays, about: change(arrays))
    with pytest.raises(LedgerCorrupt, match=rf"source-00000\.arrow cannot be used: .*{text}"):
        routing.begin(ledger, 1, 0)


def test_a_plan_on_top_of_another_fresh_state_is_refused(ledger: Ledger) -> None:
    run_task(PlanMaker(registry.make("pkg"), N_WORKERS, SEED), ledger, 0, 0)
    with pytest.raises(LedgerMismatch, match="another version of this strategy"):
        PlanMaker(registry.make("pkg"), N_WORKERS, SEED + 1).begin(ledger, 1, 0)[1]


def test_a_condensed_report_that_cannot_be_is_an_error(ledger: Ledger) -> None:
    routing = PlanMaker(Cascade(), N_WORKERS, SEED)
    run_task(routing, ledger, 0, 0)
    report = read_report(ledger, 0, 0)
    assert report is not None
    report.arrays["own.counted.counts"] = report.arrays["own.counted.counts"][:-1]
    write_report(ledger, 0, 0, report)
    with pytest.raises(
        LedgerCorrupt, match=r"source-00000\.arrow cannot be used: counted\.counts must be"
    ):
        routing.begin(ledger, 1, 0)
