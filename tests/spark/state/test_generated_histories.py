"""Whatever happens to a query, and whatever keys move, the results are those of plain Python."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.spark import scale_to
from spark.state.chains import SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.without_spark import Query

#: What happens before a micro-batch: nothing, a restart, another number of workers; or the last one
#: is repeated, by the same run or by the next one.
EVENTS = st.one_of(
    st.just(("nothing", 0)),
    st.just(("restart", 0)),
    st.tuples(st.just("scale"), st.integers(1, 5)),
    st.just(("repeat", 0)),
    st.just(("repeat after a restart", 0)),
)
STEPS = st.lists(st.tuples(EVENTS, st.integers(0, 40)), min_size=2, max_size=12)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(steps=STEPS, workers=st.integers(1, 4), kept=st.integers(1, 3), seed=st.integers(0, 99))
def test_results_are_those_of_plain_python(
    steps: list[tuple[tuple[str, int], int]], workers: int, kept: int, seed: int
) -> None:
    tables = [records(n, 100 * seed + number) for number, (_, n) in enumerate(steps)]
    wanted = chained(tables)
    with tempfile.TemporaryDirectory() as name:
        folder, run = Path(name), 0

        def query(number: int, asked: int | None) -> Query:
            strategy = random_moves(seed)
            options = {"strategy": strategy, "workers": asked, "most": 5, "kept": kept}
            return Query(folder, chain(), SCHEMA, run=f"run-{number}", **options)

        running = query(run, workers)
        for batch, ((event, asked), _) in enumerate(steps):
            if event in ("restart", "repeat after a restart"):
                run += 1
                running = query(run, None)
            if event == "scale" and batch:  # it needs a query that has begun
                scale_to(str(folder), asked)
            if event.startswith("repeat") and batch:
                assert rows(running.step(batch - 1, tables[batch - 1])) == wanted[batch - 1]
            assert rows(running.step(batch, tables[batch])) == wanted[batch]
