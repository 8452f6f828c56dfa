"""Sends the rows of both sides to the cells of a plan, and joins them there.

Where a row goes depends on the plan and on the row: on its place in its partition, or, where a task
that runs again may get its rows in another order, on its content. So both sides agree, whatever
rows there are by now, and a task that runs again sends its rows to the same cells.

Each pair meets in one cell. A row that is in one cell has all its matches there, so it is known
there whether it is returned without a match. A row that was copied to several cells is returned
without a match if the other side does not have its key at all, which is looked up.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.planning.join_plan import JoinPlan
from skewless.planning.pairs import WITHOUT_PAIRS
from skewless.spark.columns import internal, quoted
from skewless.spark.joins.arguments import JoinSide, Sides
from skewless.spark.records import Records
from skewless.spark.routing.planned.placing import dealing, home_of

_ROWS, _COLUMNS, _WORKERS = internal("rows"), internal("columns"), internal("workers")
_PLANNED, _DEALT, _THERE = internal("planned"), internal("dealt"), internal("there")
_COPY = internal("copy")
#: Right rows of planned keys, with copies, that a join without pairs may have: parts of all rows.
_FEW_ROWS = 0.1


class _Way(NamedTuple):
    """How the rows of a side go through the grids, and the columns that they get."""

    side: JoinSide
    divided: str  # a row belongs to one of these rows or columns of the grid
    copied: str  # and is copied to so many cells
    n_copies: int  # at most
    looks_up: bool  # rows that may be returned without a match are in several cells
    hash: str
    worker: str
    cell: str
    absent: str  # whether the other side does not have the key
    partition: str


def _way(name: str, side: JoinSide, divided: str, copied: str, n_copies: int, how: str) -> _Way:
    added = ("hash", "worker", "cell", "absent", "partition")
    columns = [internal(f"{name}_{column}") for column in added]
    looks_up = side.kept and n_copies > 1 and how not in WITHOUT_PAIRS
    return _Way(side, divided, copied, n_copies, looks_up, *columns)


def join_in_cells(sides: Sides, plan: JoinPlan) -> DataFrame:
    """Return the join by the cells of the plan: its rows move once."""
    n_columns = max([key.columns for key in plan.keys], default=1)
    n_rows = max([key.rows for key in plan.keys], default=1)
    left_way = _way("left", sides.left, _ROWS, _COLUMNS, n_columns, sides.how)
    right_way = _way("right", sides.right, _COLUMNS, _ROWS, n_rows, sides.how)
    grids = F.broadcast(_grids(sides.left.df.sparkSession, plan))
    left, right = (_with_grids(way, plan, grids) for way in (left_way, right_way))
    if sides.how in WITHOUT_PAIRS:
        ours, theirs = left, _one_row_of_each(right, sides.right, plan)
    else:
        ours = _with_absence(left, right, left_way, right_way)
        theirs = _with_absence(right, left, right_way, left_way)
    ours, theirs = _in_cells(ours, plan, left_way), _in_cells(theirs, plan, right_way)
    same = sides.equal_keys
    for place in ("worker", "cell"):
        same += f" AND {getattr(left_way, place)} = {getattr(right_way, place)}"
    if sides.how in WITHOUT_PAIRS:
        # Spark would do such a join before the rows are moved, and move them once more for it. It
        # leaves it where it is if it needs the partition.
        ours = ours.withColumn(left_way.partition, F.spark_partition_id())
        theirs = theirs.withColumn(right_way.partition, F.spark_partition_id())
        same += f" AND {left_way.partition} = {right_way.partition}"
    # The rows of a pair are in the same partition already, so no side must be broadcast.
    joined = ours.hint("merge").join(theirs.hint("merge"), F.expr(same), sides.how)
    for way, other in ((left_way, right_way), (right_way, left_way)):
        if way.looks_up:
            joined = joined.where(f"{other.cell} IS NOT NULL OR {way.absent}")
    return joined.selectExpr(*sides.result)


def _grids(session: SparkSession, plan: JoinPlan) -> DataFrame:
    columns = {
        _PLANNED: pa.array([key.hash for key in plan.keys], pa.int64()),
        _ROWS: pa.array([key.rows for key in plan.keys], pa.int32()),
        _COLUMNS: pa.array([key.columns for key in plan.keys], pa.int32()),
        _WORKERS: pa.array([key.workers for key in plan.keys], pa.list_(pa.int32())),
    }
    # From Arrow, Spark makes rows without Python; in one task, since they are few.
    return session.createDataFrame(pa.table(columns)).coalesce(1)


def _with_grids(way: _Way, plan: JoinPlan, grids: DataFrame) -> DataFrame:
    """Return the rows with the hash of their key, and its grid if it is in the plan."""
    side = way.side
    df = side.df if side.kept else side.df.where(side.no_null)
    added = {
        way.hash: side.hash(plan.seed, untrusted=plan.untrusted_keys),
        _DEALT: dealing(Records.of(df), plan.seed),
    }
    return df.withColumns(added).join(grids, F.expr(f"{way.hash} = {_PLANNED}"), "left")


def _one_row_of_each(df: DataFrame, side: JoinSide, plan: JoinPlan) -> DataFrame:
    """Return the right rows with one row of each key of the plan, unless these are few anyway."""
    if sum(key.right * key.rows for key in plan.keys) <= _FEW_ROWS * plan.right_rows:
        return df
    hot = df.where(f"{_WORKERS} IS NOT NULL").dropDuplicates(list(side.key))
    return df.where(f"{_WORKERS} IS NULL").union(hot.select(*df.columns))


def _with_absence(df: DataFrame, other: DataFrame, way: _Way, other_way: _Way) -> DataFrame:
    """Return the rows of a side with whether the other one lacks their key, if that is needed.

    Whole keys are compared, since two keys may have the same hash: in the type in which Spark
    compares them, else several values of one side could equal one of the other, and double a row.
    """
    if not way.looks_up:
        return df
    ours, theirs = way.side.common, other_way.side.common
    assert ours is not None
    assert theirs is not None
    copied = other.where(f"{way.copied} > 1")
    names = [internal(f"there_{number}") for number in range(len(ours.columns))]
    columns = [column.alias(name) for column, name in zip(theirs.columns, names, strict=True)]
    hashed = F.col(other_way.hash).alias(_THERE)
    there = F.broadcast(copied.select(hashed, *columns).distinct())
    same = F.col(way.hash) == F.col(_THERE)
    for column, name in zip(ours.columns, names, strict=True):
        same = same & (column == F.col(name))
    found = df.join(there, same, "left")
    return found.withColumn(way.absent, F.expr(f"{_THERE} IS NULL"))


def _in_cells(df: DataFrame, plan: JoinPlan, way: _Way) -> DataFrame:
    """Return the rows in the partitions of their workers, once for each of their cells."""
    # In few steps, since each is analysed. Null has no match, so its rows need not be together.
    home = home_of(F.coalesce(F.col(way.hash), F.col(_DEALT)), plan.workers, plan.homes)
    own = f"if({way.divided} > 1, CAST(pmod({_DEALT}, {way.divided}) AS INT), 0)"
    copy = "0"
    if way.n_copies > 1:
        copies = f"explode(sequence(0, coalesce({way.copied}, 1) - 1))"
        df, copy = df.selectExpr("*", f"{copies} AS {_COPY}"), _COPY
    row, column = (own, copy) if way.divided == _ROWS else (copy, own)
    place = f"{row} * {_COLUMNS} + {column}"
    columns = [
        *map(quoted, way.side.df.columns),
        f"if({_WORKERS} IS NULL, -1, {place}) AS {way.cell}",  # -1: the key is not in the plan
    ]
    if way.looks_up:
        # Of the copies of a row, the first one tells.
        alone = f"if({way.copied} > 1, {way.absent} AND {copy} = 0, NULL)"
        columns.append(f"coalesce({alone}, true) AS {way.absent}")
    worker = F.coalesce(F.expr(f"get({_WORKERS}, {place})"), home)  # null has no element
    in_cells = df.select(*map(F.expr, columns), worker.alias(way.worker))
    return in_cells.repartitionById(plan.workers, F.col(way.worker))
