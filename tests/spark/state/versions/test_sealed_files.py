"""Files that are sealed and hold nonsense are refused in one line, on any filesystem."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark.ledger import LedgerCorrupt
from skewless.spark.ledger import ledger as ledger_module
from skewless.spark.ledger.files import Entry, from_bytes, seal, to_bytes, unseal
from skewless.spark.state.versions import version_files
from spark.state.chains import SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.without_spark import Query


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


def test_a_folder_that_is_no_local_disk_does_as_well() -> None:
    """Arrow's own filesystem in memory, which has no atomic create, as S3 has none."""
    tables = [records(100, seed) for seed in range(6)]
    query = Query("mock:///bucket/ledger", chain(), SCHEMA, strategy=random_moves(), kept=2)  # type: ignore[arg-type]
    found = [rows(query.step(batch, table)) for batch, table in enumerate(tables)]
    assert found == chained(tables)


def backwards(version: version_files.Version) -> version_files.Version:
    order = pa.array(np.arange(version.table.num_rows)[::-1])
    return replace(version, table=version.table.take(order))


def other_type(version: version_files.Version) -> version_files.Version:
    texts = version.table.column("state.n").cast(pa.string())
    place = version.table.column_names.index("state.n")
    return replace(version, table=version.table.set_column(place, "state.n", texts))


VERSIONS = {
    "order": backwards,
    "type": other_type,
    "no_key": lambda v: replace(v, table=v.table.drop_columns(["key.k"])),
    "no_hash": lambda v: replace(v, table=v.table.drop_columns(["hash"])),
    "below": lambda v: replace(v, below=("../../../etc/passwd",)),
    "about": lambda v: replace(v, about={**v.about, "held": "many"}),
}


@pytest.mark.parametrize(("buffer", "last"), [(1, b"\0\0\0\x40"), (2, b"\xff")])
def test_a_sealed_text_with_a_bad_offset_or_bad_bytes_is_refused(
    tmp_path: Path, buffer: int, last: bytes
) -> None:
    """Read without a check, the first would end the process by a signal."""
    query = Query(tmp_path, chain(), SCHEMA, workers=1)
    query.step(0, records(50, 0))
    path = next((tmp_path / "state").rglob("worker-*"))
    version = version_files.read(query.ledger, str(path.relative_to(tmp_path)))
    good = version.table.column("key.k").combine_chunks().buffers()[buffer].to_pybytes()
    whole = path.read_bytes()
    states = version_files.states_of(whole)
    content = unseal(states, "")
    assert content.count(good) == 1
    bad = seal(content.replace(good, good[: -len(last)] + last))
    path.write_bytes(bad + whole[len(states) :])
    with pytest.raises(LedgerCorrupt, match=r"worker-00000-of-00001\.arrow is not readable"):
        query.step(1, records(50, 1))


@pytest.mark.parametrize("change", VERSIONS)
def test_a_sealed_version_that_no_task_wrote_is_refused(tmp_path: Path, change: str) -> None:
    query = Query(tmp_path, chain(), SCHEMA, workers=1)
    query.step(0, records(50, 0))
    path = next((tmp_path / "state").rglob("worker-*"))
    version = version_files.read(query.ledger, str(path.relative_to(tmp_path)))
    whole = path.read_bytes()
    states = version_files.states_of(whole)
    assert states == version_files.block_of(version)
    path.write_bytes(version_files.block_of(VERSIONS[change](version)) + whole[len(states) :])
    with pytest.raises(LedgerCorrupt, match=r"worker-00000-of-00001\.arrow") as caught:
        query.step(1, records(50, 1))
    assert "\n" not in str(caught.value)


def with_array(name: str, array: Any) -> Any:
    return lambda entry: Entry({**entry.arrays, name: array}, entry.about)


def with_about(**about: Any) -> Any:
    return lambda entry: Entry(entry.arrays, {**entry.about, **about})


def with_spread(hashes: Any, parts: Any, before: Any) -> Any:
    arrays = {
        "spread.hashes": np.array(hashes, np.uint64),
        "spread.parts": np.array(parts, np.int32),
        "spread.before": np.array(before, np.int32),
        "spread.seen": np.zeros(len(hashes), np.int64),
    }
    return lambda entry: Entry({**entry.arrays, **arrays}, entry.about)


PLANS = {
    "spread_order": with_spread([3, 1], [2, 2], [1, 1]),
    "spread_parts": with_spread([1], [0], [1]),
    "spread_least": with_spread([1], [-(1 << 31)], [1]),
    "spread_before": with_spread([1], [-2], [3]),
    "spread_fewer": with_spread([1], [2, 2], [1]),
    "spread_alone": with_array("spread.hashes", np.array([1], np.uint64)),
    "workers": with_about(workers=0),
    "text": with_about(workers="2"),
    "base": with_about(base=[0, "../..", 2]),
    "whole": with_about(whole=1),
    "watermark": with_about(watermark="soon"),
    "more": with_about(more=[]),
    "meaning": with_about(more={"meaning": -1}),
    "schema": with_about(more={"schema": "x"}),
    "fields": with_about(more={"schema": "[1]"}),
    "moves": with_array("moving.hashes", np.array([3, 1], np.uint64)),
    "moves_type": with_array("moving.hashes", np.array([1.0])),
    "targets": with_array("moving.targets", np.array([7], np.int32)),
    "placed": with_array("placed.unknown", np.array([1])),
}


@pytest.mark.parametrize("change", PLANS)
def test_a_sealed_plan_that_no_task_wrote_is_refused(tmp_path: Path, change: str) -> None:
    query = Query(tmp_path, chain(), SCHEMA, strategy="mixed")
    for batch in range(2):
        query.step(batch, records(50, batch))
    path = next((tmp_path / "state" / "00000001").rglob("plan.arrow"))
    path.write_bytes(to_bytes(PLANS[change](from_bytes(path.read_bytes(), "plan"))))
    with pytest.raises(LedgerCorrupt, match=r"plan\.arrow cannot be used") as caught:
        query.step(2, records(50, 2))
    assert "\n" not in str(caught.value)


REPORTS = {
    "firsts": with_array("firsts", np.array([1])),
    "seconds": with_array("seconds", np.array([1.5])),
    "heavy": with_array("heavy", np.array([2, 1], np.uint64)),
    "costs": with_array("costs", np.array([np.inf])),
    "cost": with_about(cost=-1.0),
    "latest": with_about(latest=1.5),
    "records": with_about(records=-1),
    "plan": with_about(plan=7),
}


@pytest.mark.parametrize("change", REPORTS)
def test_a_sealed_report_that_no_task_wrote_is_refused(tmp_path: Path, change: str) -> None:
    query = Query(tmp_path, chain(), SCHEMA, strategy="mixed")
    query.step(0, records(50, 0))
    path = next((tmp_path / "state").rglob("worker-00001-*"))
    whole = path.read_bytes()
    told = to_bytes(REPORTS[change](from_bytes(whole, "report")))
    path.write_bytes(version_files.states_of(whole) + told)
    with pytest.raises(LedgerCorrupt, match=r"worker-00001-of-00002\.arrow cannot be") as caught:
        query.step(1, records(50, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", [40, -200])
def test_states_and_report_of_one_file_are_validated_separately(tmp_path: Path, place: int) -> None:
    query = Query(tmp_path, chain(), SCHEMA, workers=1)
    query.step(0, records(50, 0))
    path = next((tmp_path / "state").rglob("worker-*"))
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    name = str(path.relative_to(tmp_path))
    version_of = functools.partial(version_files.read, query.ledger)
    damaged, sound = (
        (query.ledger.read, version_of) if place < 0 else (version_of, query.ledger.read)
    )
    assert sound(name) is not None
    with pytest.raises(LedgerCorrupt, match=r"worker-00000-of-00001\.arrow is damaged"):
        damaged(name)


def test_a_report_that_is_longer_than_what_is_read_first_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path, chain(), SCHEMA, workers=1)
    query.step(0, records(50, 0))
    name = str(next((tmp_path / "state").rglob("worker-*")).relative_to(tmp_path))
    wanted = query.ledger.read(name)
    for n_bytes in (1, 50, 500, len(to_bytes(wanted)) - 1, len(to_bytes(wanted))):
        monkeypatch.setattr(ledger_module, "_REPORT_BYTES", n_bytes)
        assert to_bytes(query.ledger.read(name)) == to_bytes(wanted)


def test_a_worker_waits_for_the_disk_once_for_its_file_and_once_for_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, synced = Query(tmp_path, chain(), SCHEMA, workers=1), []
    plan = query.plan(0)
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), sync(file)))
    query.tasks.step(query.ledger, plan, 0, 0, query.sent(records(50, 0)), attempt=1)
    assert len(synced) == 2
