"""Test support: the keyed operators, streams for them, and what plain Python makes of these."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skewless.spark.state.operators.deduplicate import Deduplicate
from spark.state.chains import SCHEMA, chain, chained, in_order
from spark.state.event_time.reminders import reminded, reminders
from spark.state.growing.gathering import Gathering, gathered
from spark.state.operators.plain_operators import Rows, deduplicated, joined, largest, sessioned
from spark.state.operators.stepping import SECOND, table_of, with_watermarks
from spark.state.operators.test_against_plain_python import (
    FIELDS,
    HOWS,
    both_sides,
    session_processor,
    top_processor,
    with_ends,
)
from spark.state.operators.test_spread_joins import DELAY, WITHIN, SpreadQuery, with_part
from spark.state.test_errors import fragile
from spark.state.test_errors import wanted as failing
from spark.state.without_spark import Query

Item = tuple[int, Any]  # the side of a join, 0 for other operators; and the record


@dataclass(frozen=True)
class Operator:
    """How an operator is queried, and what it must return for each micro-batch."""

    query: Callable[..., Query]
    table: Callable[[Sequence[Item]], pa.Table]
    wanted: Callable[[Sequence[Sequence[Item]]], Rows]
    has_time: bool = True  # states depend on the watermark


def stream(n_records: int, chance: random.Random) -> list[Item]:
    """Return a stream in which one key after the other is hot; some keys and times are null.

    The hot key pauses now and then, and some records are late.
    """
    found = []
    names = [None, "", "🦊", *(f"k{number}" for number in range(6))]
    for number in range(n_records):
        second = number // 3 + chance.randint(-25 if chance.random() < 0.1 else -8, 3)
        time = None if chance.random() < 0.02 else second * SECOND + chance.randrange(3) * 500
        era = number // 70
        hot = number % 35 < 25 and chance.random() < 0.6
        key = f"hot-{era % 2}" if hot else chance.choice(names)
        side = int(chance.random() < (0.1 if hot and era % 3 < 2 else 0.7))
        found.append((side, (key, chance.randrange(100), time)))
    return found


def _records(items: Sequence[Item]) -> list[Any]:
    return [record for _, record in items]


def _sides(items: Sequence[Item]) -> tuple[list[Any], list[Any]]:
    return tuple([record for side, record in items if side == wanted] for wanted in (0, 1))  # type: ignore[return-value]


def _of_one_stream(
    processor: Callable[[], Any],
    wanted: Callable[[list[list[Any]]], Rows],
    table: Callable[[list[Any]], pa.Table] = table_of,
    **settings: Any,
) -> Operator:
    schema = table([]).schema
    return Operator(
        lambda folder, **more: Query(folder, processor(), schema, **settings, **more),
        lambda items: table(_records(items)),
        lambda batches: wanted([_records(items) for items in batches]),
        has_time="time" in settings,
    )


def _join(how: str) -> Operator:
    return Operator(
        lambda folder, **more: SpreadQuery(folder, how, least=6, **more),
        lambda items: with_part(both_sides(*_sides(items))),
        lambda batches: joined([_sides(items) for items in batches], WITHIN, DELAY, how),
    )


def _with_late(batches: list[list[Any]]) -> Rows:
    """Return the rows of `chain`, and the late records as rows of their own."""
    marked = list(with_watermarks(batches, DELAY, lambda record: record[2]))
    times = [[record[2] is None or record[2] > mark for record in batch] for mark, batch in marked]
    cut = list(zip(batches, times, strict=True))
    kept = [[one for one, stays in zip(*pair, strict=True) if stays] for pair in cut]
    late = [[one for one, stays in zip(*pair, strict=True) if not stays] for pair in cut]
    rows = chained([table_of(batch).cast(SCHEMA) for batch in kept])
    records = [table_of(batch).to_pylist() for batch in late]
    nothing = (None,) * 4
    return [
        in_order([*((*row, None) for row in own), *((*nothing, record) for record in others)])
        for own, others in zip(rows, records, strict=True)
    ]


OPERATORS = {
    "process": _of_one_stream(
        chain, lambda batches: chained([table_of(batch).cast(SCHEMA) for batch in batches])
    ),
    "growing lists": _of_one_stream(
        Gathering, lambda batches: gathered([table_of(batch).cast(SCHEMA) for batch in batches])[0]
    ),
    "late records": _of_one_stream(chain, _with_late, time="ts", delay=DELAY, late="late"),
    "errors": _of_one_stream(
        fragile,
        lambda batches: failing([table_of(batch).cast(SCHEMA) for batch in batches]),
        errors="failed",
    ),
    "timers": _of_one_stream(
        reminders, lambda batches: reminded(batches, DELAY), time="ts", delay=DELAY
    ),
    "deduplicate": _of_one_stream(
        lambda: Deduplicate(FIELDS, "ts", WITHIN),
        lambda batches: deduplicated(batches, WITHIN, DELAY),
        time="ts",
        delay=DELAY,
    ),
    "sessions": _of_one_stream(
        lambda: session_processor(WITHIN),
        lambda batches: sessioned(batches, WITHIN, DELAY),
        lambda records: with_ends(records, WITHIN),
        time="ends",
        delay=DELAY + WITHIN,
    ),
    "top_n": _of_one_stream(lambda: top_processor(3), lambda batches: largest(batches, 3)),
    **{f"join, {how}": _join(how) for how in HOWS},
}
