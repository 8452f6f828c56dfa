"""Test support: streams for the ready operators, run in this process with moves in every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from skewless.keys import hash_keys
from skewless.spark import scale_to
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.schemas import shape_of
from skewless.spark.state.versions.held_state import HeldState
from skewless.spark.state.versions.state_tables import LIVE, hashes_of
from skewless.spark.state.worker_step import Work
from spark.state.chains import BEGIN, in_order, random_moves
from spark.state.without_spark import Query

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
DDL = "k string, v bigint, ts timestamp"
SECOND = 1_000_000
NONE = -(1 << 62)  # a watermark before all times

Record = tuple[Any, Any, Any]  # key, value, microseconds after BEGIN


def table_of(records: Sequence[Record]) -> pa.Table:
    """Return records as a table; times count from BEGIN."""
    keys, values, times = zip(*records, strict=True) if records else ((), (), ())
    micros = [None if time is None else BEGIN + time for time in times]
    return pa.table({"k": list(keys), "v": list(values), "ts": micros}, schema=SCHEMA)


def records_of(table: pa.Table) -> list[Record]:
    """Return the same the other way round."""
    times = table.column("ts").cast(pa.int64()).to_pylist()
    moments = [None if time is None else time - BEGIN for time in times]
    return list(
        zip(table.column("k").to_pylist(), table.column("v").to_pylist(), moments, strict=True)
    )


def drifting(n_batches: int, seed: int, n_records: int = 60, late: int = 60) -> list[list[Record]]:
    """Return micro-batches with a hot key, null keys and times, and some records that are late."""
    rng = np.random.default_rng(seed)
    batches = []
    for batch in range(n_batches):
        n = 0 if batch % 7 == 5 else int(rng.integers(1, n_records))
        seconds = batch * 10 + rng.integers(-late if batch % 3 else -5, 10, n)
        names = [None, "hot", "hot", "hot", "", "🦊", *(f"k{i + batch // 5}" for i in range(6))]
        some = []
        for second in seconds.tolist():
            time = None if rng.random() < 0.03 else second * SECOND + int(rng.integers(3)) * 500
            some.append((names[int(rng.integers(len(names)))], int(rng.integers(100)), time))
        batches.append(some)
    return batches


def cut_streams(n_keys: int = 2) -> Any:
    """Return small streams of Hypothesis: micro-batches of records, with nulls and late ones."""
    keys = st.sampled_from([None, *(f"k{i}" for i in range(n_keys))])
    times = st.one_of(st.none(), st.integers(0, 40).map(lambda second: second * SECOND))
    record = st.tuples(keys, st.integers(0, 9), times)
    return st.lists(st.lists(record, max_size=6), min_size=1, max_size=6)


def each(given: Any, batches: Sequence[Any]) -> list[Any]:
    """Build one value per micro-batch: the same for all, or those of a list."""
    return list(given) if isinstance(given, list) else [given] * len(batches)


def with_watermarks(
    batches: Sequence[Any], delay: int | list[int], time: Callable[[Any], Any]
) -> Iterator[tuple[int, Any]]:
    """Yield each micro-batch with its watermark, which follows from those before."""
    watermark, latest = NONE, None
    for batch, behind in zip(batches, each(delay, batches), strict=True):
        if latest is not None:
            watermark = max(watermark, (latest + BEGIN) // 1000 * 1000 - BEGIN - behind)
        yield watermark, batch
        times = [time(record) for record in batch if time(record) is not None]
        latest = max([*times, *([] if latest is None else [latest])], default=None)


def stepped(
    folder: Path,
    processor: Any,
    tables: Sequence[pa.Table],
    *,
    time: str | None = None,
    delay: int | None = None,
    key: Sequence[str] = ("k",),
    workers: int = 3,
    rescales: bool = True,
    **settings: Any,
) -> list[list[tuple[Any, ...]]]:
    """Return the sorted rows of each micro-batch: keys move at random, workers come and go."""
    found = []
    for batch, table in enumerate(tables):
        if rescales and batch % 4 == 3:
            scale_to(str(folder), 1 + batch % 5)
        query = Query(
            folder,
            processor,
            tables[0].schema,
            strategy=random_moves(),
            workers=workers if batch == 0 else None,
            run=f"run-{batch // 3}",
            key=key,
            time=time,
            delay=delay,
            **settings,
        )
        found.append(rows_of(query.step(batch, table)))
    return found


def in_memory(
    processor: Any,
    tables: Sequence[pa.Table],
    *,
    time: str | None = None,
    delay: int = 0,
    key: Sequence[str] = ("k",),
    seed: int = 0,
    clock: Sequence[int] = (),
) -> list[list[tuple[Any, ...]]]:
    """Return the same without files: each key is on another worker in each micro-batch.

    `clock` has the time of each micro-batch, if states end by it.
    """
    work = Work(shape_of(processor), sent_columns(tables[0].schema, key, time))
    layout, rng = work.layout, np.random.default_rng(seed)
    states, found = layout.empty(), []
    latest: list[int] = []
    second: list[int] = []
    before: int | None = None
    now: int | None = None
    for batch, table in enumerate(tables):
        if clock:
            now = max(clock[: batch + 1])
        n_workers = int(rng.integers(1, 4))
        columns = [table.column(name) for name in key]
        hashes = hash_keys(*columns)
        nothing = pa.array(np.zeros(table.num_rows, np.int32))
        ours = [pa.array(hashes.view(np.int64)), nothing, nothing]
        sent = pa.table([*ours, *table.columns], schema=work.sent.schema)
        salt = np.uint64(int(rng.integers(1 << 62)) | 1)
        rows, kept = [], []
        for worker in range(n_workers):
            mine = sent.filter(pa.array(_workers(hashes, salt, n_workers) == worker))
            there = _workers(hashes_of(states), salt, n_workers) == worker
            own = states.filter(pa.array(there)).combine_chunks()
            held = HeldState(layout, arrived=own)
            worked = work.do(mine.combine_chunks(), held, before, now, batch=batch)
            rows.append(worked.results)
            kept.append(layout.newest([own, worked.changed]))
            latest += [] if worked.latest is None else [worked.latest]
            second += [] if worked.latest_second is None else [worked.latest_second]
        whole = layout.newest(kept)
        states, before = whole.filter(whole.column(LIVE)), now
        streams = [latest] if processor.second_stream is None else [latest, second]
        if time is not None and all(streams):
            at = min(map(max, streams)) // 1000 * 1000 - delay
            now = at if now is None else max(now, at)
        found.append(rows_of(pa.concat_tables(rows)))
    return found


def _workers(hashes: Any, salt: Any, n_workers: int) -> Any:
    return ((hashes * salt) >> np.uint64(33)) % np.uint64(n_workers)


def sent_columns(schema: pa.Schema, key: Sequence[str], time: str | None) -> SentColumns:
    """Build the sent form of records with this schema."""
    ours = [("hash", pa.int64()), ("worker", pa.int32()), ("source", pa.int32())]
    place = {name: len(ours) + number for number, name in enumerate(schema.names)}
    keys = tuple(place[name] for name in key)
    at = None if time is None else place[time]
    whole = pa.schema([*ours, *schema])
    return SentColumns(whole, tuple(schema.names), keys, tuple(key), (), at)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the sorted rows; times are microseconds after BEGIN."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.int64()).to_pylist()
            columns.append([None if value is None else value - BEGIN for value in micros])
        else:
            columns.append(column.to_pylist())
    return in_order(zip(*columns, strict=True))
