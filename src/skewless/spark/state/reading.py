"""`read_state`: the states of a query as a DataFrame, after any retained micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skewless.plumbing.arguments import shown as shown_value
from skewless.plumbing.arguments import whole
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.bases import Base
from skewless.spark.state.versions.held_state import HeldState, weight
from skewless.spark.state.versions.state_tables import StateLayout, layout_of
from skewless.spark.state.versions.version_files import read, stack
from skewless.spark.worker_python import require_skewless

#: Columns that are added before those of the state.
OURS = pa.schema({"worker": pa.int32(), "version": pa.int64(), "bytes": pa.int64()})
_ROWS_AT_ONCE = 1 << 16


def read_state(spark: SparkSession, ledger: str, batch: int | None = None) -> DataFrame:
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

    Examples
    --------
    >>> read_state(spark, "/data/clicks/ledger").orderBy("bytes")  # doctest: +SKIP
    """
    if not callable(getattr(type(spark), "range", None)) or isinstance(spark, DataFrame):
        raise ValueError(f"spark must be a SparkSession, not {shown_value(spark)}")
    opened = Ledger(ledger)
    base = _base(opened, batch)
    tables = [read(opened, base.version(worker).file).table for worker in range(base.workers)]
    # The newest file has all fields, even if the query began with fewer.
    layout = layout_of(max((table.schema for table in tables), key=len))
    reader = StateReader(opened, base, layout)
    require_skewless(spark)
    workers = spark.range(0, base.workers, 1, base.workers)
    return workers.mapInArrow(reader.rows, from_arrow_schema(reader.schema))


def _base(ledger: Ledger, batch: int | None) -> Base:
    place = ledger.place
    if batch is None:
        found = bases.newest(ledger)
        if found is None:
            raise ValueError(f"ledger: {place} holds no state: no micro-batch has ended yet")
        return found
    wanted = whole(batch, "batch")
    complete = bases.complete(ledger, wanted)
    if complete is None:
        known = [one for one in bases.batches(ledger) if bases.complete(ledger, one)]
        held = f"it has {known[0]} … {known[-1]}" if known else "it has none"
        raise ValueError(f"batch: {place} has no version {wanted}; {held}")
    return complete


def _renamed(schema: pa.Schema, prefix: str, taken: Iterable[str]) -> list[pa.Field]:
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

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        keys = _renamed(self.layout.key, "key_", OURS.names)
        fields = _renamed(self.layout.state, "state_", (*OURS.names, *(key.name for key in keys)))
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
        table = held.rows_of()
        same = [np.full(table.num_rows, number) for number in (worker, self.base.batch)]
        numbers = zip((*same, weight(layout, table)), OURS.types, strict=True)
        ours = [pa.array(column, kind) for column, kind in numbers]
        fields = layout.states(table).flatten()
        return pa.table([*layout.keys(table), *ours, *fields], schema=self.schema)
