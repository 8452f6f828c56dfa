"""The column of the worker by a plan, computed in the JVM, and how split keys are dealt.

The keys of the table are joined with a broadcast of a few thousand rows; all others go by a seeded
hash. The records of a split key are dealt by a seeded hash: of the record's partition and place if
a task that runs again reads the same order, or if Spark's checksums notice that it did not and
start again what has read the records; else of the record's content. Otherwise a lost executor could
lose records of a split key, and double others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.kernels.hashing import seed_array
from skewless.planning.key_plan import KeyPlan
from skewless.planning.packing import Piece
from skewless.spark.columns import can_be_hashed, internal, quoted
from skewless.spark.records import Records
from skewless.spark.routing.planned.counting import seeded_hash
from skewless.spark.routing.planned.inputs import input_of

HASH, _DEALT, _LISTED = internal("hash"), internal("dealt"), internal("listed")
_WORKER, _CELLS = internal("whole"), internal("cells")
_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"
CHECKSUMS = (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch")
#: A cell of the table of a split key is cut at a number of this many bits.
_CUT_BITS = 32
_CELL = pa.struct([("cut", pa.int64()), ("one", pa.int32()), ("other", pa.int32())])
_TABLE = pa.schema([(_LISTED, pa.int64()), (_WORKER, pa.int32()), (_CELLS, pa.list_(_CELL))])


def placed(records: Records, plan: KeyPlan, column: str) -> DataFrame:
    """Return records with the worker of each in `column`, in the partition of that worker."""
    with_workers = with_worker(records, plan, column).drop(HASH)
    return with_workers.repartitionById(plan.n_workers, F.col(quoted(column)))


def with_worker(records: Records, plan: KeyPlan, column: str) -> DataFrame:
    """Return records with the hash of the key, `HASH`, and the worker; nothing is moved."""
    made, df = plan.made, records.df
    home = home_of(HASH, plan.n_workers, plan.homes)
    hashed = df.withColumn(HASH, seeded_hash(records.key, made.seed, untrusted=made.untrusted))
    if not plan.table:
        return hashed.withColumn(column, F.expr(home))
    internals, split = [_LISTED, _WORKER, _CELLS], "NULL"
    if plan.split:
        hashed = hashed.withColumn(_DEALT, dealing(records, made.seed))
        internals.append(_DEALT)
        cell = f"get({_CELLS}, CAST(pmod({_DEALT}, size({_CELLS})) AS INT))"
        is_one = f"shiftrightunsigned({_DEALT}, {64 - _CUT_BITS}) < {cell}.cut"
        split = f"if({_CELLS} IS NULL, NULL, if({is_one}, {cell}.one, {cell}.other))"
    rows = [
        {_LISTED: key.hashed, _CELLS: alias_cells(key.pieces)}
        if key.is_split
        else {_LISTED: key.hashed, _WORKER: key.pieces[0].worker}
        for key in plan.table
    ]
    # In one task, since these rows are few.
    table = df.sparkSession.createDataFrame(pa.Table.from_pylist(rows, _TABLE)).coalesce(1)
    joined = hashed.join(F.broadcast(table), F.col(HASH) == F.col(_LISTED), "left")
    worker = F.expr(f"coalesce({_WORKER}, {split}, {home})")
    return joined.withColumn(column, worker).drop(*internals)


def alias_cells(pieces: Sequence[Piece]) -> list[dict[str, int]]:
    """Return the shares as cells of equal size, each with at most two workers (Walker, 1977).

    >>> alias_cells([Piece(4, 0.75), Piece(7, 0.25)])
    [{'cut': 2147483648, 'one': 7, 'other': 4}, {'cut': 4294967296, 'one': 4, 'other': 4}]
    """
    whole = 1 << _CUT_BITS
    left = [[share * len(pieces), worker] for worker, share in pieces]
    cells = []
    while len(left) > 1:
        left.sort()
        least, worker = left.pop(0)
        cut = round(min(max(least, 0.0), 1.0) * whole)
        cells.append({"cut": cut, "one": int(worker), "other": int(left[-1][1])})
        left[-1][0] -= 1.0 - least
    last = int(left[0][1])
    return [*cells, {"cut": whole, "one": last, "other": last}]


def home_of(hashed: str, n: int, by_bucket: Sequence[int]) -> str:
    """Return the expression of the worker of a hash that is not in the table: of its bucket."""
    homes = np.array(by_bucket)
    if (homes == np.arange(homes.size) % n).all() and homes.size % n == 0:
        return f"CAST(pmod({hashed}, {n}L) AS INT)"
    # One literal that Spark folds to an array: thousands of literals would take seconds to parse.
    array = f"CAST(split('{','.join(map(str, by_bucket))}', ',') AS ARRAY<INT>)"
    return f"get({array}, CAST(pmod({hashed}, {homes.size}L) AS INT))"


def dealing(records: Records, seed: int) -> Column:
    """Return the number by which the records of split keys are dealt."""
    salt = F.lit(int(seed_array(seed, 4)[3].view(np.int64))).cast("bigint")
    if _has_checksums(records.spark) or (read := input_of(records.df)).repeats:
        return F.xxhash64(F.monotonically_increasing_id(), salt)
    return F.xxhash64(*_content(records, read.changes), salt)


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
        and not isinstance(f.dataType, T.FloatType | T.DoubleType)
    ]
    why = "come in another order when a task runs again, and df has no column that can be hashed "
    why += "and that does not depend on the order"
    if changes:
        why = "be others when a task runs again, since df has a limit, a first or a draw"
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
