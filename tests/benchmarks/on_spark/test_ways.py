"""Ways of partitioning by replay: cells, tables, and a small measurement of each family."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark import by_replay, ways_tables
from benchmarks.on_spark.ways import FAMILIES, Cell
from benchmarks.records import PROJECT, read_records
from benchmarks.streams import N_HOT, stream_table
from skewless.diagnosis import costs


def rows(cell: Cell, said: str | None, **seconds: list[float]) -> list[dict[str, Any]]:
    return [
        {**cell.about, "said": said, "way": way.replace("_", "-"), "round": number, "seconds": took}
        for way, times in seconds.items()
        for number, took in enumerate(times)
    ]


CELL = Cell("a model", "work", "Zipf 1.4", 32, 1_000, writes="`mapInArrow`")
RIGHT = rows(CELL, "plan", hash=[4.0, 9.0, 5.0], plan=[1.1, 1.0, 1.2], local=[1.0], REBALANCE=[3])
WRONG = rows(replace(CELL, stream="s"), "salt-32", hash=[1.0], plan=[2.0], salt_32=[1.5])


def test_a_cell_has_medians_ranges_and_the_fastest_way():
    (cell,) = ways_tables.measured(RIGHT)
    assert (cell.best, cell.seconds("hash"), cell.is_said_well) == ("local", 5.0, True)
    assert cell.shown("hash") == "5.00 (4.00 – 9.00)"
    assert cell.shown("local") == "**1.00**"
    assert cell.shown("hash", "plan") == "1.10 (1.00 – 1.20)"
    assert cell.shown("join") == "–"


def test_a_plan_of_whole_keys_is_in_the_column_of_plans():
    whole = [
        {**row, "way": row["way"].replace("plan", "whole-plan"), "said": "whole-plan"}
        for row in RIGHT
    ]
    assert " | 1.10 (1.00 – 1.20) | – |" in ways_tables.table(whole)


def test_the_tables_say_what_was_said_and_where_that_was_wrong():
    right, wrong = ways_tables.table(RIGHT + WRONG).splitlines()[2:]
    assert right.startswith("| a model | computing | Zipf 1.4 | 32 | 1,000 | 5.00 (4.00 – 9.00) |")
    assert right.endswith("| plan ✓ |")
    assert wrong.endswith("| salt-32 1.50 ✗ (hash is faster) |")
    joined = rows(replace(CELL, says="a join", family="join"), "join", join=[1.0], hash=[2.0])
    assert ways_tables.summary(RIGHT + WRONG + joined).endswith(
        ": `hot_keys` in 1 of 2, `join` in 1 of 1."
    )
    assert ways_tables.ten_rows(RIGHT).splitlines()[2] == (
        "| a model; Zipf 1.4 | `mapInArrow` | **1.00** | 5.00 | – | 3.00 | 1.10 | plan ✓ |"
    )
    no_row = [{**row, "writes": ""} for row in WRONG]
    assert len(ways_tables.ten_rows(RIGHT + no_row).splitlines()) == 3


def test_the_readme_has_ten_rows_and_all_families_are_measured():
    cells = list(by_replay.cells())
    shown = [cell for cell in cells if cell.writes]
    assert len(shown) == 10
    # A stranger without the real streams can check them, in the short run.
    assert all(cell.stream.startswith("Zipf") and not cell.full for cell in shown)
    assert {cell.slots for cell in shown} == {32}
    assert {cell.family for cell in cells} == set(FAMILIES)
    places = {tuple(cell.about[name] for name in ways_tables.PLACE) for cell in cells}
    assert len(places) == len(cells)


def test_a_stream_is_generated_or_a_file_of_the_folder(tmp_path: Path):
    assert stream_table("none", 10, 5, 0, tmp_path) is None
    pq.write_table(pa.table({"key": ["a", "b", "c"]}), tmp_path / "letters.parquet")
    letters = stream_table("letters", 2, 5, 1, tmp_path)
    assert letters is not None
    assert letters["key"].to_pylist() == ["a", "b"]
    generated = stream_table("Zipf 1.0", 100, 5, 1, None)
    assert generated is not None
    assert generated.column_names == letters.column_names == ["key", "x", "w", "c0"]


def test_a_few_hot_keys_take_their_part_of_a_stream():
    stream = stream_table("Hot 0.25", 10_000, 1_000, 0, None)
    assert stream is not None
    counts = Counter(stream["key"].to_pylist()).most_common()
    hot, light = counts[:N_HOT], counts[N_HOT:]
    assert sum(n for _, n in hot) == pytest.approx(2_500, rel=0.1)
    assert max(n for _, n in light) < 30 < min(n for _, n in hot)


def test_what_planning_costs_is_a_ratio_on_one_slot_and_on_many():
    cell = replace(CELL, says="10 columns", family="shuffle")
    measured = rows(cell, None, hash=[2.0, 2.0], plan=[3.0, 1.0])
    alone = [{**row, "alone": 4.0 if row["way"] == "hash" else 5.0} for row in measured]
    assert ways_tables.planned_shuffles(alone).splitlines()[2:] == [
        "| 10 columns | 1,000 | 1.25 | 1.00 |"
    ]


def test_the_constants_of_advice_are_those_of_the_records():
    """If this fails: measure, `by_replay --full --constants`, and write its medians into costs."""
    records = ways_tables.REPORT.read()
    assert sum("rest" in one for one in records) >= 100
    assert {name: getattr(costs, name) for name in ways_tables.FITTED} == ways_tables.fitted(
        records
    )


def test_constants_are_medians_beyond_other_ways_and_are_judged_on_other_cells():
    rests = {"local": 40.0, "plan": 0.5, "cascade-ahead": 0.75}
    took = {"a": (1.1, 1.0), "b": (1.5, 1.05), "c": (1.3, 9.0)}
    found = [
        {**row, "rest": rests[row["way"]]}
        for name, (plan, ahead) in took.items()
        for row in rows(
            *(replace(CELL, says=name), "plan"), local=[40.1], plan=[plan], cascade_ahead=[ahead]
        )
    ]
    shuffling = ways_tables.FITTED["STAGE_SECONDS"]
    # A plan has the stage of a shuffle as well.
    assert ways_tables.fitted(found) == {"JOB_SECONDS": 0.5, "STAGE_SECONDS": 0.2}
    assert ways_tables.constants(found).splitlines()[2:] == [
        "| JOB_SECONDS | plan, whole-plan | 0.50 | 3 | 0.80 | 0.60 | 1.00 |",
        f"| STAGE_SECONDS | {', '.join(shuffling)} | 0.20 | 3 | 0.30 | 0.25 | 8.25 |",
        "| none | local | – | 3 | 0.10 | 0.10 | 0.10 |",
    ]
    # The others say of "a" and "b" that a stage takes 4 s, and a plan no more. Then the plan is
    # named, which is as good for "a" only. Of "c" they say 0.2 s: routing is named, which took 9 s.
    assert "in 1 of 3 cells" in ways_tables.left_out(found)


def test_what_is_predicted_beforehand_has_no_constant():
    cell = replace(CELL, per_record=1e-3, slots=4)
    stream = stream_table(cell.stream, cell.records, 50, 0, None)
    measured = rows(cell, None, plan=[9.0], local=[1.0], REBALANCE=[3.0])
    plan, local, rebalanced = by_replay.with_rests(cell, stream, measured)
    assert local["rest"] == pytest.approx(0.25)
    assert 0.25 <= plan["rest"] < 0.3 < costs.JOB_SECONDS
    assert "rest" not in rebalanced


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("work", ["their orders", "state machine"])
def test_a_cell_is_measured_and_replayed_once(work: str, tmp_path: Path):
    out = tmp_path / "ways.jsonl"
    command = [sys.executable, "-m", "benchmarks.on_spark.by_replay", "--out", str(out)]
    command += ["--only", work, "--most", "2000", "--rounds", "1"]
    command += ["--full"] if work == "their orders" else []
    # Another process: it needs a session of its own, on one slot.
    for _ in range(2):
        subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=900)
    records = read_records(out)
    (found,) = ways_tables.measured(records)
    assert len(found.ways) == len(records) >= 2
    assert all(0 < row["seconds"] < row["alone"] for row in records)
