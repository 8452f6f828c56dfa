"""`read_state`: the states of a query as a DataFrame, after any retained micro-batch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless import registry
from skewless.aggregations.columns import plain
from skewless.aggregations.python_values import to_arrow
from skewless.arrays import Keys
from skewless.plumbing.arguments import shown as shown_value
from skewless.plumbing.arguments import whole
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal, quoted
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.records import Records
from skewless.spark.routing.planned.counting import seeded_hash
from skewless.spark.routing.query_ledger import kept_seed
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.planning.state_plan import from_entry
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.bases import Base
from skewless.spark.state.versions.held_state import HeldState, weight
from skewless.spark.state.versions.row_tables import states_by_key
from skewless.spark.state.versions.state_tables import StateLayout, every_row, layout_of
from skewless.spark.state.versions.version_files import read, stack
from skewless.spark.worker_python import require_skewless

#: Columns that are added before those of the state.
OURS = pa.schema({"worker": pa.int32(), "version": pa.int64(), "bytes": pa.int64()})
_ROWS_AT_ONCE = 1 << 16


def read_state(
    spark: SparkSession,
    ledger: str,
    batch: int | None = None,
    *,
    keys: Sequence[Any] | None = None,
) -> DataFrame:
    """Return one row per key that has a state: the key, its worker, and the state's columns.

    The columns are those of the key, `worker`, `version` (the last micro-batch in the state),
    `bytes` (the size of the row in the files), and the fields of the state. A column of the key
    with the name of an added column, in any case, becomes `key_<name>`. A field of the state with
    the name of another column becomes `state_<name>`.

    Parameters
    ----------
    spark
        The session.
    ledger
        The ledger of a query of `process`; the query may run.
    batch
        The micro-batch. None: the last one that all workers have finished.
        `spark.sql.streaming.minBatchesToRetain` says how many are kept. After a rollback of the
        checkpoint, None is the last one of the run that continued from there; a later number still
        reads the run before.
    keys
        Return only the rows of these keys: ["ann", None]. A key of several columns is a tuple. Only
        the files of their workers are opened, and what worker 0 changed last; a new process checks
        these files whole. A key without a state has no row. None: all keys.

    Examples
    --------
    >>> read_state(spark, ledger, keys=["ann"]).select("user", "clicks").collect()
    [Row(user='ann', clicks=2)]
    """
    if not callable(getattr(type(spark), "range", None)) or isinstance(spark, DataFrame):
        raise ValueError(f"spark must be a SparkSession, not {shown_value(spark)}")
    opened = Ledger(ledger)
    base = _base(opened, batch)
    # All workers wrote this version with the same fields, even if the query began with fewer.
    layout = layout_of(read(opened, base.version(0).file).table.schema)
    wanted, workers = None, spark.range(0, base.workers, 1, base.workers)
    if keys is not None:
        seed = kept_seed(opened)
        if seed is None:
            raise LedgerCorrupt(
                f"{opened.place}/identity.json is gone: keys are hashed by its seed"
            )
        wanted = _wanted(spark, opened, layout, keys, seed)
        owners = owners_of(opened, base, wanted.hashes, seed)
        workers = spark.createDataFrame(pa.table({"id": owners})).repartition(max(1, len(owners)))
    reader = StateReader(opened, base, layout, wanted)
    require_skewless(spark)
    return workers.mapInArrow(reader.rows, from_arrow_schema(reader.schema))


def _base(ledger: Ledger, batch: int | None) -> Base:
    place = ledger.place
    if batch is None:
        found = bases.newest(ledger)
        if found is None:
            raise ValueError(
                f"ledger: {place} holds no state: there is no such folder, or no micro-batch has "
                "ended yet"
            )
        return found
    wanted = whole(batch, "batch")
    complete = bases.complete(ledger, wanted)
    if complete is None:
        known = [one for one in bases.batches(ledger) if bases.complete(ledger, one)]
        held = f"it has {known[0]} … {known[-1]}" if known else "it has none"
        raise ValueError(f"batch: {place} has no version {wanted}; {held}")
    return complete


@dataclass(frozen=True, eq=False)
class WantedKeys:
    """Keys to look up, as the states have them, in the order of their hashes."""

    hashes: Keys
    columns: list[Any]


def _wanted(
    spark: SparkSession, ledger: Ledger, layout: StateLayout, keys: Any, seed: int
) -> WantedKeys:
    """Return the keys that a user gave; Spark hashes them as it does those of records."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence):
        raise ValueError(f"keys must be a list of keys, not {shown_value(keys)}")
    names = layout.key.names
    if names[-1].startswith(internal("part")):
        raise ValueError(
            f"keys: the ledger in {ledger.place} is of a join, whose keys may be in several parts: "
            "filter what read_state returns without keys="
        )
    rows = [(key,) for key in keys] if len(names) == 1 else keys
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(names):
            told = f"a tuple of {len(names)} values, for {', '.join(names)}"
            raise ValueError(f"keys: each must be {told}, not {shown_value(row)}")
    given = [
        to_arrow([row[place] for row in rows], field.type, "keys", f"value of {field.name!r}")
        for place, field in enumerate(layout.key)
    ]
    df = spark.createDataFrame(pa.table(given, layout.key), from_arrow_schema(layout.key))
    key = Records.of(df).by([F.col(quoted(name)) for name in names]).key
    is_digest = (ledger.identity() or {}).get("untrusted_keys") is True
    hashed = seeded_hash(key, seed, untrusted=is_digest)
    found = df.select(hashed, *key.grouped).toArrow().combine_chunks()
    hashes, *columns = (plain(column) for column in found.columns)
    numbers: Keys = hashes.to_numpy().view(np.uint64)
    order = np.argsort(numbers, kind="stable")
    return WantedKeys(numbers[order], [column.take(pa.array(order)) for column in columns])


def owners_of(ledger: Ledger, base: Base, hashes: Keys, seed: int) -> Any:
    """Return the workers that may hold these hashes: all, if the strategy is a user's own.

    A strategy of ours with the same ring and the same table has the same owners.
    """
    every, strategy = np.arange(base.workers if hashes.size else 0), None
    entry = ledger.read(state_plan_name(base.batch, base.run))
    if entry is None:  # purged since it was listed
        return every
    with contextlib.suppress(TypeError, ValueError):  # a name or parameters that we do not know
        name, settings = json.loads(str(entry.about.get("strategy")))
        strategy = as_moving(registry.make(name, **settings))
    if strategy is None:
        return every
    plan = from_entry(entry, strategy, seed)
    return np.unique(plan.placing.owners(hashes)).astype(np.int64) if plan.is_alike else every


def renamed(schema: pa.Schema, prefix: str, taken: Iterable[str]) -> list[pa.Field]:
    """Return fields with the prefix where another column has their name, as Spark compares names.

    Unique names stay as they are. A prefix is repeated if the prefixed name is taken as well.
    """
    others = {name.lower() for name in taken}
    own = {name.lower() for name in schema.names}
    fields = []
    for field in schema:
        name: str = field.name
        if name.lower() in others:
            while name.lower() in others | own:
                name = prefix + name
            others.add(name.lower())
        fields.append(pa.field(name, field.type))
    return fields


@dataclass(frozen=True)
class StateReader:
    """Reads the state of one worker after the other."""

    ledger: Ledger
    base: Base
    layout: StateLayout
    wanted: WantedKeys | None = None  # None: all keys

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        keys = renamed(self.layout.key, "key_", OURS.names)
        fields = renamed(self.layout.state, "state_", (*OURS.names, *(key.name for key in keys)))
        return pa.schema([*keys, *OURS, *fields])

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the workers whose numbers come in."""
        for batch in batches:
            for worker in batch.column(0).to_pylist():
                table = self._of(worker)
                yield from table.combine_chunks().to_batches(_ROWS_AT_ONCE)

    def _of(self, worker: int) -> pa.Table:
        layout = self.layout
        held = HeldState(layout, stack(self.ledger, self.base.version(worker).file))
        if self.wanted is None:
            table = held.rows_of()
        else:
            table = held.with_hashes(np.unique(self.wanted.hashes))
            rows = every_row(*layout.ranges(table, self.wanted.hashes, self.wanted.columns))
            table = table.take(pa.array(np.unique(rows)))
        weights = weight(layout, table)
        table, states, codes = states_by_key(layout, table)
        sizes = np.bincount(codes, weights, len(states)).astype(np.int64)
        same = [np.full(table.num_rows, number) for number in (worker, self.base.batch)]
        numbers = zip((*same, sizes), OURS.types, strict=True)
        ours = [pa.array(column, kind) for column, kind in numbers]
        fields = states.flatten()
        return pa.table([*layout.keys(table), *ours, *fields], schema=self.schema)
