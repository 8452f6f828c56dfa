"""Streams through `process` equal plain Python, record for record, while keys move all the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skewless.spark import process, scale_to
from spark.state.chains import DDL, chain, chained, random_moves, records, rows_of
from spark.streams import read_stream, run, write_file

pytestmark = pytest.mark.spark


def test_a_stream_with_moves_and_rescaling_equals_plain_python(spark: Any, tmp_path: Path) -> None:
    tables = [records(300, seed) for seed in range(6)]
    tables[3] = tables[3].slice(0, 0)
    found: dict[int, Any] = {}
    ledger = str(tmp_path / "ledger")
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)
        stream = read_stream(spark, tmp_path / "in", DDL)
        results = process(
            stream,
            "k",
            chain(),
            strategy=random_moves(),
            max_workers=4,
            ledger=ledger,
            workers=2 if number < 5 else 4,
        )
        if number == 4:
            scale_to(ledger, 3)
        if number > 1:
            found |= run(results, "append", tmp_path / "checkpoint")
    assert rows_of(found) == chained(tables)
