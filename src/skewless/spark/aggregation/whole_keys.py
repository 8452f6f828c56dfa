"""Keys of a batch that a splitting strategy keeps whole: their worker finishes them.

Records come with the numbers of `skewless.spark.marks`. A worker knows by them which of its
keys have records elsewhere: those that came off their home, and those of which a mark came. It
finishes all others. A row for the merge has the results of a key or its state, and null for the
other. So the states of whole keys are not shuffled again.

A source sees hashes, not keys: of several keys with the same hash it may mark only one. So a worker
compares hashes too, and takes all keys with the hash of a split key as split. The hash is Spark's
`xxhash64`. Sources use another one for untrusted keys, of which nobody can find two that are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.aggregations import group
from skewless.arrays import Keys
from skewless.keys import hash_keys
from skewless.spark.aggregation.partials import Partials
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal
from skewless.spark.key_texts import key_text

_IS_FINISHED = internal("is_finished")


def can_tell_keys(partials: Partials) -> bool:
    """Return whether keys of these types can be hashed here as Spark hashes them."""
    try:
        hash_keys(*[pa.nulls(0, partials.schema.field(name).type) for name in partials.key])
    except TypeError:
        return False
    return True


def without_inputs_of_marks(records: DataFrame, key: tuple[str, ...], numbers: str) -> DataFrame:
    """Return one row for each number of a record; a mark has only the key."""
    others = [name for name in records.columns if name not in (*key, numbers)]
    copies = records.select(*key, *others, F.explode(numbers).alias(numbers))
    is_record = F.col(numbers) >= 0
    kept = [F.when(is_record, F.col(name)).alias(name) for name in others]
    return copies.select(*key, *kept, numbers)


@dataclass(frozen=True)
class WholeKeys:
    """Tells whole keys from split ones, on the workers and in the merge."""

    partials: Partials
    n_workers: int
    strategy: str

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of rows for the merge: the key, the results, the states, which of them."""
        results, table = self.partials.result_schema, self.partials.table_schema
        states = list(table)[len(self.partials.key) :]
        return pa.schema([*results, *states, pa.field(_IS_FINISHED, pa.bool_())])

    def records(
        self, batches: Iterator[pa.RecordBatch], split: list[Keys]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records without their numbers; `split` gets the hashes of split keys."""
        for batch in batches:
            numbers = batch.column(batch.num_columns - 1).to_numpy()
            rows = batch.select(range(batch.num_columns - 1))
            is_apart = (numbers < 0) | (numbers >= self.n_workers)
            if is_apart.any():
                apart = rows.filter(pa.array(is_apart))
                kinds = [self.partials.schema.field(name).type for name in self.partials.key]
                keys = [apart.column(i).cast(kind) for i, kind in enumerate(kinds)]
                split.append(np.unique(hash_keys(*keys)))
                rows = rows.filter(pa.array(numbers >= 0))
            yield rows

    def finished(self, table: pa.Table, split: list[Keys]) -> pa.Table:
        """Return the rows for the merge of these partial results."""
        hashes = hash_keys(*[table.column(name) for name in self.partials.key])
        is_split = np.isin(hashes, np.concatenate([np.empty(0, np.uint64), *split]))
        whole = self.partials.finish(table.filter(pa.array(~is_split)))
        parts = table.filter(pa.array(is_split))
        nothing = self.schema.empty_table().drop_columns(_IS_FINISHED)
        # A row gets nulls for the columns that it lacks.
        rows = pa.concat_tables([nothing, whole, parts], promote_options="default")
        is_finished = np.arange(rows.num_rows) < whole.num_rows
        return rows.append_column(_IS_FINISHED, pa.array(is_finished))

    def merged(self, rows: DataFrame) -> DataFrame:
        """Return the results of all keys; only those of split keys are merged."""

        def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from self._merge(list(batches))

        together = rows.repartition(*self.partials.key)
        return together.mapInArrow(merge, from_arrow_schema(self.partials.result_schema))

    def _merge(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        if not batches:
            return []
        partials = self.partials
        table = pa.Table.from_batches(batches).cast(self.schema)
        is_finished = table.column(_IS_FINISHED)
        whole = table.filter(is_finished).select(partials.result_schema.names)
        parts = table.filter(pc.invert(is_finished)).select(partials.table_schema.names)
        results = pa.concat_tables([whole, partials.finish(partials.merge([parts]))])
        self._require_once(results)
        return list(results.to_batches())

    def _require_once(self, results: pa.Table) -> None:
        """Raise RuntimeError if a key that a worker has finished has other rows too."""
        keys = [results.column(name).combine_chunks() for name in self.partials.key]
        groups = group(keys)
        if groups.n_groups == results.num_rows:
            return
        again = np.setdiff1d(np.arange(results.num_rows), groups.first)[0]
        raise RuntimeError(
            f"key {key_text(column[int(again)] for column in keys)} was finished by one worker, "
            f"and another worker has records of it. The homes of strategy {self.strategy!r} must "
            "be the same for all sources, see check_strategy. Where they are, a task that ran "
            "again has read other records, or two keys have the same hash: write df to files "
            "first, or give untrusted_keys=True"
        )
