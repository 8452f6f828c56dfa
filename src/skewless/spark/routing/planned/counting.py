"""Counts keys in one job of the JVM: the load of each bucket, and its heaviest keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.arrays import Floats, Keys
from skewless.planning.packing import KeyCounts, listed_per_bucket
from skewless.spark.columns import internal
from skewless.spark.key_texts import LONGEST_TEXT
from skewless.spark.records import GroupingKey
from skewless.spark.routing.key_hashes import hashed_key
from skewless.spark.routing.seeds import hash_seed

#: The column of a thinned DataFrame: each row stands for 2 to the power of this number.
LEVEL = internal("level")
_PLACE, _SPAN = internal("place"), internal("span")
#: `monotonically_increasing_id` has the row's position in these bits, the partition above them.
_POSITION_BITS = 33
#: Beyond 2 to the power of this, rows are thinned no further: a trillion of rows.
_MOST_SPAN = 40
#: `max_by` returns the first k since this version of Spark.
_HAS_TOP_K = (4, 2)
_HASH, _LOAD, _NAME, _BUCKET = (internal(name) for name in ("hash", "load", "name", "bucket"))
_SUM, _KEYS, _TOP, _RANK = (internal(name) for name in ("sum", "keys", "top", "rank"))
_PART, _MOST = internal("part"), internal("most")


def thinned(df: DataFrame, all_counted: int, n_partitions: int, salt: int = 0) -> DataFrame:
    """Return some of the rows, with `LEVEL`.

    Of the first partition, the first 2 ** `all_counted` rows are there; of those up to four times
    this position every fourth, up to 16 times every 16th, and so on. A row of the second partition
    counts as one at twice its position, up to `n_partitions` times. So a table in one partition may
    be large and is counted exactly, and many partitions are thinner.
    """
    # As text, since each Column is a call of the JVM, and the verbs wait for these. Comparisons: a
    # logarithm of every position would take longer than to read the keys.
    position = f"({_PLACE} & {(1 << _POSITION_BITS) - 1}L)"
    times = f"least(shiftright({_PLACE}, {_POSITION_BITS}) + 1, {n_partitions})"
    levels = [
        f"WHEN {_SPAN} < {1 << power}L THEN {power - all_counted}"
        for power in (all_counted, *range(all_counted + 2, _MOST_SPAN, 2))
    ]
    level = f"CASE {' '.join(levels)} ELSE {_MOST_SPAN - all_counted} END"
    placed = df.withColumn(_PLACE, F.monotonically_increasing_id())
    placed = placed.withColumn(_SPAN, F.expr(f"{position} * {times}"))
    placed = placed.withColumn(LEVEL, F.expr(level))
    drawn = f"xxhash64({salt}L, {_PLACE}) & (shiftleft(1L, {LEVEL}) - 1) = 0"
    return placed.where(drawn).drop(_PLACE, _SPAN)


def stands_for() -> Column:
    """Return how many rows a row of a thinned DataFrame stands for."""
    return F.expr(f"shiftleft(1L, {LEVEL})")


class Counted(NamedTuple):
    """The counts; of the listed keys also the names and the part of the load, if asked for."""

    counts: KeyCounts
    names: Sequence[str] | None
    parts: Floats | None
    is_sampled: bool


def seeded_hash(key: GroupingKey, seed: int, *, untrusted: bool) -> Column:
    """Return the hash by which keys are planned, which follows from the key and the seed."""
    hashed = hashed_key(key, untrusted=True) if untrusted else key.grouped
    return F.xxhash64(*hashed, F.lit(hash_seed(seed)).cast("bigint"))


def count_keys(
    df: DataFrame,
    hashed: Column,
    n_buckets: int,
    *,
    weight: Column | None = None,
    per_key: float = 0.0,
    named: GroupingKey | None = None,
    part: Column | None = None,
    thin: tuple[int, int, int] | None = None,
) -> Counted:
    """Count the load of every bucket of hashes, and of its heaviest keys; this runs one job.

    Each key has `per_key` load besides that of its records. With the names of a key, records are
    grouped by the key too, which takes longer. `part` is summed for each listed key as well. With
    `thin`, records are thinned by these arguments; the number of keys is that of those seen then.
    """
    one = F.lit(1)
    if thin is not None:
        df, one = thinned(df, *thin), stands_for()
    columns_of_key = [] if named is None else named.grouped
    parts = [internal(f"key_{place}") for place in range(len(columns_of_key))]
    grouped = [column.alias(part) for column, part in zip(columns_of_key, parts, strict=True)]
    load = F.sum(one if weight is None else weight * one)
    load = load.cast("double") + F.lit(per_key) if per_key else load.cast("double")
    level = F.lit(0) if thin is None else F.max(LEVEL)
    sums_of = [load.alias(_LOAD), level.alias(LEVEL)]
    sums_of += [] if part is None else [F.sum(part * one).alias(_PART)]
    counts = df.groupBy(hashed.alias(_HASH), *grouped).agg(*sums_of)
    columns = [_HASH, _LOAD, *([] if part is None else [_PART])]
    if named is not None:
        counts = counts.withColumn(_NAME, _name(named, parts))
        columns.append(_NAME)
    bucket = F.pmod(F.col(_HASH), F.lit(n_buckets).cast("bigint")).alias(_BUCKET)
    tops_of = counts.select(*columns, LEVEL, bucket)
    table = _tops(tops_of, columns, listed_per_bucket(n_buckets)).toArrow()
    sums = np.zeros(n_buckets)
    sums[table[_BUCKET].to_numpy()] = table[_SUM].to_numpy()
    tops = table[_TOP].combine_chunks().flatten()

    def numbers(name: str, kind: type) -> Any:
        return tops.field(name).to_numpy(zero_copy_only=False).astype(kind)

    hashes: Keys = numbers(_HASH, np.int64).view(np.uint64)
    names = tops.field(_NAME).to_pylist() if named is not None else None
    counted = KeyCounts(
        hashes, numbers(_LOAD, np.float64), sums, int(table[_KEYS].to_numpy().sum())
    )
    parts_of_keys = None if part is None else numbers(_PART, np.float64)
    return Counted(counted, names, parts_of_keys, bool(table[LEVEL].to_numpy().any()))


def _tops(counts: DataFrame, columns: list[str], k: int) -> DataFrame:
    """Return the sum, the number of keys and the k heaviest keys of each bucket."""
    # Among keys of equal load the hash decides, so that the plan is the same every time.
    if _version(counts.sparkSession.version) >= _HAS_TOP_K:
        top = F.max_by(F.struct(*columns), F.struct(_LOAD, _HASH), k)
        aggregates = [F.sum(_LOAD), F.count(F.lit(1)), top, F.max(LEVEL)]
    else:
        bucket = Window.partitionBy(_BUCKET)
        rank = F.row_number().over(bucket.orderBy(F.desc(_LOAD), F.desc(_HASH)))
        counts = counts.select(
            "*",
            rank.alias(_RANK),
            F.sum(_LOAD).over(bucket).alias(_SUM),
            F.count(F.lit(1)).over(bucket).alias(_KEYS),
            F.max(LEVEL).over(bucket).alias(_MOST),
        ).where(F.col(_RANK) <= k)
        top = F.collect_list(F.struct(*columns))
        aggregates = [F.max(_SUM), F.max(_KEYS), top, F.max(_MOST)]
    names = (_SUM, _KEYS, _TOP, LEVEL)
    named = [column.alias(name) for column, name in zip(aggregates, names, strict=True)]
    return counts.groupBy(_BUCKET).agg(*named)


def _name(key: GroupingKey, parts: list[str]) -> Column:
    """Return the key as text, for people."""
    texts = []
    for part, field in zip(parts, key.fields, strict=True):
        column = F.col(part)
        if isinstance(field.dataType, T.BinaryType):
            text = F.concat(F.lit("0x"), F.hex(column))
        else:
            text = column.cast("string")
        texts.append(F.coalesce(text, F.lit("null")))
    return F.substring(F.concat_ws(", ", *texts), 1, LONGEST_TEXT)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version.

    >>> _version("4.2.0-preview1")
    (4, 2)
    """
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
