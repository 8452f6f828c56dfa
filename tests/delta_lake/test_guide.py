"""The programs of the guide to Delta run on real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delta_lake.streams import append, read
from document_blocks import run_page


def test_the_guide_runs_from_its_beginning_to_its_end(spark: Any, tmp_path: Path) -> None:
    append(spark, tmp_path / "clicks" / "table", 0)
    run_page("docs/guides/delta.md", tmp_path, spark=spark)
    plain = read(spark, tmp_path / "clicks" / "table").groupBy("key").count().collect()
    assert sorted(read(spark, tmp_path / "counts" / "table").collect()) == sorted(plain)
