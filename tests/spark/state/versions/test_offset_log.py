"""The stamps of micro-batches are found in the checkpoint that runs, wherever it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skewless.spark.state.versions.offset_log import SeenOffsets, places_of


def checkpoint(folder: Path, stamps: dict[int, int], query: str = "q") -> Path:
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    for batch, stamp in stamps.items():
        text = f'v1\n{json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": stamp})}\n{{"x":1}}\n'
        (folder / "offsets" / str(batch)).write_text(text)
    return folder


def seen(root: Path, *settings: Path, now: int = 30, per_query: bool = False) -> SeenOffsets:
    ledger = root / "ledgers" / "q" if per_query else root / "ledger"
    places = places_of(str(ledger), tuple(map(str, settings)), per_query=per_query)
    return SeenOffsets("q", 3, now, places)


def test_the_stamp_of_the_running_micro_batch_needs_no_checkpoint(tmp_path: Path) -> None:
    assert seen(tmp_path).stamp(3) == 30
    assert seen(tmp_path).stamp(2) is None


@pytest.mark.parametrize("per_query", [False, True])
def test_a_checkpoint_beside_the_ledger_is_found(tmp_path: Path, per_query: bool) -> None:
    checkpoint(tmp_path / "b", {2: 20, 3: 30})
    assert seen(tmp_path, per_query=per_query).stamp(2) == 20


def test_the_settings_come_first_and_name_the_checkpoint_or_a_folder_above(tmp_path: Path) -> None:
    there = checkpoint(tmp_path / "far" / "away" / "c", {2: 20, 3: 30})
    for setting in (there, there.parent):
        assert seen(tmp_path / "here", setting).stamp(2) == 20


def test_of_several_copies_the_running_one_counts(tmp_path: Path) -> None:
    checkpoint(tmp_path / "a", {2: 10, 3: 11})
    checkpoint(tmp_path / "b", {2: 10})
    checkpoint(tmp_path / "c", {2: 20, 3: 30})
    checkpoint(tmp_path / "d", {2: 12, 3: 30}, query="another")
    assert seen(tmp_path).stamp(2) == 20
    assert seen(tmp_path).stamp(1) is None
    assert seen(tmp_path, now=31).stamp(2) is None


def test_copies_that_planned_in_one_millisecond_are_not_guessed_between(tmp_path: Path) -> None:
    checkpoint(tmp_path / "a", {2: 10, 3: 30})
    checkpoint(tmp_path / "b", {3: 30})
    assert seen(tmp_path).stamp(2) == 10
    checkpoint(tmp_path / "c", {2: 20, 3: 30})
    assert seen(tmp_path).stamp(2) is None


def test_other_folders_beside_the_ledger_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "table" / "metadata").mkdir(parents=True)  # as an Iceberg table has it
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "metadata").write_bytes(b"\xff\x00{")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "metadata").write_text("[1]\n")
    assert seen(tmp_path).stamp(2) is None
    checkpoint(tmp_path / "z", {2: 20, 3: 30})
    (tmp_path / "z" / "offsets" / "2").write_text("v1\nnonsense\n")
    assert seen(tmp_path).stamp(2) is None


@pytest.mark.parametrize("place", ["dbfs:/checkpoints", "/proc/no/such", "hdfs-like", "s3://"])
def test_a_place_that_cannot_be_opened_is_passed_over(tmp_path: Path, place: str) -> None:
    checkpoint(tmp_path / "c", {2: 20, 3: 30})
    places = places_of(str(tmp_path / "ledger"), (place,), per_query=False)
    assert SeenOffsets("q", 3, 30, places).stamp(2) == 20


def test_a_damaged_copy_beside_the_checkpoint_does_no_harm(tmp_path: Path) -> None:
    damaged = checkpoint(tmp_path / "a", {2: 10})
    (damaged / "offsets" / "3").mkdir()
    checkpoint(tmp_path / "b", {2: 20, 3: 30})
    assert seen(tmp_path).stamp(2) == 20


def test_it_is_said_where_the_checkpoint_was_looked_for(tmp_path: Path) -> None:
    told = seen(tmp_path / "here", tmp_path / "there", Path("dbfs:/far")).searched()
    assert f"{tmp_path / 'there'} has no checkpoint of it" in told
    assert "dbfs:/far cannot be listed (" in told
    assert f"{tmp_path / 'here'} has no checkpoint of it" in told
