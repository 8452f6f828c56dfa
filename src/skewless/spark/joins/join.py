"""`join`: rows of two tables with equal keys, or records of two streams that are near in time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from skewless.planning.join_plan import JoinPlan
from skewless.spark.joins.arguments import both_sides, require_tables
from skewless.spark.joins.cells import join_in_cells
from skewless.spark.joins.plan_join import planned, require_plan
from skewless.spark.state.arguments import Placement
from skewless.spark.state.operators.join import join_within

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LOGGER = logging.getLogger("skewless")
#: Arguments that a join without times has too.
_WITHOUT_TIMES = ("workers", "seed", "untrusted_keys")


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    *,
    within: str | None = None,
    how: str = "inner",
    watermark: tuple[str, str] | None = None,
    right_time: str | None = None,
    suffix: str = "_right",
    plan: JoinPlan | None = None,
    **placement: Unpack[Placement],
) -> DataFrame:
    """Return the pairs of records with equal keys; with `within`, those that are near in time.

    The result has the columns of `on` once, the other columns of the left side, and those of the
    right side. `how` says which side's records are also returned without a match; the columns of
    the other side are then null. As in SQL, a record with a null in `on` has no match.

    **Two batch DataFrames, without `within`**: the rows are those of Spark's own join. The keys of
    both sides are counted first, in a job that starts when `join` is called. Keys with many pairs
    are divided into cells, and the cells are placed so that all tasks have as many pairs. If no key
    is hot, a side is small, or cells would not save time, it is Spark's own join; the log says why.

    **With `within`**: on a stream, a record without a match is returned when the watermark is
    `within` later than the record. A record with a null as its time has no match. Hot keys are
    detected by their records and pairs, unless `how` is "full", and spread over several parts: a
    record of one side goes to one part, a record of the other side to all parts, so each pair is
    found once. Parts are placed like keys.

    `left` and `right` may be the same DataFrame. Each record then also forms a pair with itself.

    Parameters
    ----------
    left, right
        Two streams, or two batch DataFrames.
    on
        The names of the key's columns. Both sides must have them; with `within`, of the same types.
    within
        How far apart in event time the records of a pair may be, in either direction: "1 hour".
        Streams need it.
    how
        "inner", "left", "right" or "full"; without `within`, also "semi" and "anti", which return
        the left rows that have a match, or have none.
    watermark
        The left side's column of event time, and how late a record of either side may be: ("ts",
        "10 minutes"). Later records are dropped. As in Spark, the side that is further behind sets
        the watermark.
    right_time
        The right side's column of event time. None: the same name as on the left side.
    suffix
        Appended to the name of a column of the right side if the left side has that name.
    plan
        What `plan_join` returned for this join, today or earlier: nothing is counted or weighed
        then. If the rows have changed since, tasks may be uneven; the result is the same.
    placement
        `workers`, `seed` and `untrusted_keys`, as for `route`. With `within` also `strategy`,
        `max_workers`, `interval`, `cost`, `ledger`, `batch_column` and `closes_without_data`, as
        for `process`.

    Examples
    --------
    >>> orders = spark.createDataFrame([(1, "a"), (1, "b"), (2, "c")], "customer int, order string")
    >>> parcels = spark.createDataFrame([(1, "x"), (1, "y")], "customer int, parcel string")
    >>> pairs = join(orders, parcels, "customer", how="left", workers=2)
    >>> sorted(tuple(row) for row in pairs.dropna().collect())
    [(1, 'a', 'x'), (1, 'a', 'y'), (1, 'b', 'x'), (1, 'b', 'y')]
    """
    timed: Any = {"watermark": watermark, "right_time": right_time}
    if within is not None:
        if plan is not None:
            raise ValueError("plan: leave it out; a join with within= plans as it runs")
        others = timed | dict(placement)
        return join_within(left, right, on, within=within, how=how, suffix=suffix, **others)
    require_tables(left, right)
    extra = [name for name, value in timed.items() if value is not None]
    extra += [name for name in placement if name not in _WITHOUT_TIMES]
    if extra:
        raise ValueError(f"{extra[0]}: it needs within=, the span of event times of a pair")
    sides = both_sides(left, right, on, how, suffix)
    workers, seed, untrusted_keys = (placement.get(name) for name in _WITHOUT_TIMES)
    if plan is not None:
        chosen = require_plan(plan, sides, workers)
        reason = chosen.reason
    else:
        chosen = planned(sides, workers, seed, untrusted_keys)
        reason = chosen.reason or chosen.too_slow
    if reason is not None:
        _LOGGER.info("join on %s: Spark's own join: %s", ", ".join(chosen.on), reason)
        return sides.plain
    _LOGGER.info("%s", chosen)
    return join_in_cells(sides, chosen)
