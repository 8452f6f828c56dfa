"""One ledger and several timelines of its query: copied checkpoints, and a sink that skips."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from skewless.spark import KeyProcessor, process
from spark.state.chains import DDL, in_order, records, rows_of
from spark.streams import read_stream, write_file

pytestmark = pytest.mark.spark

TABLES = [records(40, seed) for seed in range(7)]


def running_counts() -> KeyProcessor:
    """Return a processor that Spark pickles by value: its workers cannot import this module."""

    class RunningCounts(KeyProcessor):
        state_schema = "n bigint"
        result_schema = "k string, n bigint"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            n = len(records) + (state["n"] if state else 0)
            return [{"n": n}], {"n": n}

    return RunningCounts()


class Stream:
    """A folder of files, a ledger and a checkpoint; the files come in micro-batches."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.checkpoint = folder / "checkpoint"
        self.n_written = 0

    def write(self, n: int) -> None:
        for number in range(self.n_written, n):
            write_file(self.folder / "in", number, TABLES[number])
        self.n_written = n

    def run(self, n: int, files: int = 1, skipped: Collection[int] = ()) -> dict[int, Any]:
        """Write up to `n` files and process what is new; return the results by micro-batch."""
        self.write(n)
        found: dict[int, Any] = {}

        def sink(batch: Any, number: int) -> None:
            if number not in skipped:
                found[number] = batch.collect()

        results = process(
            read_stream(self.spark, self.folder / "in", DDL, files=files),
            "k",
            running_counts(),
            workers=2,
            ledger=str(self.folder / "ledger"),
        )
        writer = results.writeStream.foreachBatch(sink).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()
        return found

    def copy(self, name: str) -> None:
        shutil.copytree(self.checkpoint, self.folder / "copies" / name)

    def restore(self, name: str) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self.folder / "copies" / name, self.checkpoint)


def counted(tables: list[pa.Table]) -> list[Any]:
    """Return the results of each micro-batch: its keys, and their records so far."""
    counts: Counter[Any] = Counter()
    found = []
    for table in tables:
        keys = table.column("k").to_pylist()
        counts.update(keys)
        found.append(in_order((key, counts[key]) for key in set(keys)))
    return found


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


@pytest.mark.slow
def test_copies_of_a_checkpoint_restored_one_after_the_other(stream: Stream) -> None:
    stream.run(1)
    stream.copy("A1")
    stream.run(3)
    stream.copy("A2")
    stream.write(4)
    stream.restore("A1")
    whole = [TABLES[0], pa.concat_tables(TABLES[1:4])]
    assert rows_of(stream.run(4, files=9)) == counted(whole)[1:]
    assert rows_of(stream.run(6, files=1)) == counted([*whole, *TABLES[4:6]])[2:]
    stream.restore("A2")
    assert (
        rows_of(stream.run(6, files=9))
        == counted([*TABLES[:3], pa.concat_tables(TABLES[3:6])])[-1:]
    )


@pytest.mark.slow
def test_a_copy_that_is_continued_elsewhere_disturbs_nobody(stream: Stream) -> None:
    stream.run(2)
    stream.copy("elsewhere")
    here = stream.checkpoint
    stream.checkpoint = stream.folder / "elsewhere"  # beside the ledger, so that it is found
    shutil.copytree(stream.folder / "copies" / "elsewhere", stream.checkpoint)
    assert (
        rows_of(stream.run(4, files=9))
        == counted([*TABLES[:2], pa.concat_tables(TABLES[2:4])])[-1:]
    )
    stream.checkpoint = here
    assert rows_of(stream.run(4)) == counted(TABLES[:4])[2:]


def test_a_sink_that_leaves_out_a_micro_batch_after_a_rollback(stream: Stream) -> None:
    stream.run(1)
    stream.copy("A1")
    stream.run(3)  # micro-batches 1 and 2
    stream.restore("A1")
    stream.write(5)
    # Micro-batch 1 has other records than before, and the sink thinks that it has them.
    with pytest.raises(StreamingQueryException, match="micro-batch 1 was not evaluated"):
        stream.run(5, files=2, skipped=[1])
    shutil.rmtree(stream.checkpoint / "commits")
    (stream.checkpoint / "commits").mkdir()
    (stream.checkpoint / "offsets" / "2").unlink()
    (stream.checkpoint / "offsets" / ".2.crc").unlink(missing_ok=True)
    shutil.copy(stream.folder / "copies/A1/commits/0", stream.checkpoint / "commits/0")
    cut = [TABLES[0], pa.concat_tables(TABLES[1:3]), pa.concat_tables(TABLES[3:5])]
    assert rows_of(stream.run(5, files=2)) == counted(cut)[1:]


@pytest.mark.slow
def test_a_sink_that_leaves_out_what_it_has_goes_on(stream: Stream) -> None:
    stream.run(2)
    stream.copy("A2")
    stream.run(3)
    for place in ("commits/2", "commits/.2.crc"):  # the driver died before it could commit
        (stream.checkpoint / place).unlink(missing_ok=True)
    assert rows_of(stream.run(4, skipped=[2])) == [counted(TABLES[:4])[-1]]
