"""Whole keys that workers finish: retried tasks and lost shuffle files change no result.

Keys are split in one layout of partitions and whole in another. The checksums of Spark are off:
nothing but equal marks can save the results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from faults.jobs.starting import run_without_checksums, write_records

pytestmark = [pytest.mark.faults, pytest.mark.spark]

CASES = [
    ["cascade", 1, "combine", "kill_worker"],
    ["cascade", 4, "combine", "lose_shuffle"],
    ["cascade-ahead", 4, "combine", "raise"],
    ["fish", 4, "combine", "kill_worker"],
    ["fish", 1, "combine", "lose_shuffle"],
    ["pkg", 4, "merge", "kill_worker"],
]


def expected(records: Path) -> dict[Any, Any]:
    table = pq.read_table(records, columns=["k", "v"])
    found: dict[Any, list[int]] = {}
    for row in table.to_pylist():
        found.setdefault(row["k"], []).append(row["v"])
    return {key: (len(values), min(values), max(values)) for key, values in found.items()}


def test_failed_tasks_and_lost_shuffles_change_no_result(tmp_path: Path) -> None:
    records, folder = tmp_path / "records", tmp_path / "jobs"
    write_records(records)
    run_without_checksums("whole_keys_job", folder, records, CASES, "local[2,4]", {})
    for case in CASES:
        place = folder / "-".join(map(str, case))
        assert (place / "fired").exists(), case
        rows = pq.read_table(place / "out").to_pylist()
        found = {row["k"]: (row["n"], row["low"], row["high"]) for row in rows}
        assert len(found) == len(rows), case
        assert found == expected(records), case
