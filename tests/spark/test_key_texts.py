"""Keys as text: one spelling in all reports, even for times that Python cannot hold."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.spark.key_texts import key_text
from spark.balance.reports import report_of
from spark.ledger.entries import read_workers
from spark.state.counting import Counts
from spark.state.without_spark import Query

FAR = 410_000_000_000_000_000  # in microseconds
FAR_TEXT = "14962-05-20 08:53:20.000000Z"


class CountsOfTimes(Counts):
    result_schema = "k timestamp, n bigint"


def times(*micros: int | None) -> Any:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))


def test_parts_are_joined_and_null_is_a_word() -> None:
    assert key_text([pa.scalar("a, b"), None, pa.scalar(None, pa.string()), 1.5]) == (
        "a, b, null, null, 1.5"
    )
    assert key_text([times(0)[0]]) == str(datetime(1970, 1, 1, tzinfo=timezone.utc))
    assert key_text([]) == ""


def test_times_beyond_the_dates_of_python_are_spelled_by_arrow() -> None:
    assert key_text([times(FAR)[0]]) == FAR_TEXT
    assert key_text([pa.array([5_000_000], pa.int32()).cast(pa.date32())[0]]) == "15659-07-15"
    struct = pa.StructArray.from_arrays([times(FAR)], ["at"])[0]
    assert key_text([struct]).endswith("that Python cannot hold")


def test_aggregate_and_process_report_such_a_key_alike(tmp_path: Path) -> None:
    ((text, _, _),) = report_of(times(FAR)).about["top"]
    assert text == FAR_TEXT
    query = Query(tmp_path, CountsOfTimes(), pa.schema([("k", times().type)]), workers=1)
    query.step(0, pa.table({"k": times(FAR, FAR)}))
    assert [key for key, _, _ in read_workers(query.ledger, 0)[0].about["top"]] == [text]
