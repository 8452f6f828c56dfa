"""The programs of the guide to Kafka run on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import document_blocks
from document_blocks import run_page
from kafka.broker import Broker
from kafka.streams import received, send

N_CLICKS = 60  # as the page says


def test_the_guide_runs_from_its_beginning_to_its_end(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(spark, broker, "clicks", 0, N_CLICKS)
    as_written = document_blocks.blocks("docs/guides/kafka.md")
    assert any("localhost:9092" in block.program for block in as_written)
    here = [
        b._replace(program=b.program.replace("localhost:9092", broker.address)) for b in as_written
    ]
    monkeypatch.setattr(document_blocks, "blocks", lambda page: here)
    run_page("docs/guides/kafka.md", tmp_path, spark=spark)
    counts = {row["key"]: int(row["value"]) for row in received(spark, broker, "counts").collect()}
    plain = received(spark, broker, "clicks").groupBy("key").count().collect()
    assert counts == {row["key"]: row["count"] for row in plain}
