"""`top_n`: the n largest records of each key, as a list that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from skewless.aggregations.columns import in_order, lists, plain
from skewless.aggregations.ordering import is_orderable, order_keys_and_nulls
from skewless.plumbing.arguments import whole
from skewless.spark.records import Key, Records
from skewless.spark.state.arguments import Placement, free_names
from skewless.spark.state.operators.held_rows import held
from skewless.spark.state.process import processed
from skewless.spark.state.processor import KeyedRecords, Processor, Update
from skewless.spark.state.versions.row_tables import places_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

_RANK = "rank"
#: A state should not hold more records per key.
_MOST = 1_000_000


def top_n(
    df: DataFrame,
    key: Key,
    by: str,
    n: int,
    *,
    order_by: str | Sequence[str] | None = None,
    **placement: Unpack[Placement],
) -> DataFrame:
    """Return the n records of each key that are largest by a column, as they change.

    The result has the columns of the key, `rank` (1 is the largest), and the other columns of the
    record. Each micro-batch returns one row for each rank of a key whose record has changed. Write
    the rows to a table by key and rank, so that each replaces the one before: the table then holds
    the n largest of all records so far. A sink that does not get the rows in order needs
    `batch_column`: of two rows with the same key and rank, the one with the larger number counts. A
    batch DataFrame returns all ranks.

    The order is that of Spark's `orderBy(by.desc())`: NaN is the largest number, nulls come last.
    Among equal records the earlier one comes first.

    Parameters
    ----------
    df
        The records, a stream or a batch DataFrame.
    key
        The name of a column, a Column, or several of them.
    by
        The column that is compared.
    n
        How many records of each key.
    order_by
        Columns that order the records of a micro-batch, as for `process`: they decide which of
        several equal records is the earlier one.
    placement
        How keys are placed, the `ledger`, `batch_column` etc.: as for `process`.

    Examples
    --------
    >>> bids = spark.range(10).selectExpr("id % 2 as auction", "id as price")
    >>> best = top_n(bids, "auction", by="price", n=2, workers=2)
    >>> sorted(tuple(row) for row in best.collect())
    [(0, 1, 8), (0, 2, 6), (1, 1, 9), (1, 2, 7)]
    """
    records = Records.with_names(df).by(key)
    names = list(records.key.names)
    kind = records.schema[records.existing(by, "by")].dataType
    if by in names:
        raise ValueError(f"by: {by!r} is a part of the key, which is the same for all its records")
    if not is_orderable(records.arrow_types([records.column(by)], "by")[0]):
        raise ValueError(
            f"by: column {by!r} is of type {kind.simpleString()}, which Spark cannot order"
        )
    number = whole(n, "n", least=1, most=_MOST)
    free_names([_RANK], records.names, "df")
    free_names([_RANK], names, "key")
    others = StructType([field for field in records.schema if field.name not in names])
    processor = TopN(records.key.named_fields, others, by, number)
    return processed(records, processor, placement, order_by=order_by)


class TopN(Processor):
    """Keeps the n largest records of each key, the largest first."""

    def __init__(self, keys: list[StructField], others: StructType, by: str, n: int) -> None:
        # The state depends on this column. So a ledger with another column is refused.
        self.field = f"largest_by_{by}"
        self.state_schema = StructType([StructField(self.field, ArrayType(others))])
        rank = StructField(_RANK, IntegerType())
        self.result_schema = StructType([*keys, rank, *others.fields])
        self.by = by
        self.names = others.names
        self.n = n

    def update(self, keyed: KeyedRecords) -> Update:
        """Return the ranks whose record has changed."""
        before, owners = held(keyed, self.field)
        rows = keyed.records.select(self.names)
        if owners.size:
            rows = pa.concat_tables([pa.Table.from_arrays(before.flatten(), self.names), rows])
        rows = rows.combine_chunks()
        codes = np.concatenate([owners, keyed.positions])
        # From the largest value to the smallest, then nulls. Held rows come before new records,
        # and these stay in order.
        numbers, valid = order_keys_and_nulls(rows.column(self.by))
        order = in_order(codes, ~valid, ~numbers)
        ranks = places_of(codes[order])
        order, ranks = order[ranks < self.n], ranks[ranks < self.n]
        codes, kept = codes[order], rows.take(pa.array(order)).combine_chunks()
        before_ranks = np.append(places_of(owners), -1)
        changed = before_ranks[np.minimum(order, owners.size)] != ranks
        results = keyed.keys.take(pa.array(codes[changed]))
        results = results.append_column(_RANK, pa.array(ranks[changed] + 1, pa.int32()))
        new = kept if changed.all() else kept.filter(pa.array(changed))
        for name in self.names:
            results = results.append_column(name, new.column(name))
        structs = pa.StructArray.from_arrays([plain(column) for column in kept.columns], self.names)
        held_rows = lists(structs, codes, len(keyed))
        return Update(results, pa.StructArray.from_arrays([held_rows], [self.field]))
