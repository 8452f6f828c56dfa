"""Redraws the foreign keys of existing TPC-H tables by Zipf's law; each still has its row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.apps.tpch.tables import Tables
from skewless.arrays import Floats, Ints
from skewless.parameters import check_types, require
from skewless.spark.aggregation.windows import microseconds

_DRAW = "_skewless_draw"


class RankedKeys(NamedTuple):
    """Keys in groups, each with a rank in its group; a draw takes low ranks more often."""

    known: Ints  # all keys, ascending
    group: Ints  # the group of each of them
    by_rank: Ints  # the keys of each group, the hottest first, group after group
    starts: Ints  # where each group begins there, and the end of all
    until: Floats  # the weights of ranks, added up

    def draw(self, keys: Ints, places: Floats) -> Ints:
        """Return for each key one of its group, by a place of at least 0 and below 1.

        An unknown key stays as it is, so that it still matches no row.
        """
        if not self.known.size:
            return keys
        found = np.minimum(np.searchsorted(self.known, keys), self.known.size - 1)
        group = self.group[found]
        sizes = self.starts[group + 1] - self.starts[group]
        ranks = np.searchsorted(self.until, places * self.until[sizes - 1], side="right")
        drawn = self.by_rank[self.starts[group] + np.minimum(ranks, sizes - 1)]
        chosen: Ints = np.where(self.known[found] == keys, drawn, keys)
        return chosen


def ranked_keys(keys: Ints, groups: Ints, z: float, rng: np.random.Generator) -> RankedKeys:
    """Return these keys with ranks that are drawn, by Zipf's law with exponent `z`."""
    known, first = np.unique(keys, return_index=True)
    group = np.unique(groups[first], return_inverse=True)[1].astype(np.int64)
    sizes = np.bincount(group)
    shuffled = rng.permutation(known.size)
    by_rank = known[shuffled[np.argsort(group[shuffled], kind="stable")]]
    until = np.cumsum(np.arange(1.0, sizes.max(initial=0) + 1) ** -z)
    return RankedKeys(known, group, by_rank, np.concatenate([[0], np.cumsum(sizes)]), until)


@dataclass(frozen=True)
class Skew:
    """Foreign keys by Zipf's law, instead of the even ones that generators of TPC-H write.

    The customers of orders and the suppliers of line items are drawn among all of them. The order
    of a line item is drawn among those of the same period as its original order. So it is about as
    far away in time as before, and the hot orders change from period to period.

    The draw for a row depends only on the seed and on the row. So it is the same in a batch, on a
    stream, and when a task runs again. The keys of all orders, customers and suppliers are held in
    memory.

    Parameters
    ----------
    z
        The exponent.
    period
        How long a period is.
    seed
        Of all draws.

    References
    ----------
    Mixed, section V: the foreign keys of its TPC-H tables have z = 0.8. The paper does not say how
    they are drawn.
    """

    z: float = 0.8
    period: str = "5 minutes"
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "z", 0 <= self.z <= 10, "at least 0 and at most 10")
        require(self, "seed", self.seed >= 0, "at least 0")

    def of(self, tables: Tables, known: DataFrame) -> Tables:
        """Return the tables with other foreign keys; `known` has all orders and is not a stream."""
        time = F.unix_micros("o_orderdate").alias("time")
        dated = known.select("o_orderkey", time).dropna().toArrow()
        periods = dated["time"].to_numpy() // microseconds(self.period)
        orders = self._ranked(dated["o_orderkey"].to_numpy(), periods, 0)
        customers = self._all(tables.customer, "c_custkey", 1)
        suppliers = self._all(tables.supplier, "s_suppkey", 2)
        items = self._drawn(tables.lineitem, "l_suppkey", suppliers)
        return tables._replace(
            orders=self._drawn(tables.orders, "o_custkey", customers),
            lineitem=self._drawn(items, "l_orderkey", orders),
        )

    def _all(self, table: DataFrame, key: str, number: int) -> RankedKeys:
        keys = table.select(key).dropna().toArrow()[key].to_numpy()
        return self._ranked(keys, np.zeros_like(keys), number)

    def _ranked(self, keys: Ints, groups: Ints, number: int) -> RankedKeys:
        return ranked_keys(keys, groups, self.z, np.random.default_rng([self.seed, number]))

    def _drawn(self, rows: DataFrame, column: str, ranked: RankedKeys) -> DataFrame:
        sent = rows.sparkSession.sparkContext.broadcast(ranked)
        schema = rows.schema
        names = rows.columns

        def redraw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                bits = batch[_DRAW].to_numpy().view(np.uint64)
                places = (bits >> np.uint64(11)) * 2.0**-53  # as many bits as a float has
                old = batch[column]
                new = sent.value.draw(old.fill_null(0).to_numpy(), places)
                missing = old.is_null().to_numpy(zero_copy_only=False)
                drawn = pa.array(new, pa.int64(), mask=missing)
                columns = [drawn if name == column else batch[name] for name in names]
                yield pa.RecordBatch.from_arrays(columns, names)

        draw = F.xxhash64(F.lit(self.seed), F.lit(column), *names).alias(_DRAW)
        return rows.select(*names, draw).mapInArrow(redraw, schema)
