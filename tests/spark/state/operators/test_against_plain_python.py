"""The processors of the ready operators equal plain Python while keys move in every micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructField, StructType, TimestampType

from skewless import aggregations as aggs
from skewless.spark import check_processor
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.ledger import LedgerMismatch
from skewless.spark.state.operators.deduplicate import Deduplicate
from skewless.spark.state.operators.join_processor import LEFT, RIGHT, SIDE, TIME, Join, Side
from skewless.spark.state.operators.sessions import Sessions
from skewless.spark.state.operators.top_n import TopN
from spark.state.operators.plain_operators import deduplicated, joined, largest, sessioned
from spark.state.operators.stepping import (
    SCHEMA,
    SECOND,
    Record,
    cut_streams,
    drifting,
    in_memory,
    stepped,
    table_of,
)
from spark.state.without_spark import Query

FIELDS = from_arrow_schema(SCHEMA)
KEY = [FIELDS["k"]]
DELAY = 15 * SECOND
HOWS = ("inner", "left", "right", "full")


def with_ends(batch: Sequence[Record], gap: int) -> pa.Table:
    """Return records with the column of which `sessions` makes the watermark."""
    ends = [None if time is None else time + gap for _, _, time in batch]
    return table_of(batch).append_column("ends", table_of([("", 0, e) for e in ends]).column("ts"))


def session_processor(gap: int) -> Sessions:
    chosen = {"total": aggs.sum("v")}
    types = {"v": SCHEMA.field("v").type}
    return Sessions(KEY, TimestampType(), gap, "ts", {"v": "v"}, chosen, types)


def top_processor(n: int) -> TopN:
    return TopN(KEY, StructType([FIELDS["v"], FIELDS["ts"]]), "v", n)


def join_processor(within: int, how: str) -> Join:
    others = StructType([FIELDS["v"], FIELDS["ts"]])
    sides = (Side(LEFT, others), Side(RIGHT, others))
    result = StructType([*KEY, *others.fields, *(_renamed(field) for field in others.fields)])
    kept = {"inner": (False, False), "left": (True, False), "right": (False, True)}
    return Join(result, ["k"], sides, kept.get(how, (True, True)), within)


def both_sides(left: Sequence[Record], right: Sequence[Record]) -> pa.Table:
    return pa.concat_tables([_side(left, 0), _side(right, 1)])


def deduplicate(run: Any, batches: Sequence[Sequence[Record]], within: int) -> Any:
    tables = [table_of(batch) for batch in batches]
    return run(Deduplicate(FIELDS, "ts", within), tables, time="ts", delay=DELAY)


def sessions(run: Any, batches: Sequence[Sequence[Record]], gap: int) -> Any:
    tables = [with_ends(batch, gap) for batch in batches]
    return run(session_processor(gap), tables, time="ends", delay=DELAY + gap)


def top_n(run: Any, batches: Sequence[Sequence[Record]], n: int) -> Any:
    return run(top_processor(n), [table_of(batch) for batch in batches])


def join(run: Any, batches: Sequence[Any], within: int, how: str, delay: int = DELAY) -> Any:
    tables = [both_sides(*batch) for batch in batches]
    return run(join_processor(within, how), tables, time=TIME, delay=delay)


def _renamed(field: StructField) -> StructField:
    return StructField(f"{field.name}_right", field.dataType)


def _side(records: Sequence[Record], number: int) -> pa.Table:
    table = table_of(records)
    rows = pa.StructArray.from_arrays(
        [column.combine_chunks() for column in table.select(["v", "ts"]).columns], ["v", "ts"]
    )
    empty = pa.nulls(len(rows), rows.type)
    columns = {
        "k": table.column("k"),
        SIDE: pa.array([bool(number)] * len(rows), pa.bool_()),
        TIME: table.column("ts"),
        LEFT: empty if number else rows,
        RIGHT: rows if number else empty,
    }
    return pa.table(columns)


def two_sides(batches: Sequence[Sequence[Record]]) -> list[tuple[list[Record], list[Record]]]:
    """Return every third record on the right side, the others on the left side."""
    return [
        ([r for i, r in enumerate(b) if i % 3], [r for i, r in enumerate(b) if not i % 3])
        for b in batches
    ]


def in_files(folder: Path) -> Any:
    """Return a run with a ledger in a folder, moves of keys, and other numbers of workers."""
    return partial(stepped, folder)


@pytest.mark.slow
def test_a_drifting_stream(tmp_path: Path) -> None:
    batches = drifting(16, 1)
    within = 7 * SECOND
    found = deduplicate(in_files(tmp_path / "deduplicate"), batches, within)
    assert found == deduplicated(batches, within, DELAY)
    assert 30 < sum(map(len, found)) < sum(map(len, batches))
    found = sessions(in_files(tmp_path / "sessions"), batches, within)
    assert found == sessioned(batches, within, DELAY)
    assert sum(map(len, found)) > 20
    found = top_n(in_files(tmp_path / "top"), batches, 3)
    assert found == largest(batches, 3)
    assert sum(map(len, found)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_a_drifting_join(tmp_path: Path, how: str) -> None:
    batches = two_sides(drifting(12, 5))
    found = join(in_files(tmp_path), batches, 6 * SECOND, how)
    assert found == joined(batches, 6 * SECOND, DELAY, how)
    assert sum(map(len, found)) > 50
    assert any(row[1] is None for rows in found for row in rows) == (how in ("right", "full"))


def test_the_side_that_is_behind_sets_the_watermark_of_a_join(tmp_path: Path) -> None:
    left = [[("a", batch, batch * 100 * SECOND)] for batch in range(6)]
    right: list[list[Record]] = [[], [], [], [("a", 7, 0)], [("a", 8, 300 * SECOND)], []]
    batches = list(zip(left, right, strict=True))
    found = join(in_memory, batches, SECOND, "full", delay=0)
    assert found == joined(batches, SECOND, 0, "full")
    assert ("a", 0, 0, 7, 0) in found[3]


def test_a_record_is_over_when_the_watermark_is_exactly_its_span_later() -> None:
    batches = [
        ([("a", second, second * SECOND)], [("b", 0, second * SECOND)]) for second in range(6)
    ]
    found = join(in_memory, batches, 2 * SECOND, "left", delay=0)
    assert found == joined(batches, 2 * SECOND, 0, "left")
    assert [len(rows) for rows in found] == [0, 0, 0, 1, 1, 1]
    alone: list[list[Record]] = [[(f"k{second}", 0, second * SECOND)] for second in range(6)]
    over = in_memory(
        session_processor(SECOND), [with_ends(b, SECOND) for b in alone], time="ends", delay=SECOND
    )
    assert over == sessioned(alone, SECOND, 0)
    assert [len(rows) for rows in over] == [0, 0, 1, 1, 1, 1]


def test_another_gap_and_another_column_are_refused(tmp_path: Path) -> None:
    records = drifting(1, 2)[0]
    table = with_ends(records, SECOND)
    others = StructType([FIELDS["v"], FIELDS["ts"]])
    pairs = (
        (r"sessions with another gap \(5000_ms\)", session_processor(5 * SECOND)),
        (r"states with the field largest_by_v ", top_processor(2)),
    )
    others_of = session_processor(SECOND), TopN(KEY, others, "ts", 2)
    for number, ((told, before), after) in enumerate(zip(pairs, others_of, strict=True)):
        folder = tmp_path / str(number)
        Query(folder, before, table.schema, time="ends", delay=0).step(0, table)
        later = Query(folder, after, table.schema, time="ends", delay=0, run="later")
        with pytest.raises(LedgerMismatch, match=f"holds {told}"):
            later.step(1, table)


@settings(max_examples=25)
@given(batches=cut_streams(), within=st.sampled_from([1, 5, 30]))
def test_small_streams(batches: Any, within: int) -> None:
    span = within * SECOND
    assert deduplicate(in_memory, batches, span) == deduplicated(batches, span, DELAY)
    assert sessions(in_memory, batches, span) == sessioned(batches, span, DELAY)
    assert top_n(in_memory, batches, 2) == largest(batches, 2)
    sides = two_sides(batches)
    for how in HOWS:
        assert join(in_memory, sides, span, how) == joined(sides, span, DELAY, how)


@pytest.mark.slow
def test_the_operators_keep_the_laws_of_processors() -> None:
    """Repeated calls, other workers, moves, and other micro-batches change nothing."""
    records = sorted(
        (r for batch in drifting(8, 4) for r in batch if r[2] is not None), key=lambda r: r[2]
    )
    span = 5 * SECOND
    for time in (None, "ts"):
        check_processor(Deduplicate(FIELDS, "ts", span), table_of(records), key="k", time=time)
    for time in (None, "ends"):
        check_processor(session_processor(span), with_ends(records, span), key="k", time=time)
    # Rows of these two depend on the micro-batches: a pair comes with the later of its records.
    check_processor(top_processor(2), table_of(records), key="k", answers="batch")
    sides = both_sides(records[::2], records[1::2])
    mixed = sides.take(pa.array(np.argsort(sides.column(TIME).to_numpy(), kind="stable")))
    for time in (None, TIME):
        check_processor(join_processor(span, "full"), mixed, key="k", time=time, answers="batch")
