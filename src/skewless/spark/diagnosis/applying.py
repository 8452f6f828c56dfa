"""Partitions records in the way that the predictions name."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.diagnosis import advice
from skewless.diagnosis.ways import (
    BASELINE,
    HOT,
    HOT_SALT,
    LOCAL,
    PLAN,
    ROUND_ROBIN,
    SALT,
    WHOLE_PLAN,
)
from skewless.kernels.hashing import keyed, seed_array
from skewless.planning.packing import KeyCounts, Packed, Piece, buckets_of, first_homes
from skewless.plumbing.arguments import text
from skewless.spark.columns import quoted
from skewless.spark.records import Key, Records
from skewless.spark.routing.planned.placing import dealing, placed
from skewless.spark.routing.planned.plan_keys import is_whole, made_plan
from skewless.spark.routing.route import require_new, route


@dataclass(frozen=True)
class HotKeys(advice.HotKeys):
    """The heaviest keys, heaviest first, and what each way of partitioning would do about them."""

    key: Key = field(default=(), compare=False, repr=False)
    seed: int = 0

    def apply(
        self, df: DataFrame, *, whole_keys: bool = False, column: str = "worker"
    ) -> DataFrame:
        """Return `df` partitioned in the way that is predicted to be the fastest.

        The columns are the same whatever is chosen: those of `df`, and the worker. Without costs,
        a skewed job is planned, and another one is hashed. If the fastest is to leave the
        partitions as they are, the worker is the number of the partition.

        Parameters
        ----------
        df
            The records, or similar ones with the same key.
        whole_keys
            Whether only ways that keep each key on one worker are admitted.
        column
            The name of the new column.
        """
        records = Records.of(df).by(self.key)
        require_new(column, records)
        name = self.best(whole_keys=is_whole(whole_keys)).strategy
        assert self.workers is not None  # predictions are for a number of workers
        costs = self.costs
        per_key = 0.0
        if costs is not None and costs.per_record > 0:
            per_key = costs.per_pair / costs.per_record
        return _applied(records, name, self.workers, self.seed, per_key, text(column, "column"))


def _applied(
    records: Records, name: str, n: int, seed: int, per_key: float, column: str
) -> DataFrame:
    df, key = records.df, records.key
    base, _, number = name.rpartition("-")
    if name == LOCAL:
        return df.withColumn(column, F.spark_partition_id())
    if name in (PLAN, WHOLE_PLAN):
        plan = made_plan(records, n, seed, per_key=per_key, whole_keys=name == WHOLE_PLAN)
        return placed(records, plan, column)
    if name == BASELINE:
        return _sent(df, F.hash(*key.columns), n, column)
    if name == ROUND_ROBIN:
        return _sent(df, dealing(records, seed), n, column)
    if base == SALT:
        salt = F.pmod(dealing(records, seed), F.lit(int(number)).cast("bigint"))
        return _sent(df, F.hash(*key.columns, salt), n, column)
    if base == HOT_SALT:
        salts = partial(_salted, n_workers=n, n_salts=int(number), seed=seed)
        return placed(records, made_plan(records, n, seed, packing=salts), column)
    routed: DataFrame = route(
        df, list(key.columns), strategy=name, workers=n, seed=seed, column=column
    )
    return routed


def _sent(df: DataFrame, hashed: Column, n: int, column: str) -> DataFrame:
    """Return the records in the partition that a hash names, as Spark's own partitioning."""
    worker = F.pmod(hashed, F.lit(n)).cast("int")
    return df.withColumn(column, worker).repartitionById(n, F.col(quoted(column)))


def _salted(counts: KeyCounts, n_workers: int, n_salts: int, seed: int) -> Packed:
    """Return a packing that deals hot keys to the workers of their salts, and leaves all others."""
    homes = first_homes(n_workers)
    hot = np.flatnonzero(counts.loads > HOT * counts.buckets.sum() / n_workers)
    placed_keys = []
    for key in hot.tolist():
        salted = np.empty(n_salts, np.uint64)
        same, salts = np.repeat(counts.hashes[key], n_salts), np.arange(n_salts, dtype=np.uint64)
        keyed(same, salts, seed_array(seed, 2), salted)
        workers, each = np.unique(salted % np.uint64(n_workers), return_counts=True)
        pieces = map(Piece, workers.tolist(), (each / n_salts).tolist())
        placed_keys.append((key, tuple(pieces)))
    loads = np.bincount(homes, counts.buckets, n_workers)
    for key, pieces_of_key in placed_keys:
        loads[homes[buckets_of(counts.hashes[key : key + 1], homes.size)[0]]] -= counts.loads[key]
        for worker, share in pieces_of_key:
            loads[worker] += share * counts.loads[key]
    return Packed(homes, tuple(placed_keys), loads.astype(np.float64))
