"""Late records come as rows of their own, in a column that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skewless.spark import process
from spark.state.chains import DDL, SCHEMA, chain, chained, records
from spark.state.counting import Counts, of_keys
from spark.state.eight_tables import rows
from spark.state.without_spark import Query
from spark.streams import read_stream, run, write_file


def test_late_records_are_rows_without_results(tmp_path: Path) -> None:
    one = Query(tmp_path, Counts(), SCHEMA, time="ts", delay=1_000_000, late="old")
    assert one.step(0, of_keys(["a", "b"], 9)).column_names == ["k", "n", "old"]
    late = of_keys(["a", "c", "a"], 8)  # the watermark is at 8 s
    found = one.step(1, late).to_pylist()
    assert [row["old"] for row in found if row["old"]["k"] == "a"] == late.to_pylist()[::2]
    assert [row["old"] for row in found if row["old"]["k"] == "c"] == late.to_pylist()[1:2]
    assert {(row["k"], row["n"]) for row in found} == {(None, None)}
    assert rows(one.step(2, of_keys(["a"], 9))) == [("a", 2, None)]


@pytest.mark.spark
def test_late_records_of_a_stream_pass_through(spark: Any, tmp_path: Path) -> None:
    """The processor gets what it gets without the column, and the sink gets all records."""
    tables = [records(60, seed) for seed in (2, 0, 3, 1)]  # the second and the last are late
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)

    def results(name: str, **more: Any) -> Any:
        stream = read_stream(spark, tmp_path / "in", DDL)
        ledger = str(tmp_path / name / "ledger")
        given = {"watermark": ("ts", "5 seconds"), "workers": 2, "ledger": ledger, **more}
        return process(stream, "k", chain(), **given)

    found = run(
        results("a", late_column="late", batch_column="batch"),
        "append",
        tmp_path / "a" / "checkpoint",
    )
    dropped = [tables[0], tables[0].slice(0, 0), tables[2], tables[0].slice(0, 0)]
    for batch, table in enumerate(tables):
        kept = sorted([tuple(row)[:4] for row in found[batch] if row["late"] is None], key=repr)
        assert kept == chained(dropped)[batch]
        late = [row["late"] for row in found[batch] if row["late"] is not None]
        wanted = [] if kept else [(row["k"], row["v"]) for row in table.to_pylist()]
        assert sorted([(row["k"], row["v"]) for row in late], key=repr) == sorted(wanted, key=repr)
        assert {row["batch"] for row in found[batch]} == {batch}
    batch = process(
        spark.createDataFrame(tables[0]),
        "k",
        chain(),
        watermark=("ts", "5 seconds"),
        late_column="late",
        workers=2,
    )
    assert batch.schema["late"].dataType.names == ["k", "v", "ts"]
    assert batch.where("late IS NOT NULL").count() == 0
    with pytest.raises(ValueError, match="late_column needs watermark="):
        results("b", late_column="late", watermark=None)
    with pytest.raises(ValueError, match="late_column: 'N' is the name of another column"):
        results("b", late_column="N")
    with pytest.raises(ValueError, match="late_column must be the name of a new column"):
        results("b", late_column=1)
