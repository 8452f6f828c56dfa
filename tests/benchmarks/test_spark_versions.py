"""The table of versions of Spark."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.spark_versions import PARTS, table


def record(spark: str, mode: str, part: str, outcome: str = "passed") -> dict[str, str]:
    return {"spark": spark, "mode": mode, "part": part, "outcome": outcome, "python": "3.11.7"}


def test_versions_are_ordered_as_numbers_and_what_did_not_run_is_not_claimed() -> None:
    records = [
        record("4.10.0", "classic", "a"),
        record("4.9.1", "connect", "a", "failed"),
        record("4.9.1", "classic", "a"),
        record("4.9.1", "classic", "b", "skipped"),
    ]
    assert table(records).splitlines() == [
        "| | 4.9.1, classic | 4.9.1, Connect | 4.10.0, classic |",
        "| --- | ---: | ---: | ---: |",
        "| a | yes | **no** | yes |",
        "| b | not tried | not tried | not tried |",
    ]


def test_parts_have_a_fixed_order_which_names_all_that_are_tried() -> None:
    smoke = Path(__file__).parents[1] / "versions" / "test_smoke.py"
    tried = re.findall(r'mark\.versions\("(.+)"\)', smoke.read_text(encoding="utf-8"))
    assert set(tried) == set(PARTS)
    records = [record("4.3.0", "classic", part) for part in ("new", *reversed(PARTS))]
    lines = [line.split(" | ")[0].lstrip("| ") for line in table(records).splitlines()[2:]]
    assert lines == [*PARTS, "new"]


def test_runs_without_compiled_kernels_are_told() -> None:
    told = table([{**record("4.1.4", "classic", "a"), "compiled": False}])
    assert told.endswith("\n\nKernels were interpreted, not compiled, on 4.1.4.")
    assert "Kernels" not in table([{**record("4.1.4", "classic", "a"), "compiled": True}])
