"""Schemas of states and results: read once, compared with what a ledger holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, StructField, StructType, TimestampType

from skewless.aggregations.python_values import require_known, to_arrow
from skewless.aggregations.types import parse_type, widens
from skewless.arrays import Ints
from skewless.plumbing.arguments import shown
from skewless.spark.aggregation.windows import microseconds
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import arrow_schema
from skewless.spark.ledger.ledger import LedgerMismatch
from skewless.spark.state.processor import KeyedRecords, Processor, PythonValues, Update
from skewless.state import MOST_COUNTED

#: The field of a state that says when it ends.
EXPIRES = "expires"
#: How `sessions` names the field of its states, before the gap: states with another one do not fit.
GAP_FIELD = "sessions_with_gap_"
#: How a plan marks the type of a field that grows: states with and without it are stored otherwise.
_GROWING = "growing "
#: The most fields of a state that grow: their numbers are stored in one byte.
_MOST_GROWING = 100


@dataclass(frozen=True)
class Shape:
    """A processor with its schemas, checked."""

    processor: Processor
    state: StructType
    result: StructType
    ttl: int | None  # in microseconds
    meaning: Mapping[str, str] = field(default_factory=dict)  # of states, beyond their schema
    renamed: Mapping[str, str] = field(default_factory=dict)  # old names of fields to new ones
    timers: str | None = None  # the field of the state that has them
    growing: tuple[str, ...] = ()  # lists to which elements are appended

    @cached_property
    def state_arrow(self) -> pa.Schema:
        """The state as Arrow has it."""
        return arrow_schema(self.state, "state_schema")

    @cached_property
    def result_arrow(self) -> pa.Schema:
        """The results as Arrow has them."""
        return arrow_schema(self.result, "result_schema")

    @property
    def span(self) -> int | None:
        """How long items of lists are held, in microseconds, if each is stored as a row."""
        return self.processor.holds_rows_for

    @property
    def follows_clock(self) -> bool:
        """Whether states end by the time of the micro-batch, not by the watermark."""
        return self.processor.clock == "processing"

    @property
    def name(self) -> str:
        """The class of the processor, for messages."""
        return type(self.processor).__name__

    @property
    def expires(self) -> bool:
        """Whether states can end by the watermark."""
        return self.ttl is not None or EXPIRES in self.state.names or self.timers is not None

    def results_of(self, update: Update) -> pa.Table:
        """Return the rows of an update with the schema's types; raise ValueError for others."""
        schema = self.result_arrow
        rows: Any = update.results
        if rows is None:
            return schema.empty_table()
        if isinstance(rows, PythonValues):
            require_known(rows.names, schema.names, self.processor, "result row")
            arrays = [
                to_arrow([row.get(n) for row in rows], kind, self.processor, f"result {n!r}")
                for n, kind in zip(schema.names, schema.types, strict=True)
            ]
            rows = pa.table(arrays, schema=schema)
        results = _as(rows, schema, f"{self.name}: results")
        for one in self.result.fields:
            if not one.nullable and results.column(one.name).null_count:
                raise ValueError(
                    f"{self.name}: results have a null in {one.name!r}, which must not be null"
                )
        return results

    def states_of(self, update: Update, keyed: KeyedRecords) -> Any:
        """Return the states of an update as structs; raise ValueError for others."""
        states: Any = update.states
        kind = pa.struct(list(self.state_arrow))
        if isinstance(states, PythonValues):
            states = to_arrow(states, kind, self.processor, "state")
        if isinstance(states, pa.ChunkedArray):
            states = states.combine_chunks()
        wrong = None
        if not isinstance(states, pa.StructArray):
            wrong = f"a pyarrow StructArray, not {shown(states)}"
        elif len(states) != len(keyed):
            wrong = f"one for each of the {len(keyed)} keys, not {len(states)}"
        if wrong is not None:
            raise ValueError(f"{self.name}: states must be {wrong}")
        if states.type.equals(kind):
            return states
        fields = pa.Table.from_arrays(states.flatten(), [f.name for f in states.type])
        table = _as(fields, self.state_arrow, f"{self.name}: states")
        arrays = [column.combine_chunks() for column in table.columns]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=states.is_null())

    def keeps_of(self, update: Update, keyed: KeyedRecords) -> dict[str, Ints]:
        """Return how many elements of growing lists stay; raise ValueError for other numbers."""
        keeps: Any = update.keeps
        if not isinstance(keeps, Mapping) or not set(keeps) <= set(self.growing):
            names = list(self.growing)
            raise ValueError(
                f"{self.name}: keeps must have numbers by fields that grow ({names}), not "
                f"{shown(keeps)}"
            )
        found = {name: np.asarray(numbers) for name, numbers in keeps.items()}
        for name, one in found.items():
            if one.dtype.kind not in "iu" or one.shape != (len(keyed),) or (one < 0).any():
                raise ValueError(
                    f"{self.name}: keeps: {name!r} must have a whole number of at least 0 for each "
                    f"of the {len(keyed)} keys, not {shown(keeps[name])}"
                )
        # Numbers without a sign would become floats together with lengths.
        most = np.uint64(MOST_COUNTED)
        return {
            name: np.minimum(one.astype(np.uint64), most).astype(np.int64)
            for name, one in found.items()
        }


def shape_of(processor: Any) -> Shape:
    """Return a user's processor with its schemas; raise ValueError for other objects."""
    if not isinstance(processor, Processor):
        raise ValueError(
            f"processor must be an object of a class derived from Processor or KeyProcessor, "
            f"not {shown(processor)}"
        )
    name = type(processor).__name__
    state = _struct(processor, "state_schema")
    result = _struct(processor, "result_schema")
    if EXPIRES in state.names and not isinstance(state[EXPIRES].dataType, TimestampType):
        kind = state[EXPIRES].dataType.simpleString()
        raise ValueError(f"{name}: state_schema: field 'expires' must be a timestamp, not {kind}")
    ttl = None if processor.ttl is None else microseconds(processor.ttl, f"{name}: ttl")
    if ttl is not None and ttl <= 0:
        raise ValueError(f"{name}: ttl must be above 0, not {processor.ttl!r}")
    renamed = _texts(processor, "renamed", "{'n': 'clicks'}")
    for old, new in renamed.items():
        if new not in state.names or old in state.names:
            raise ValueError(
                f"{name}: renamed: {old!r} must be a former name and {new!r} a field of "
                f"state_schema, which has {state.names}"
            )
    meaning, timers = _texts(processor, "meaning", "{'unit': 'seconds'}"), processor.timers
    lists = [one.name for one in state.fields if one.dataType.simpleString() == "array<timestamp>"]
    if timers is not None and timers not in lists:
        raise ValueError(
            f"{name}: timers must be the name of a field of state_schema of type array<timestamp>, "
            f"not {shown(timers)}; state_schema has {state.simpleString()}"
        )
    clock: Any = processor.clock
    if not isinstance(clock, str) or clock not in ("event", "processing"):
        raise ValueError(f"{name}: clock must be 'event' or 'processing', not {shown(clock)}")
    if clock == "processing":  # a restart cannot change it: times of states would not fit
        meaning = {**meaning, "clock": clock}
    growing = _growing(processor, state)
    return Shape(processor, state, result, ttl, meaning, renamed, timers, growing)


def _growing(processor: Processor, state: StructType) -> tuple[str, ...]:
    """Return the fields that grow; raise ValueError unless they are lists, and hold no timers."""
    given: Any = processor.growing
    lists = [one.name for one in state.fields if isinstance(one.dataType, ArrayType)]
    able = [name for name in lists if name != processor.timers][:_MOST_GROWING]
    names = list(given) if isinstance(given, list | tuple) else [None]
    if len({*map(repr, names)}) < len(names) or any(name not in able for name in names):
        raise ValueError(
            f"{type(processor).__name__}: growing must be a list of names of fields of "
            f"state_schema that are arrays, and not of timers, not {shown(given)}; it may have "
            f"{able}"
        )
    return tuple(name for name in able if name in names)


def _texts(processor: Processor, attribute: str, example: str) -> dict[str, str]:
    given: Any = getattr(processor, attribute)
    if not isinstance(given, Mapping) or not all(
        isinstance(part, str) for pair in given.items() for part in pair
    ):
        raise ValueError(
            f"{type(processor).__name__}: {attribute} must be texts by name, such as {example}, "
            f"not {shown(given)}"
        )
    return dict(given)


def _struct(processor: Processor, attribute: str) -> StructType:
    name = type(processor).__name__
    given: Any = getattr(processor, attribute, None)
    if given is None:
        raise ValueError(f"{name}: the attribute {attribute!r} is missing")
    try:
        struct = given
        if isinstance(given, str) and given.strip():  # DDL is parsed without a session
            struct = from_arrow_schema(pa.schema(list(parse_type(f"struct<{given}>"))))
    except ValueError as error:
        raise ValueError(f"{name}: {attribute}: {error}") from error
    if not isinstance(struct, StructType) or not struct.fields:
        raise ValueError(
            f"{name}: {attribute} must be DDL such as 'n bigint, mean double' or a StructType "
            f"with at least one field, not {shown(given)}"
        )
    for one, count in Counter(map(str.lower, struct.names)).items():
        if count > 1:
            raise ValueError(f"{name}: {attribute} names the field {one!r} twice")
    arrow_schema(struct, f"{name}: {attribute}")
    return struct


def _as(table: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Return a table with exactly these columns and types; raise ValueError where it cannot."""
    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise ValueError(f"{what} must be a pyarrow Table, not {shown(table)}")
    for name in (*schema.names, *table.schema.names):
        if (name in schema.names) != (name in table.schema.names):
            place = "lack" if name in schema.names else "have"
            raise ValueError(f"{what} {place} the column {name!r}; the schema is {schema.names}")
        if table.schema.names.count(name) > 1:
            raise ValueError(f"{what} have the column {name!r} twice; the schema is {schema.names}")
    try:
        columns = [table.column(field.name).cast(field.type) for field in schema]
    except pa.ArrowException as error:
        raise ValueError(f"{what} are not of the declared types: {error}") from error
    return pa.table(columns, schema=schema)


def schema_text(shape: Shape) -> str:
    """Return the schema of states as a plan keeps it: names and types, without nullability."""
    return json.dumps([[one.name, _kind(shape, one)] for one in shape.state.fields])


def _kind(shape: Shape, one: StructField) -> str:
    return _GROWING * (one.name in shape.growing) + one.dataType.simpleString()


def require_same_states(about: Mapping[str, Any], shape: Shape, where: str) -> None:
    """Raise LedgerMismatch unless a plan with `about` was made for states that mean the same."""
    before: Any = about.get("meaning", {})
    for name in sorted({*before, *shape.meaning}):
        was, now = before.get(name, "nothing"), shape.meaning.get(name, "nothing")
        if was != now:
            raise LedgerMismatch(
                f"{where} holds states with {name}: {was}, not with {name}: {now}. Keep the "
                "earlier meaning, or use another ledger and checkpoint"
            )
    kept = about.get("schema")
    if isinstance(kept, str):
        require_compatible(kept, shape, where)


def require_compatible(kept: str, shape: Shape, where: str) -> None:
    """Raise LedgerMismatch unless states that were written with `kept` can be read by `shape`."""
    now = {one.name: one for one in shape.state.fields}
    fields = json.loads(kept)
    before: dict[str, str] = {shape.renamed.get(old, old): kind for old, kind in fields}
    if len(before) < len(fields):
        names = ", ".join(name for name, _ in fields)
        raise LedgerMismatch(
            f"{where} holds states with the fields {names}, two of which would become one by "
            "renamed: leave one out of it, or use another ledger and checkpoint"
        )
    for name, kind in before.items():
        if name not in now and name.startswith(GAP_FIELD):
            raise LedgerMismatch(
                f"{where} holds sessions with another gap ({name.removeprefix(GAP_FIELD)}), which "
                "cannot change: use that gap, or another ledger and checkpoint"
            )
        if name not in now:
            raise LedgerMismatch(
                f"{where} holds states with the field {name} {kind}, which state_schema lacks: "
                "fields can be added, not removed. Keep the field (it may be null), even in an "
                "older program that is deployed again; or use another ledger and checkpoint"
            )
        wanted = _kind(shape, now[name])
        if wanted != kind and not _widens(kind, wanted):
            raise LedgerMismatch(
                f"{where} holds states in which {name} is {kind}, not {wanted}: numbers can become "
                "wider, and structs can get fields after or between theirs. Add a field of another "
                "name, or use another ledger and checkpoint"
            )
    for name, one in now.items():
        if name not in before and not one.nullable:
            raise LedgerMismatch(
                f"{where} holds states without the field {name}, so it must be nullable in "
                "state_schema: leave out NOT NULL"
            )


def _widens(before: str, now: str) -> bool:
    if before.startswith(_GROWING) != now.startswith(_GROWING):
        return False
    before, now = before.removeprefix(_GROWING), now.removeprefix(_GROWING)
    try:
        return widens(parse_type(before), parse_type(now))
    except ValueError:  # a name inside a struct that cannot be read without quotes
        return False
