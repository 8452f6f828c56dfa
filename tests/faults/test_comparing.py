"""What queries are compared with, where Spark cut the stream in other micro-batches."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from faults.conftest import Setting
from faults.jobs.comparing import (
    assert_like_plain,
    batches_with_data,
    chained,
    cut,
    ends_of,
)
from faults.jobs.starting import Job, query, write_records


def write_offsets(folder: Path, ends: list[int]) -> None:
    offsets = folder / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for batch, end in enumerate(ends):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{end}}}'
        (offsets / str(batch)).write_text(text)
    (offsets / ".1.tmp").write_text("")


def test_the_ends_of_micro_batches_are_read_in_order(tmp_path: Path) -> None:
    ends = [0, 1, 2, *range(4, 12)]
    write_offsets(tmp_path, ends)
    assert ends_of(tmp_path) == ends


def test_a_micro_batch_without_data_belongs_to_the_one_before(tmp_path: Path) -> None:
    write_offsets(tmp_path, [0, 2, 2, 3])
    for batch in range(4):
        folder = tmp_path / "out" / f"batch={batch}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"k": [batch]}), folder / "part.parquet")
    found = batches_with_data(tmp_path, ["k"])
    assert found == {0: Counter([(0,)]), 1: Counter([(1,), (2,)]), 2: Counter([(3,)])}


def test_two_entries_in_one_micro_batch_are_chained_together(tmp_path: Path) -> None:
    write_records(tmp_path / "records")
    records = tmp_path / "records"
    assert [len(files) for files in cut(records, [0, 2, 3])] == [2, 4, 2]
    apart, together = chained(records), chained(records, [0, 2, 3])
    assert [rows.total() for rows in together.values()] == [3_000, 6_000, 3_000]
    assert together[0] == apart[0]
    # Records of the second entry are older than some of the first one, so the order is another.
    assert together[1] != apart[1] + apart[2]


@pytest.mark.faults
@pytest.mark.spark
def test_queries_that_took_two_entries_in_one_are_like_those_without_faults(
    setting: Setting, tmp_path: Path
) -> None:
    steps = [["run", 1], ["run", 3, {"files": 4}], ["run", 4]]
    queries = [
        query("own_windows", "cascade", windows=True, steps=steps),
        query("own_windows_moved", "readj", windows=True, mode="update", steps=steps),
        query("routed", "fish", merging="none", steps=steps),
        query("chained", "wanders", merging="state", steps=steps),
        query("joined", "wanders", merging="join", steps=steps),
    ]
    job = Job(tmp_path, setting.records, queries)
    assert job.wait() == 0, job.log()
    for one in queries:
        # Here the log has one entry for both.
        ends = ends_of(tmp_path / one["name"])
        shutil.rmtree(tmp_path / one["name"] / "checkpoint" / "offsets")
        write_offsets(tmp_path / one["name"], [{0: 0, 1: 2, 2: 3}[end] for end in ends])
        assert_like_plain(tmp_path / one["name"], one, setting.records, setting.calm)
