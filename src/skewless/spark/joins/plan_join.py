"""`plan_join`: counts the keys of a batch join, and plans where its rows go."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.planning import pairs
from skewless.planning.join_costs import Splits, seconds_by_cells, seconds_by_hash
from skewless.planning.join_plan import JoinPlan as JoinPlan
from skewless.planning.join_plan import PlannedCells
from skewless.planning.packing import buckets_of, first_homes
from skewless.planning.pairs import WITHOUT_PAIRS, PairCounts
from skewless.plumbing.arguments import shown
from skewless.spark.columns import internal, quoted
from skewless.spark.joins.arguments import Sides, both_sides
from skewless.spark.routing import arguments
from skewless.spark.routing.planned.counting import COARSE, LEVEL, name_in_sql, numbered, sampled
from skewless.spark.routing.planned.inputs import input_of, physical_plan
from skewless.spark.routing.seeds import draw_seed

#: Loads by hash that differ by less are even enough for Spark's own join.
_EVEN = 0.1
#: Of a value in a shuffled row, about, and when it is compressed.
_VALUE_BYTES, _SHUFFLED_BYTES = 16, 8
_ADAPTIVE = "spark.sql.adaptive."
#: A broadcast side has at least so many keys for each partition of a shuffle.
_FILLED = 0.25
_A_JOIN = re.compile(r"^[\W\d]*(\w+Join)\b", re.MULTILINE)
_BYTES = re.compile(r"(?P<number>[0-9]+)(?P<unit>[kmgtp]?)b?")
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_HASH, _SIDE = internal("hash"), internal("side")
#: A row is counted for sure if its position times the number of its partition is below 2 ** 16: all
#: rows of a table of so many. Where a side has many bytes, the driver should get fewer rows.
_ALL_COUNTED, _OF_LARGE = 16, 14
#: Spark says more than the second where it knows no size.
_LARGE_BYTES, _UNKNOWN_BYTES = 1 << 26, 1 << 60
#: Of a sampled key, so many standard deviations are not sure to be there. Where this part of its
#: rows is sure, all of them count: else keys of many rows would seem lighter than they are.
_SURE, _KNOWN = 3.0, 0.1
#: More than Spark can have, so that the driver gets few rows however many partitions there are.
_MOST_PARTITIONS = 1 << 30


def plan_join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    *,
    how: str = "inner",
    workers: int | None = None,
    seed: int | None = None,
    untrusted_keys: bool | None = None,
) -> JoinPlan:
    """Count the keys of a batch join, and return a plan that `join` takes as `plan`.

    It reads the key columns of both sides, and those of one side again for the names of hot keys.
    Print the plan to see which keys are hot. Save it, and give it to `join` as `plan`, to join
    similar tables later without counting. Keys are divided even if that saves no time. The plan
    says so then: without it, `join` would be Spark's own.

    Parameters
    ----------
    left, right, on, how
        As for `join`.
    workers
        The number of partitions. None: `spark.skewless.workers`, else Spark's shuffle partitions.
    seed
        The seed of the hashes. None: `spark.skewless.seed`, else one is drawn.
    untrusted_keys
        Whether strangers choose the keys, as for `route`.

    Examples
    --------
    >>> orders = spark.range(20).selectExpr("id % 2 as customer")
    >>> print(plan_join(orders, orders, "customer", workers=2))
    inner join on customer, 2 workers; keys were not counted
    Spark's own join: one side is small, and Spark broadcasts it
    """
    sides = both_sides(left, right, on, how, "_right")
    plan = planned(sides, workers, seed, untrusted_keys)
    return _with_names(sides, plan)


def planned(sides: Sides, workers: Any, seed: Any, untrusted_keys: Any) -> JoinPlan:
    """Return the plan of a join, with a reason if Spark's own join is as good."""
    df = sides.left.df
    spark = df.sparkSession
    n_workers = arguments.number_of_workers(df, arguments.given_workers(workers, spark))
    given = arguments.given_seed(seed, spark)
    plan = JoinPlan(
        on=sides.on,
        how=sides.how,
        workers=n_workers,
        seed=draw_seed() if given is None else given,
        untrusted_keys=arguments.are_untrusted(untrusted_keys, spark),
        left_rows=0,
        right_rows=0,
        pairs=0,
        is_sampled=False,
        keys=(),
        homes=tuple(first_homes(n_workers).tolist()),
        loads=(0.0,) * n_workers,
        reason=sides.problem or _changes(sides) or _broadcasts(sides),
    )
    return _counted(sides, plan) if plan.reason is None else plan


def require_plan(plan: Any, sides: Sides, workers: Any) -> JoinPlan:
    """Return a plan that was given; raise ValueError if it is the plan of another join."""
    if not isinstance(plan, JoinPlan):
        raise ValueError(f"plan must be a JoinPlan, as plan_join returns it, not {shown(plan)}")
    for name, value in (("on", sides.on), ("how", sides.how)):
        if getattr(plan, name) != value:
            raise ValueError(
                f"plan: it is for {name}={shown(getattr(plan, name))}, not {shown(value)}"
            )
    spark = sides.left.df.sparkSession
    if workers is not None and arguments.given_workers(workers, spark) != plan.workers:
        raise ValueError(f"plan: it is for workers={plan.workers}, not {shown(workers)}")
    reason = sides.problem or _changes(sides)
    return dataclasses.replace(plan, reason=reason) if reason else plan


def _counted(sides: Sides, plan: JoinPlan) -> JoinPlan:
    counts, told = count_pairs(sides, plan.workers, plan.seed, untrusted=plan.untrusted_keys)
    loads = tuple(pairs.loads_by_hash(counts, plan.workers).tolist())
    plan = dataclasses.replace(plan, **told, loads=loads)

    def by_hash(reason: str) -> JoinPlan:
        return dataclasses.replace(plan, reason=reason)

    share = pairs.heaviest_share(counts, plan.workers, sides.how)
    if share < pairs.HOT:
        return by_hash(f"no key is hot: the heaviest has {share:.2f} of a worker's share")
    if _is_small(sides, plan, counts):
        return by_hash("one side is small, and Spark broadcasts it when it has seen its size")
    if plan.imbalance <= _EVEN:
        return by_hash(f"the hashes of the keys are even enough: imbalance {plan.imbalance:.2f}")
    placed = pairs.place_cells(counts, plan.workers, sides.how)
    rows, slots, how = (plan.left_rows, plan.right_rows), _slots(sides, plan), plan.how
    by_spark = seconds_by_hash(counts, rows, plan.workers, slots, how, _splits(sides))
    hashes = counts.hashes.view("int64").tolist()
    keys = [
        PlannedCells(hashes[at], round(counts.left[at]), round(counts.right[at]), r, c, workers)
        for at, r, c, workers in placed.grids
    ]
    return dataclasses.replace(
        plan,
        keys=tuple(keys),
        homes=tuple(placed.homes.tolist()),
        loads=tuple(placed.loads.tolist()),
        seconds=(by_spark, seconds_by_cells(counts, rows, slots, how, placed)),
    )


def _slots(sides: Sides, plan: JoinPlan) -> int:
    """Return how many tasks run at a time: all, if that is not known."""
    spark = sides.left.df.sparkSession
    is_known = spark.conf.get("spark.dynamicAllocation.enabled", "false") != "true"
    if not is_known or not hasattr(sides.left.df, "_jdf"):
        return plan.workers
    return max(1, min(spark.sparkContext.defaultParallelism, plan.workers))


def _splits(sides: Sides) -> tuple[Splits, Splits] | None:
    """Return how adaptive execution splits the partitions of both sides."""
    settings = sides.left.df.sparkSession.conf
    skew = f"{_ADAPTIVE}skewJoin."
    names = (f"{_ADAPTIVE}enabled", f"{skew}enabled")
    least = _bytes(settings.get(f"{skew}skewedPartitionThresholdInBytes"))
    piece = _bytes(settings.get(f"{_ADAPTIVE}advisoryPartitionSizeInBytes"))
    if any(settings.get(name) != "true" for name in names) or least is None or piece is None:
        return None
    factor = float(str(settings.get(f"{skew}skewedPartitionFactor")))
    row = [len(side.df.columns) * _SHUFFLED_BYTES for side in (sides.left, sides.right)]
    left, right = (Splits(least / size, factor, piece / size) for size in row)
    return left, right


def _bytes(setting: Any) -> int | None:
    """Return a size in bytes; None for -1, or if it is written in another way than Spark does."""
    found = _BYTES.fullmatch(str(setting).lower())
    return int(found["number"]) << _SHIFTS[found["unit"]] if found else None


def _changes(sides: Sides) -> str | None:
    """Return a reason if rows may be others when they are read twice, and are.

    To know which rows of a copied side have no match, its join reads the other side again.
    """
    if sides.how == "inner":
        return None
    for name, side in (("left", sides.left), ("right", sides.right)):
        read = input_of(side.df)
        if read.changes:
            return (
                f"{name} has a limit, a first or a draw, so its rows may be others when they are "
                "read again: cache it"
            )
        if read.is_live and sides.how not in WITHOUT_PAIRS:
            return (
                f"{name} reads no files, so its source may have changed when it is read again: "
                "cache it"
            )
    return None


def _broadcasts(sides: Sides) -> str | None:
    """Return a reason if Spark itself broadcasts a side: then nothing is shuffled."""
    first = _A_JOIN.search(physical_plan(sides.plain))  # those of the inputs are below
    is_small = first is not None and first[1] == "BroadcastHashJoin"
    return "one side is small, and Spark broadcasts it" if is_small else None


def _is_small(sides: Sides, plan: JoinPlan, counts: PairCounts) -> bool:
    """Return whether adaptive execution will broadcast a side, by a rough size of its rows.

    It leaves a side of few keys alone, since most partitions of that are empty.
    """
    settings = sides.left.df.sparkSession.conf
    name = "autoBroadcastJoinThreshold"
    most = _bytes(settings.get(f"{_ADAPTIVE}{name}", None) or settings.get(f"spark.sql.{name}"))
    if most is None or settings.get(f"{_ADAPTIVE}enabled") != "true":
        return False
    fewest = _FILLED * int(str(settings.get("spark.sql.shuffle.partitions")))
    # Spark keeps all rows of one side where they are; a side whose rows are kept must be that one.
    ours, theirs = sides.left, sides.right
    may = [(ours, plan.left_rows, counts.left)] * (not ours.kept and sides.how not in WITHOUT_PAIRS)
    may += [(theirs, plan.right_rows, counts.right)] * (not theirs.kept)
    return any(
        n_rows * len(side.df.columns) * _VALUE_BYTES <= most and (rows > 0).sum() >= fewest
        for side, n_rows, rows in may
    )


def _with_names(sides: Sides, plan: JoinPlan) -> JoinPlan:
    """Return the plan with the names of the keys that are split."""
    hashes = [key.hash for key in plan.split_keys]
    if not hashes:
        return plan
    # A kept side has all keys that matter; in an inner join both have them.
    side = sides.left if sides.left.kept or not sides.right.kept else sides.right
    assert side.common is not None  # keys were counted
    hashed = side.hash(plan.seed, untrusted=plan.untrusted_keys).alias(_HASH)
    name = F.expr(name_in_sql(side.common, list(map(quoted, side.key))))
    rows = side.df.select(hashed, name).where(F.col(_HASH).isin(hashes))
    names = dict(map(tuple, rows.dropDuplicates([_HASH]).collect()))
    keys = [dataclasses.replace(key, name=names.get(key.hash)) for key in plan.keys]
    return dataclasses.replace(plan, keys=tuple(keys))


def is_large(sides: Sides) -> bool:
    """Return whether a side is known to have many bytes, by what Spark knows without a job."""
    frames = [side.df._jdf for side in (sides.left, sides.right) if hasattr(side.df, "_jdf")]
    stats = [frame.queryExecution().optimizedPlan().stats() for frame in frames]
    sizes = [int(str(one.sizeInBytes())) for one in stats]
    return any(_LARGE_BYTES < size < _UNKNOWN_BYTES for size in sizes)


def count_pairs(
    sides: Sides, n_workers: int, seed: int, *, untrusted: bool
) -> tuple[PairCounts, dict[str, Any]]:
    """Count the keys of both sides in one job that shuffles nothing; nulls are left out.

    Return the rows of the heaviest keys with the load of each bucket, by the rule of `load_of`, and
    what a plan says of it all. Large tables are thinned. So what the driver gets grows with the
    logarithm of their rows.

    Two rows of a sample that meet by chance stand for thousands of pairs. So a key of few sampled
    rows counts with the rows that it has for almost sure; what is left is taken for even.
    """
    # In one list, which is parsed and analysed once.
    rows = [
        numbered(
            side.df.where(side.no_null),
            {_HASH: side.hash(seed, untrusted=untrusted), _SIDE: F.lit(number)},
        )
        for number, side in enumerate((sides.left, sides.right))
    ]
    # The sides are sampled by different numbers: else a row that is joined with itself would be in
    # both samples or in none, and the product of their counts be too large.
    power = _OF_LARGE if is_large(sides) else _ALL_COUNTED
    both = rows[0].union(rows[1])
    drawn = sampled(both, (_HASH, _SIDE), power, _MOST_PARTITIONS, _SIDE, COARSE)
    table = drawn.toArrow()
    is_right = table[_SIDE].to_numpy() == 1
    level = table[LEVEL].to_numpy()
    weight = np.ldexp(1.0, level)
    columns = [
        np.where(chosen, values, 0.0)
        for chosen in (~is_right, is_right)
        for values in (weight, weight * (weight - 1))
    ]
    names = ["left", "left_error", "right", "right_error"]
    by_hash = pa.table([table[_HASH], *columns], [_HASH, *names]).group_by(_HASH, use_threads=False)
    sums = by_hash.aggregate([(name, "sum") for name in names])
    hashes = sums[_HASH].to_numpy().view(np.uint64)
    left, left_error, right, right_error = (sums[f"{name}_sum"].to_numpy() for name in names)
    known = []
    for rows, error in ((left, left_error), (right, right_error)):
        sure = rows - _SURE * np.sqrt(error)
        known.append(np.where(sure >= _KNOWN * rows, rows, np.maximum(sure, rows > 0)))
    loads = pairs.load_of(known[0], known[1], sides.how)
    total = pairs.load_of(left, right, sides.how).sum()
    n_buckets = first_homes(n_workers).size
    buckets = np.bincount(buckets_of(hashes, n_buckets), loads, n_buckets).astype(np.float64)
    buckets += max(total - loads.sum(), 0.0) / n_buckets
    # Of equal loads the hash decides: rows may come in another order the next time.
    heaviest = np.lexsort((hashes, -loads))[: pairs.n_listed(n_workers)]
    told = {
        "left_rows": round(float(left.sum())),
        "right_rows": round(float(right.sum())),
        "pairs": round(float(left @ right)),
        "is_sampled": bool(level.any()),
    }
    listed = (hashes[heaviest], known[0][heaviest], known[1][heaviest])
    return PairCounts(*listed, buckets), told
