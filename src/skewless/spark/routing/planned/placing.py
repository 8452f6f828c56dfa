"""The column of the worker by a plan, computed in the JVM, and how split keys are dealt.

The keys of the table are looked up in arrays; all others go by a seeded hash. The records of a
split key are dealt by a seeded hash: of the record's partition and place if a task that runs again
reads the same order, or if Spark's checksums notice that it did not and start again what has read
the records; else of the record's content. Otherwise a lost executor could lose records of a split
key, and double others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.kernels.hashing import seed_array
from skewless.planning.key_plan import KeyPlan
from skewless.planning.slots import Slots
from skewless.spark.columns import can_be_hashed, is_made_of, quoted
from skewless.spark.records import Records
from skewless.spark.routing.planned.counting import seeded_hash
from skewless.spark.routing.planned.inputs import input_of

_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"
CHECKSUMS = (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch")


def placed(records: Records, plan: KeyPlan, column: str) -> DataFrame:
    """Return records with the worker of each in `column`, in the partition of that worker."""
    with_workers = with_worker(records, plan, column)
    return with_workers.repartitionById(plan.n_workers, F.col(quoted(column)))


def with_worker(
    records: Records, plan: KeyPlan, column: str, added: int = 0, *, are_moved: bool = True
) -> DataFrame:
    """Return records with the worker of each, by which they are moved afterwards, or only counted.

    The workers of the records of split keys are numbered from `added` on.
    """
    made = plan.made
    # It occurs several times; Spark computes it once.
    hashed = seeded_hash(records.key, made.seed, untrusted=made.untrusted)
    worker = home_of(hashed, plan.n_workers, plan.homes)
    if plan.table:
        able = [speed for speed in plan.capacities or (1.0,) if speed > 0]
        slots = Slots.of(plan.table, added, max(able) / min(able))
        hashes, workers = _array(slots.hashes, "BIGINT"), _array(slots.workers)
        begins, masks = _array(slots.begins), _array(slots.masks)
        dealt = F.lit(0)
        if plan.split:
            dealt = dealing(records, made.seed) if are_moved else _by_place(made.seed)
        last = F.lit(len(slots.hashes) - 1)

        def found(slot: Column) -> Column:
            return F.get(workers, F.get(begins, slot) + dealt.bitwiseAND(F.get(masks, slot)))

        first = hashed.bitwiseAND(last).cast("int")
        second = F.shiftrightunsigned(hashed, 32).bitwiseAND(last).cast("int")
        worker = (
            F.when(F.get(hashes, first) == hashed, found(first))
            .when(F.get(hashes, second) == hashed, found(second))
            .otherwise(worker)
        )
    return records.df.withColumn(column, worker)


def home_of(hashed: Column, n: int, by_bucket: Sequence[int]) -> Column:
    """Return the worker of a hash that is not in the table: that of its bucket."""
    homes = np.array(by_bucket)
    if (homes == np.arange(homes.size) % n).all() and homes.size % n == 0:
        return F.pmod(hashed, F.lit(n)).cast("int")
    return F.get(_array(by_bucket), F.pmod(hashed, F.lit(homes.size)).cast("int"))


def _array(numbers: Sequence[int], kind: str = "INT") -> Column:
    """Return an array as one literal: Spark would take seconds to parse thousands of them."""
    return F.expr(f"CAST(split('{','.join(map(str, numbers))}', ',') AS ARRAY<{kind}>)")


def dealing(records: Records, seed: int) -> Column:
    """Return the number by which the records of split keys are dealt."""
    if _has_checksums(records.spark) or (read := input_of(records.df)).repeats:
        return _by_place(seed)
    return F.xxhash64(*_content(records, read.changes), _salt(seed))


def _by_place(seed: int) -> Column:
    return F.xxhash64(F.monotonically_increasing_id(), _salt(seed))


def _salt(seed: int) -> Column:
    return F.lit(int(seed_array(seed, 4)[3].view(np.int64))).cast("bigint")


def _content(records: Records, changes: bool) -> list[Column]:
    """Return the columns whose values decide, or raise ValueError if there are none.

    Sums of fractions depend on the order of the records, so fractions do not decide.
    """
    names = [name.lower() for name in records.names]
    columns = [
        F.col(quoted(f.name))
        for f in records.schema.fields
        if names.count(f.name.lower()) == 1
        and can_be_hashed(f.dataType)
        and not is_made_of(f.dataType, lambda kind: isinstance(kind, T.FloatType | T.DoubleType))
    ]
    why = "come in another order when a task runs again, and df has no column that can be hashed "
    why += "and that does not depend on the order"
    if changes:
        why = "be others when a task runs again, since df has a limit, a first, a draw or a "
        why += "number of each row"
    if changes or not columns:
        raise ValueError(
            f"df: its records may {why}: records of a split key could get lost. Set "
            f"{' and '.join(CHECKSUMS)} to true, as configure does, or write df to files first"
        )
    return columns


def _has_checksums(spark: Any) -> bool:
    """Return whether Spark notices a retried task that sends its records elsewhere."""
    try:
        return all(spark.conf.get(name) == "true" for name in CHECKSUMS)
    except PySparkException:  # Spark before these settings
        return False
