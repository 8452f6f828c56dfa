"""A savepoint is a copy from which a query goes on, whatever the query itself does meanwhile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import process, read_state, savepoint
from skewless.spark.ledger import Ledger, LedgerMismatch
from skewless.spark.state import savepoint as savepoints
from spark.state.chains import DDL, chain, chained, records, rows_of
from spark.state.eight_tables import TABLES, offsets_of, query, rows
from spark.state.without_spark import SEED, Query, files_of, stamp_of
from spark.streams import read_stream, run, write_file


def begun(folder: Path, n_batches: int, **settings: Any) -> Query:
    """Return a query after some micro-batches, with a checkpoint as Spark writes it."""
    one = query(folder / "ledger", kept=1, **settings)
    one.ledger.claim({"process": 1, "key": "k string", "seed": SEED})
    one.ledger.bind("q")
    for batch in range(n_batches):
        step(folder, one, batch)
    return one


def step(folder: Path, one: Query, batch: int) -> Any:
    stamp = json.dumps({"batchTimestampMs": stamp_of(TABLES[batch])})
    files = {"metadata": '{"id": "q"}', f"offsets/{batch}": f"v1\n{stamp}\n{{}}"}
    found = one.step(batch, TABLES[batch])
    for name, text in {**files, f"commits/{batch}": "v1\n{}"}.items():
        path = folder / "checkpoint" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    return found


def copied(folder: Path, to: str = "copy") -> int:
    return savepoint(str(folder / "ledger"), str(folder / "checkpoint"), str(folder / to))


def test_the_copy_and_the_query_both_go_on(tmp_path: Path) -> None:
    one = begun(tmp_path, 4)
    one.plan(4, TABLES[4])  # a micro-batch that has begun
    (tmp_path / "checkpoint" / "offsets" / "4").write_text("v1\n{}\n{}")
    (tmp_path / "checkpoint" / "offsets" / ".3.crc").write_bytes(b"a checksum of Hadoop")
    before = files_of(tmp_path / "ledger")
    assert copied(tmp_path) == 3
    assert files_of(tmp_path / "ledger") == before
    copy = files_of(tmp_path / "copy" / "checkpoint")
    assert sorted(copy) == sorted(
        ["metadata", *(f"{log}/{batch}" for log in ("commits", "offsets") for batch in range(4))]
    )
    found = [rows(step(tmp_path, one, batch)) for batch in range(4, 8)]
    shutil.rmtree(tmp_path / "ledger")  # the copy needs nothing of it
    again = query(tmp_path / "copy" / "ledger", 1, checkpoint=offsets_of(TABLES[:4]), kept=1)
    assert [rows(again.step(batch, TABLES[batch])) for batch in range(4, 8)] == found
    assert found == chained(TABLES)[4:]


def test_a_copy_of_a_checkpoint_that_was_rolled_back_has_the_right_run(tmp_path: Path) -> None:
    begun(tmp_path, 3)
    one = query(tmp_path / "ledger", 1, checkpoint=offsets_of(TABLES[:2]))
    one.step(2, TABLES[7])  # another micro-batch 2 than that of the checkpoint
    assert copied(tmp_path) == 2
    again = query(tmp_path / "copy" / "ledger", 2, checkpoint=offsets_of(TABLES[:3]))
    assert rows(again.step(3, TABLES[3])) == chained(TABLES)[3]


def test_a_copy_that_was_not_finished_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of the query comes last, and the ledger belongs to the query with this id."""
    begun(tmp_path, 2)
    (tmp_path / "checkpoint" / "metadata").rename(tmp_path / "kept")
    with pytest.raises(LedgerMismatch, match=r"belongs to the query q, and .* to the query None"):
        copied(tmp_path)
    assert not (tmp_path / "copy").exists()
    (tmp_path / "kept").rename(tmp_path / "checkpoint" / "metadata")
    real = Path.hardlink_to

    def full(self: Path, target: Path) -> None:
        if self.parent.name == "commits":
            raise OSError(28, "No space left on device")
        real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", full)
        with pytest.raises(OSError, match="No space left"):
            copied(tmp_path)
    assert not (tmp_path / "copy" / "checkpoint" / "metadata").exists()
    assert Ledger(str(tmp_path / "copy" / "ledger")).owner() == "q"
    with pytest.raises(ValueError, match=r"to must be an empty folder, and .* is not empty"):
        copied(tmp_path)


def test_a_file_that_is_deleted_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, 2)
    from skewless.spark.state import savepoint as module

    inner = module._copy

    def late(files: Any, to: Any, names: Any, place: str) -> None:
        files.delete(names[-1])
        inner(files, to, names, place)

    monkeypatch.setattr(module, "_copy", late)
    with pytest.raises(RuntimeError, match="was deleted while the ledger was copied"):
        copied(tmp_path)
    assert not (tmp_path / "copy" / "checkpoint").exists()


def test_a_checkpoint_that_spark_purges_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its last micro-batch, a query on the copy would begin anew, without states."""
    begun(tmp_path, 4)
    inner = savepoints._copy

    def purged_after(*arguments: Any) -> None:
        inner(*arguments)
        for log in ("offsets", "commits"):
            shutil.rmtree(tmp_path / "checkpoint" / log)

    monkeypatch.setattr(savepoints, "_copy", purged_after)
    with pytest.raises(RuntimeError, match="micro-batch 3 was deleted from the checkpoint"):
        copied(tmp_path)
    assert not (tmp_path / "copy" / "checkpoint" / "metadata").exists()


def test_arguments_are_refused_by_name(tmp_path: Path) -> None:
    begun(tmp_path, 1)
    ledger, checkpoint = str(tmp_path / "ledger"), str(tmp_path / "checkpoint")
    to = str(tmp_path / "copy")
    with pytest.raises(ValueError, match="ledger must be one folder, or several whose names"):
        savepoint([ledger, ledger], checkpoint, to)
    with pytest.raises(ValueError, match=r"checkpoint: .* has no committed micro-batch"):
        savepoint(ledger, str(tmp_path / "nowhere"), to)
    with pytest.raises(ValueError, match="checkpoint must be a folder, as a path or as a URI"):
        savepoint(ledger, None, to)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="to must be a folder"):
        savepoint(ledger, checkpoint, str(tmp_path / "checkpoint" / "metadata"))
    with pytest.raises(LedgerMismatch, match="is not the ledger of a query of process"):
        savepoint(str(tmp_path / "nowhere"), checkpoint, to)
    assert not Path(to).exists()


@pytest.mark.spark
def test_a_running_stream_is_copied(spark: Any, tmp_path: Path) -> None:
    tables = [records(100, seed) for seed in range(4)]
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)

    def results(folder: Path) -> Any:
        stream = read_stream(spark, tmp_path / "in", DDL)
        given = {"workers": 2, "order_by": "ts", "ledger": str(folder / "ledger")}
        return process(stream, "k", chain(), **given)

    seen: list[int] = []

    def copy(batch: int) -> None:
        if batch == 2:  # has an offset and no commit
            seen.append(copied(tmp_path))

    found = run(results(tmp_path), "append", tmp_path / "checkpoint", copy)
    assert (seen, rows_of(found)) == ([1], chained(tables))
    copy_of = str(tmp_path / "copy" / "ledger")
    assert {row["version"] for row in read_state(spark, copy_of).collect()} == {1}
    again = run(results(tmp_path / "copy"), "append", tmp_path / "copy" / "checkpoint")
    # Spark had listed the third file already, so the fourth comes in the same micro-batch.
    assert sorted(again) == [2]
    assert rows_of(again) == chained([*tables[:2], pa.concat_tables(tables[2:])])[2:]
