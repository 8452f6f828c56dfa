"""Whatever happens to a query, and whatever keys move, the results are those of plain Python."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.spark import scale_to
from spark.state.chains import BEGIN, SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.event_time.test_processing_time import ClockedQuery, clocked
from spark.state.operators.stepping import in_memory
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
Steps = list[tuple[tuple[str, int], int]]
STEPS: Any = st.lists(st.tuples(EVENTS, st.integers(0, 40)), min_size=2, max_size=12)
#: The options of a query that are drawn as well.
OPTIONS: Any = st.fixed_dictionaries(
    {"workers": st.integers(1, 4), "kept": st.integers(1, 3), "seed": st.integers(0, 99)}
)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


def tables_of(steps: Steps, options: dict[str, int]) -> list[pa.Table]:
    return [records(n, 100 * options["seed"] + at) for at, (_, n) in enumerate(steps)]


def history(
    folder: Path,
    steps: Steps,
    tables: Sequence[pa.Table],
    wanted: Sequence[Any],
    options: dict[str, int],
    query: Callable[..., Query],
) -> Iterator[Query]:
    """Yield the query after each micro-batch; `query` builds it from the number of its run."""

    def begun(run: int) -> Query:
        return query(
            run,
            strategy=random_moves(options["seed"]),
            workers=None if run else options["workers"],
            most=5,
            kept=options["kept"],
            run=f"run-{run}",
        )

    run, running = 0, begun(0)
    for batch, ((event, asked), _) in enumerate(steps):
        if event in ("restart", "repeat after a restart"):
            run += 1
            running = begun(run)
        if event == "scale" and batch:  # it needs a query that has begun
            scale_to(str(folder), asked)
        if event.startswith("repeat") and batch:
            assert rows(running.step(batch - 1, tables[batch - 1])) == wanted[batch - 1]
        assert rows(running.step(batch, tables[batch])) == wanted[batch]
        yield running


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(steps=STEPS, options=OPTIONS, narrow=st.booleans())
def test_results_are_those_of_plain_python(
    steps: Steps, options: dict[str, int], narrow: bool
) -> None:
    """The fields of a narrow state become wider at the first restart."""
    tables = tables_of(steps, options)
    with tempfile.TemporaryDirectory() as name:

        def query(nth: int, **given: Any) -> Query:
            processor = chain()
            if narrow and not nth:
                processor.state_schema = "n int, sum bigint, last smallint"
            return Query(Path(name), processor, SCHEMA, **given)

        for _ in history(Path(name), steps, tables, chained(tables), options, query):
            pass


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(steps=STEPS, options=OPTIONS, data=st.data())
def test_states_end_by_the_clock_as_in_memory(
    steps: Steps, options: dict[str, int], data: st.DataObject
) -> None:
    """The clock may stand still, and be set back."""
    tables = tables_of(steps, options)
    seconds = data.draw(st.lists(st.integers(0, 90), min_size=len(steps), max_size=len(steps)))
    clock = [BEGIN + 1_000_000 * second for second in seconds]
    wanted = in_memory(clocked(), tables, clock=clock)
    with tempfile.TemporaryDirectory() as name:

        def query(nth: int, **given: Any) -> Query:
            one = ClockedQuery(Path(name), clocked(), SCHEMA, **given)
            one.seconds = tuple(seconds)
            return one

        for _ in history(Path(name), steps, tables, wanted, options, query):
            pass
