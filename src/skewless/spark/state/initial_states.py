"""`initial_state=`: the states that a query begins with, as a version before micro-batch 0.

They are written when `process` is called, each to the worker that has its key by the first plan.
Micro-batch 0 builds on this version as every other one on the version before it. So a repeated
micro-batch, another run, or another number of workers reads the same states.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from skewless.aggregations.types import widens
from skewless.arrays import Keys
from skewless.parameters import nearest
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import arrow_schema, internal
from skewless.spark.key_texts import key_text
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.names import INITIAL, STATE, VersionName, state_plan_name
from skewless.spark.records import GroupingKey, Records
from skewless.spark.routing.planned.counting import seeded_hash
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.arguments import HASH, WORKER, Placed
from skewless.spark.state.planning import state_plan
from skewless.spark.state.planning.placing import worker_column
from skewless.spark.state.planning.worker_reports import report_entry
from skewless.spark.state.reading import renamed
from skewless.spark.state.schemas import Shape
from skewless.spark.state.versions import state_tables, version_files
from skewless.spark.state.versions.bases import initial_run, name_initial_run
from skewless.spark.state.versions.column_room import require_room
from skewless.spark.state.versions.growing_lists import Appending
from skewless.spark.state.versions.held_state import weight
from skewless.spark.state.versions.state_tables import values_of
from skewless.spark.state.worker_step import Work

_LOGGER = logging.getLogger("skewless")
_ARGUMENT = "initial_state"
_PLAN, _SEEN = internal("plan_"), internal("seen")
#: What the task of a worker tells: that its states are written, or a key that is there twice.
_TOLD = pa.schema({"worker": pa.int32(), "twice": pa.string()})


@dataclass(frozen=True, eq=False)
class InitialStates:
    """The user's DataFrame, checked, with internal names: the key, the time, and the state."""

    df: DataFrame
    key: GroupingKey

    def write(self, place: Placed, work: Work) -> None:
        """Write the states into the ledger of a query, unless the query has begun with some.

        Raises ValueError if a key has several states, and LedgerMismatch if the query has begun
        without initial states.
        """
        ledger, seed = place.query.ledger, place.query.seed
        assert ledger is not None
        if ledger.listed(STATE):
            if initial_run(ledger) is None:
                raise LedgerMismatch(
                    f"initial_state: the query of the ledger in {ledger.place} has begun without "
                    "initial states: leave it out, or use another ledger and checkpoint"
                )
            _LOGGER.info(
                "process: initial_state is not read, because the query of the ledger in %s has "
                "begun with initial states",
                ledger.place,
            )
            return
        plan = place.controller.first_plan(seed, work.shape)
        tasks = InitialTasks(ledger, secrets.token_hex(16), work, plan.n_workers)
        key = self.key
        whole = seeded_hash(key, seed, untrusted=place.untrusted)
        named = [one.alias(f.name) for one, f in zip(key.grouped, key.fields, strict=True)]
        others = [name for name in self.df.columns if name not in [f.name for f in key.fields]]
        found = self.df.select(whole.alias(HASH), *named, *others)
        row = pa.Table.from_batches([plan.placing.row(hash_seed(seed))])
        places = self.df.sparkSession.createDataFrame(row)
        places = places.toDF(*[_PLAN + name for name in places.columns])
        worker = worker_column(F.col(HASH), _PLAN).cast("int").alias(WORKER)
        sent = found.crossJoin(F.broadcast(places)).select(*found.columns, worker)
        sent = sent.repartitionById(plan.n_workers, F.col(WORKER))
        told = sent.mapInArrow(tasks.write, from_arrow_schema(_TOLD)).collect()
        for row in told:
            if row["twice"] is not None:
                raise ValueError(
                    f"initial_state has several states of the key {row['twice']}: give one row "
                    "for each key"
                )
        tasks.finish({row["worker"] for row in told}, plan, seed)
        ledger.claim(place.query.identity)
        name_initial_run(ledger, tasks.run)


@dataclass(frozen=True, eq=False)
class InitialTasks:
    """What the tasks do that write initial states, and what the driver does after them."""

    ledger: Ledger
    run: str
    work: Work
    n_workers: int
    began: int = field(default_factory=lambda: time_ns() // 1000)  # the same in all attempts

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the states that come in; yield their worker, and a key that is there twice."""
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        if not tables:
            return
        require_room(tables, "the initial states of a worker", "use more workers")
        whole = pa.concat_tables(tables).combine_chunks()
        owners = values_of(whole, WORKER)
        for worker in np.unique(owners).tolist():
            twice = self._written(worker, whole.filter(pa.array(owners == worker)))
            yield pa.RecordBatch.from_pydict({"worker": [worker], "twice": [twice]}, _TOLD)

    def finish(self, written: set[int], plan: state_plan.StatePlan, seed: int) -> None:
        """Write what is missing: versions of workers without states, and the plan."""
        for worker in set(range(self.n_workers)) - written:
            self._write_version(worker, self.work.layout.empty())
        name = state_plan_name(INITIAL, self.run)
        self.ledger.publish(name, state_plan.to_entry(plan, seed))

    def _written(self, worker: int, rows: pa.Table) -> str | None:
        """Write the states of one worker; return a key that has several, as text."""
        layout = self.work.layout
        keys = [_column(rows, f"key_{i}", kind) for i, kind in enumerate(layout.key.types)]
        hashes: Keys = values_of(rows, HASH).view(np.uint64)
        order, new = state_tables.key_order(hashes, keys)
        if not new.all():
            twice = int(order[np.flatnonzero(~new)[0]])
            return key_text([key[twice] for key in keys])
        fields = [_column(rows, f"field_{i}", kind) for i, kind in enumerate(layout.state.types)]
        clocked = self.work.shape.follows_clock
        seen = np.full(rows.num_rows, self.began if clocked else state_tables.NO_TIME)
        if _SEEN in rows.column_names:
            seen = state_tables.micros_of(state_tables.column_of(rows, _SEEN))
        states = pa.StructArray.from_arrays(fields, fields=list(layout.struct))
        lists, heads = Appending(layout, (), INITIAL), layout.heads
        if layout.growing:
            _, empty = lists.given(pa.nulls(len(states), heads.struct), hashes, keys)
            states = lists.taken(states, empty, {})
        no_end = np.full(rows.num_rows, state_tables.FOREVER)
        table = heads.table(hashes, keys, states, no_end, seen)
        whole = layout.with_items(table.take(pa.array(order)), lists.new)
        self._write_version(worker, self.work.renewed(whole))
        return None

    def _write_version(self, worker: int, table: pa.Table) -> None:
        layout = self.work.layout
        size = {"held": table.num_rows, "bytes": int(weight(layout, table).sum())}
        version = version_files.version_of(layout, table, size)
        none, hashes = np.empty(0, np.int64), np.empty(0, np.uint64)
        told = {"records": 0, "seconds": 0.0, "latest": None, "late": 0, "moved": 0} | size
        report = report_entry(hashes, none, np.empty(0), none, None, told, None, hashes)
        name = VersionName(INITIAL, self.run, worker, self.n_workers)
        version_files.write(self.ledger, name, version, report)


def _column(rows: pa.Table, name: str, kind: pa.DataType) -> Any:
    return state_tables.column_of(rows, internal(name)).cast(kind)


def checked(
    initial: Any, records: Records, shape: Shape, time: str | None, *, has_ledger: bool
) -> InitialStates:
    """Return the initial states that a user gave; raise ValueError unless they fit the query."""
    if not records.is_stream:
        raise ValueError(
            "initial_state is for streams, whose states last: df is a batch DataFrame; begin it "
            "with a record for each state instead"
        )
    if not has_ledger:
        raise ValueError(
            "initial_state needs ledger=, the folder that the states are written to: the one of "
            "spark.skewless.ledger is known only when the query runs"
        )
    given = Records.with_names(initial, _ARGUMENT)
    if given.is_stream:
        raise ValueError("initial_state must be a batch DataFrame, and this one is a stream")
    key = records.key
    wanted = {name: f.dataType for name, f in zip(key.names, key.fields, strict=True)}
    named = renamed(shape.state_arrow, "state_", wanted)  # as `read_state` names them
    fields = {own.name: f.dataType for own, f in zip(named, shape.state, strict=True)}
    if shape.ttl is not None and time in fields:
        raise ValueError(
            f"initial_state: {shape.name} has ttl, and {time!r} is both a field of its state and "
            "the time of the watermark: give one of them another name"
        )
    time = None if time in fields else time
    times = {} if time is None else {time: records.schema[time].dataType}
    _require_columns(given, {**wanted, **fields}, times)
    if shape.ttl is not None and not shape.follows_clock and time not in given.names:
        raise ValueError(
            f"initial_state: {shape.name} has ttl, which counts from the last record of a key: add "
            f"the time of that record as the column {time!r}"
        )
    chosen: list[Column] = []
    for prefix, columns in ("key", wanted), ("field", fields):
        for number, (name, kind) in enumerate(columns.items()):
            _require_type(given, name, kind, is_key=columns is wanted)
            column = given.column(name)
            typed = column.cast(kind) if columns is wanted else column
            chosen.append(typed.alias(internal(f"{prefix}_{number}")))
    if time is not None and time in given.names:
        _require_type(given, time, times[time], is_key=False)
        chosen.append(given.column(time).alias(_SEEN))
    key_fields = [StructField(internal(f"key_{n}"), k) for n, k in enumerate(wanted.values())]
    parts = tuple(F.col(one.name) for one in key_fields)
    return InitialStates(given.df.select(*chosen), GroupingKey(parts, key.names, tuple(key_fields)))


def _require_columns(given: Records, wanted: dict[str, Any], times: dict[str, Any]) -> None:
    told = ", ".join(f"{name} {kind.simpleString()}" for name, kind in wanted.items())
    for name in wanted:
        if name not in given.names:
            raise ValueError(
                f"initial_state lacks the column {name!r}: it must have the columns of the key and "
                f"the fields of the state: {told}"
            )
    for name in given.names:
        if name not in wanted and name not in times:
            message = nearest(name, [*wanted, *times], "column")
            raise ValueError(f"initial_state: {message}; it must have {told}")


def _require_type(given: Records, name: str, kind: Any, *, is_key: bool) -> None:
    """Raise ValueError unless a column is of this type, or its values fit into it without loss."""
    there = given.schema[name].dataType
    if there == kind or there.simpleString() == kind.simpleString():
        return
    schema = StructType([StructField("before", there), StructField("now", kind)])
    before, now = arrow_schema(schema, _ARGUMENT).types
    if not widens(before, now) or (is_key and pt.is_nested(before)):
        raise ValueError(
            f"initial_state: column {name!r} must be {kind.simpleString()}, not "
            f"{there.simpleString()}"
        )
