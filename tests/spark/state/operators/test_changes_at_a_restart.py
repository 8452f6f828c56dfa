"""Restarts that change `within`, `how`, `n` or the delay of the watermark, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lanes import slow_except
from skewless.spark.state.operators.deduplicate import Deduplicate
from skewless.spark.state.operators.join_processor import TIME
from spark.state.chains import in_order, random_moves
from spark.state.operators.plain_operators import deduplicated, joined, largest, sessioned
from spark.state.operators.stepping import SECOND, Record, drifting, rows_of, table_of
from spark.state.operators.test_against_plain_python import (
    DELAY,
    FIELDS,
    both_sides,
    join_processor,
    session_processor,
    top_processor,
    two_sides,
    with_ends,
)
from spark.state.operators.test_spread_joins import SpreadQuery, with_part
from spark.state.without_spark import Query

N_BATCHES = 12
SPAN = 7 * SECOND


def changed(first: Any, second: Any) -> list[Any]:
    """Return one for each micro-batch: another after the first restart, the first one at the end.

    A run has four micro-batches.
    """
    return [first] * 4 + [second] * 4 + [first] * (N_BATCHES - 8)


def restarted(
    folder: Path, processors: Sequence[Any], tables: Sequence[pa.Table], delays: Any, **more: Any
) -> Any:
    """Return the rows of each micro-batch; each run has its own processor and delay."""
    found = []
    for batch, (table, processor, delay) in enumerate(zip(tables, processors, delays, strict=True)):
        workers = 3 if batch == 0 else None
        settings: dict[str, Any] = {"workers": workers, "strategy": random_moves(), **more}
        run = f"run-{batch // 4}"
        query = Query(folder, processor, table.schema, run=run, delay=delay, **settings)
        found.append(rows_of(query.step(batch, table)))
    return found


@pytest.mark.parametrize(
    "spans", slow_except([(SPAN, 30 * SECOND)], [(SPAN, 30 * SECOND), (30 * SECOND, SPAN)])
)
def test_deduplicate_takes_another_within(tmp_path: Path, spans: tuple[int, int]) -> None:
    batches, within = drifting(N_BATCHES, 3), changed(*spans)
    processors = [Deduplicate(FIELDS, "ts", span) for span in within]
    tables = [table_of(batch) for batch in batches]
    found = restarted(tmp_path, processors, tables, changed(DELAY, DELAY), time="ts")
    assert found == deduplicated(batches, within, DELAY)
    assert found != deduplicated(batches, spans[0], DELAY)


@pytest.mark.parametrize(
    "delays",
    slow_except(
        [(5 * SECOND, 60 * SECOND)], [(5 * SECOND, 60 * SECOND), (60 * SECOND, 5 * SECOND)]
    ),
)
def test_sessions_take_another_delay_and_no_watermark_goes_back(
    tmp_path: Path, delays: tuple[int, int]
) -> None:
    batches, given = drifting(N_BATCHES, 4), changed(*delays)
    tables = [with_ends(batch, SPAN) for batch in batches]
    processors = changed(session_processor(SPAN), session_processor(SPAN))
    found = restarted(tmp_path, processors, tables, [d + SPAN for d in given], time="ends")
    assert found == sessioned(batches, SPAN, given)
    assert found != sessioned(batches, SPAN, delays[0])


@pytest.mark.parametrize("numbers", slow_except([(2, 4)], [(2, 4), (4, 2)]))
def test_top_n_takes_another_n(tmp_path: Path, numbers: tuple[int, int]) -> None:
    batches, n = drifting(N_BATCHES, 5), changed(*numbers)
    tables = [table_of(batch) for batch in batches]
    processors = [top_processor(number) for number in n]
    found = restarted(tmp_path, processors, tables, changed(None, None))
    assert found == largest(batches, n)
    assert found != largest(batches, numbers[0])


@pytest.mark.parametrize(
    "hows",
    slow_except([("inner", "full")], [("inner", "full"), ("full", "left"), ("right", "inner")]),
)
def test_join_takes_another_how(tmp_path: Path, hows: tuple[str, str]) -> None:
    batches, how = two_sides(drifting(N_BATCHES, 6)), changed(*hows)
    tables = [both_sides(*batch) for batch in batches]
    processors = [join_processor(SPAN, one) for one in how]
    found = restarted(tmp_path, processors, tables, changed(DELAY, DELAY), time=TIME)
    assert found == joined(batches, SPAN, DELAY, how)
    assert found != joined(batches, SPAN, DELAY, hows[0])


@pytest.mark.parametrize(
    "spans", slow_except([(SPAN, 40 * SECOND)], [(SPAN, 40 * SECOND), (40 * SECOND, SPAN)])
)
def test_join_takes_another_within_and_delay(tmp_path: Path, spans: tuple[int, int]) -> None:
    batches = two_sides([*drifting(N_BATCHES - 2, 7), *far_ahead()])
    within, delays = changed(*spans), changed(DELAY, 4 * DELAY)
    tables = [both_sides(*batch) for batch in batches]
    processors = [join_processor(span, "full") for span in within]
    found = restarted(tmp_path, processors, tables, delays, time=TIME)
    wanted = joined(batches, within, delays, "full")
    # A record without a match that was held for a longer span is returned when that has passed.
    assert together(found) == together(wanted)
    assert together(found) != together(joined(batches, spans[0], delays, "full"))


def together(batches: Sequence[Any]) -> list[Any]:
    return in_order(row for rows in batches for row in rows)


def far_ahead() -> list[list[Record]]:
    """Return two micro-batches after which nothing is held of the ones before."""
    return [[("far", number, (5_000 + at) * SECOND) for number in range(2)] for at in (0, 100)]


class Joining:
    """A join whose hot key is spread, one micro-batch after the other, by runs of its own."""

    def __init__(self, folder: Path, how: str) -> None:
        self.folder, self.how, self.batches, self.within = folder, how, [], []  # type: ignore
        self.found: list[Any] = []
        self.spread: list[int] = []

    def step(self, left: list[Record], right: list[Record], within: int) -> None:
        batch = len(self.batches)
        self.batches.append((left, right))
        self.within.append(within)
        query = SpreadQuery(
            self.folder, self.how, least=6, within=within, workers=4, delay=0, run=f"run-{within}"
        )
        table = with_part(both_sides(left, right))
        self.found.append(rows_of(query.step(batch, table)))
        self.spread.append(query.spread.hashes.size)

    def wanted(self) -> list[Any]:
        return joined(self.batches, self.within, 0, self.how)


def side(name: str, n: int, second: int) -> list[Record]:
    """Return records of one key within a second, and one of another key at its end."""
    times = np.linspace(0, SECOND // 2, n).astype(int).tolist()
    records = [(name, number, second * SECOND + time) for number, time in enumerate(times)]
    return [*records, (f"other {second}", 0, (second + 1) * SECOND)]


def test_a_spread_key_that_pauses_stays_spread_while_its_latest_rows_are_held(
    tmp_path: Path,
) -> None:
    """Its first rows are forgotten by then: the span counts from the latest ones."""
    join = Joining(tmp_path, "inner")
    for second in range(0, 10, 2):
        join.step(side("hot", 30, second), side("hot", 1, second), 6 * SECOND)
    join.step(side("cold", 1, 10), side("cold", 1, 10), 6 * SECOND)
    join.step(side("hot", 3, 12), side("hot", 3, 12), 6 * SECOND)
    assert join.found == join.wanted()
    assert join.spread == [0, 1, 1, 1, 1, 1, 1]
    assert len(join.found[-1]) > 30


def test_a_key_that_pauses_as_soon_as_it_is_spread_stays_spread_for_within(tmp_path: Path) -> None:
    join = Joining(tmp_path, "inner")
    join.step(side("hot", 30, 0), side("hot", 1, 0), 6 * SECOND)
    for second in range(2, 12, 2):
        join.step(side("cold", 1, second), side("cold", 1, second), 6 * SECOND)
    # Its last rows are of second 1, the latest time of its micro-batch: over by second 7.
    assert join.spread == [0, 1, 1, 1, 1, 0]
    assert join.found == join.wanted()


def test_rows_in_parts_are_returned_although_a_restart_shortens_within(tmp_path: Path) -> None:
    """A key whose rows may be held for the longer span stays spread: its parts begin only once."""
    join = Joining(tmp_path, "left")
    for second in range(0, 6, 2):
        join.step(side("hot", 30, second), side("cold", 1, second), 60 * SECOND)
    for second in range(6, 24, 6):  # the hot key pauses for longer than the new span
        join.step(side("cold", 1, second), side("cold", 1, second), 6 * SECOND)
    for second in range(24, 30, 2):
        join.step(side("hot", 30, second), side("cold", 1, second), 6 * SECOND)
    for second in (200, 400, 600):
        join.step(side("cold", 1, second), side("cold", 1, second), 6 * SECOND)
    assert together(join.found) == together(join.wanted())
    assert join.spread[1:9] == [1] * 8
    assert join.spread[-1] == 0
