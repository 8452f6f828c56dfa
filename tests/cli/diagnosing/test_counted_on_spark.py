"""Counting on Spark tells what counting in memory tells, record by record in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from command_line import lend_session, refused, run
from skewless.apps.records.inputs import find_input
from skewless.cli.diagnosing.keys import Asked, diagnose_in_memory, report_by_spark

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def records() -> pa.Table:
    """Return records with hot keys that change, some nulls and texts beyond ASCII."""
    rng = np.random.default_rng(5)
    numbers = rng.zipf(1.4, 4_000) % 300 + np.arange(4_000) // 500 * 7
    names = [None if n % 41 == 0 else f"Zoë {n}" for n in numbers.tolist()]
    return pa.table({"name": names, "shop": pa.array(numbers % 5, pa.int32())})


def write_parquet(records: pa.Table, folder: Path) -> None:
    """Write files of different sizes: Spark begins with the largest, and cuts it."""
    for number, (begin, end) in enumerate([(0, 300), (300, 3_000), (3_000, 3_001), (3_001, 4_000)]):
        name = folder / f"part {number}.parquet"
        pq.write_table(records[begin:end], name, row_group_size=400)


def write_lines(records: pa.Table, folder: Path) -> None:
    rows = records.to_pylist()
    for number, (begin, end) in enumerate([(0, 1_000), (1_000, 4_000)]):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows[begin:end]]
        (folder / f"{number}.jsonl").write_text("\n".join(lines))


def write_csv(records: pa.Table, folder: Path) -> None:
    rows = [f"{row['name'] or ''},{row['shop']}" for row in records.to_pylist()]
    (folder / "a.csv").write_text("\n".join(["name,shop", *rows]))
    (folder / "b.csv").write_text("\n".join(["name,shop", *rows[:500]]))


def write_text(records: pa.Table, folder: Path) -> None:
    words = [str(row["name"]) for row in records.to_pylist()]
    (folder / "words.txt").write_text(" \n".join(words))


CASES = {
    "parquet": (write_parquet, "name"),
    "two columns": (write_parquet, "shop,name"),
    "json": (write_lines, "name"),
    "csv": (write_csv, "shop,name"),
    "text": (write_text, None),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in ("parquet", "text") else pytest.mark.slow)
        for case in CASES
    ],
)
def test_the_reports_of_both_ways_are_equal(
    spark: Any, records: pa.Table, tmp_path: Path, case: str
) -> None:
    write, key = CASES[case]
    write(records, tmp_path)
    asked = Asked(str(tmp_path), "auto", key, n_workers=4, limit=100_000, window=500)
    small = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "10000")
    try:
        placed = find_input(str(tmp_path)).read_in_places(spark)
        assert placed.rdd.getNumPartitions() > 2
        report = report_by_spark(asked, placed)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", small)
    assert report == diagnose_in_memory(asked)
    assert len(report.facts.drifts) == 9
    assert sum(report.facts.drifts) > 0


def test_strategies_are_simulated_on_the_first_records_only(
    spark: Any, records: pa.Table, tmp_path: Path
) -> None:
    write_parquet(records, tmp_path)
    asked = Asked(str(tmp_path), "auto", "name", n_workers=4, limit=1_000, window=500)
    report = report_by_spark(asked, find_input(str(tmp_path)).read_in_places(spark))
    assert (report.facts.n_records, report.found.sampled) == (4_000, 1_000)
    assert report.found.predictions == diagnose_in_memory(asked).found.predictions


def test_diagnose_counts_on_spark(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lend_session(spark, monkeypatch)
    pq.write_table(pa.table({"user": ["x", "y", "x", None] * 50}), tmp_path / "a.parquet")
    command = ["diagnose", "key", "--input", str(tmp_path), "--key", "user", "--workers", "2"]
    counted = run(*command, "--spark", "--json")
    assert counted.exit_code == 0, counted.output
    assert counted.stdout == run(*command, "--json").stdout
    refusals = {
        "--key: unknown column 'usr'; did you mean 'user'?": [*command, "--key", "usr", "--spark"],
        "--key COLUMN is missing": [*command[:4], "--spark"],
    }
    for message, refusal in refusals.items():
        assert message in refused(*refusal), refusal
