"""Counts keys in one job of the JVM: the load of each bucket, and its heaviest keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
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
_PLACE = internal("place")
#: `monotonically_increasing_id` has the row's position in these bits, the partition above them.
_POSITION_BITS = 33
#: Beyond 2 to the power of this, rows are thinned no further: a trillion of rows.
_MOST_SPAN = 40
#: At each step, rows are thinned by 2 to the power of this; where fewer suffice, by more.
_THINNING, COARSE = 2, 4
#: So many standard deviations are allowed for the error of the load of a worker.
LARGEST_ERROR = 3.0
#: `max_by` returns the first k in all versions of Spark but these.
_WITHOUT_TOP_K = "4.1."
_HASH, _LOAD, _NAME, _BUCKET = (internal(name) for name in ("hash", "load", "name", "bucket"))
_SUM, _KEYS, _TOP, _RANK = (internal(name) for name in ("sum", "keys", "top", "rank"))
_PART, _NOISE, _NOISES = (internal(name) for name in ("part", "noise", "noises"))
_WEIGHT = internal("weight")


def numbered(df: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return these columns with the place of each row, by which `sampled` draws."""
    # An alias would be ten calls of the JVM.
    placed = df.select(*columns.values(), F.expr("monotonically_increasing_id()"))
    return placed.toDF(*columns, _PLACE)


def sampled(
    df: DataFrame,
    names: Sequence[str],
    all_counted: int,
    n_partitions: int,
    salt: str,
    thinning: int = _THINNING,
) -> DataFrame:
    """Return some of the rows that are numbered, with `LEVEL`; `salt` is an expression.

    Of the first partition, the first 2 ** `all_counted` rows are there; of those up to 4 times
    this position every 4th, up to 16 times every 16th, and so on. A row of the second partition
    counts as one at twice its position, up to `n_partitions` times. So a table in one partition may
    be large and is counted exactly, and many partitions are thinner.
    """
    # As text, and in few steps: each Column is a call of the JVM, each step is analysed, and the
    # verbs wait for these. Few comparisons: they are parsed and analysed, too, but a logarithm of
    # every position would take longer than to read the keys.
    position = f"({_PLACE} & {(1 << _POSITION_BITS) - 1}L)"
    span = f"{position} * least(shiftright({_PLACE}, {_POSITION_BITS}) + 1, {n_partitions})"
    levels = [
        f"WHEN {span} < {1 << power}L THEN {power - all_counted}"
        for power in range(all_counted, _MOST_SPAN, thinning)
    ]
    level = f"CASE {' '.join(levels)} ELSE {_MOST_SPAN - all_counted} END"
    leveled = df.selectExpr(*names, _PLACE, f"{level} AS {LEVEL}")
    drawn = leveled.where(f"xxhash64({salt}, {_PLACE}) & (shiftleft(1L, {LEVEL}) - 1) = 0")
    return drawn.select(*names, LEVEL)


class Counted(NamedTuple):
    """The counts; of the listed keys also the names and the part of the load, if asked for."""

    counts: KeyCounts
    names: Sequence[str] | None
    parts: Floats | None
    noise: float  # the variance of the whole load that sampling adds; 0: all records are counted

    def error(self, n_workers: int) -> float:
        """By how much the load of a worker may exceed what is counted, as a part of the mean.

        >>> counts = KeyCounts(np.empty(0), np.empty(0), np.array([1e6]), 0)
        >>> Counted(counts, None, None, 1e6).error(16)
        0.012
        """
        total = float(self.counts.buckets.sum())
        return LARGEST_ERROR * math.sqrt(n_workers * self.noise) / total if self.noise else 0.0


def seeded_hash(key: GroupingKey, seed: int, *, untrusted: bool) -> Column:
    """Return the hash by which keys are planned, which follows from the key and the seed."""
    hashed = hashed_key(key, untrusted=True) if untrusted else key.grouped
    return F.xxhash64(*hashed, F.expr(f"CAST({hash_seed(seed)} AS BIGINT)"))


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
    stands = "1" if thin is None else f"shiftleft(1L, {LEVEL})"
    of_key = [] if named is None else named.grouped
    names = [internal(f"key_{place}") for place in range(len(of_key))]
    given = dict(zip(names, of_key, strict=True)) | {_HASH: hashed}
    given |= {
        name: column for name, column in ((_WEIGHT, weight), (_PART, part)) if column is not None
    }
    if thin is None:
        read = df.select(*(column.alias(name) for name, column in given.items()))
    else:
        read = sampled(numbered(df, given), tuple(given), *thin[:2], f"{thin[2]}L")
    # As text from here on: each Column is some calls of the JVM, and the verbs wait for these.
    each = "1" if weight is None else _WEIGHT
    added = [f"CAST(sum({each} * {stands}) AS DOUBLE) + {float(per_key)!r}D AS {_LOAD}"]
    # A row that stands for w rows, since one of w is drawn, adds w * w - w to the variance.
    added += [
        f"{'0' if thin is None else f'sum(CAST({stands} AS DOUBLE) * ({stands} - 1))'} AS {_NOISE}"
    ]
    added += [] if part is None else [f"sum({_PART} * {stands}) AS {_PART}"]
    counts = read.groupBy(_HASH, *names).agg(*map(F.expr, added))
    columns = [_HASH, _LOAD, *([] if part is None else [_PART])]
    bucket = f"pmod({_HASH}, {n_buckets}L) AS {_BUCKET}"
    text = [] if named is None else [f"{name_in_sql(named, names)} AS {_NAME}"]
    tops_of = counts.selectExpr(*columns, *text, _NOISE, bucket)
    columns += [] if named is None else [_NAME]
    table = _tops(tops_of, columns, listed_per_bucket(n_buckets)).toArrow()
    sums = np.zeros(n_buckets)
    sums[table[_BUCKET].to_numpy()] = table[_SUM].to_numpy()
    tops = table[_TOP].combine_chunks().flatten()

    def numbers(name: str, kind: type) -> Any:
        return tops.field(name).to_numpy(zero_copy_only=False).astype(kind)

    hashes: Keys = numbers(_HASH, np.int64).view(np.uint64)
    loads = numbers(_LOAD, np.float64)
    parts_of_keys = None if part is None else numbers(_PART, np.float64)
    texts = None
    if named is not None:
        # Spark's hash skips nulls, so keys like (1, null) and (null, 1) are one key for the plan.
        hashes, first, same = np.unique(hashes, return_index=True, return_inverse=True)
        loads = np.bincount(same, loads, hashes.size)
        texts = [tops.field(_NAME)[place].as_py() for place in first.tolist()]
    n_keys = int(table[_KEYS].to_numpy().sum())
    counted = KeyCounts(hashes, loads, sums, n_keys)
    return Counted(counted, texts, parts_of_keys, float(table[_NOISE].to_numpy().sum()))


def _tops(counts: DataFrame, columns: list[str], k: int) -> DataFrame:
    """Return the sum, the number of keys and the k heaviest keys of each bucket."""
    row = f"struct({', '.join(columns)})"
    # Among keys of equal load the hash decides, so that the plan is the same every time.
    if not counts.sparkSession.version.startswith(_WITHOUT_TOP_K):
        top = f"max_by({row}, struct({_LOAD}, {_HASH}), {k})"
        aggregates = [f"sum({_LOAD})", "count(1)", top, f"sum({_NOISE})"]
    else:
        bucket = f"OVER (PARTITION BY {_BUCKET})"
        heaviest = f"OVER (PARTITION BY {_BUCKET} ORDER BY {_LOAD} DESC, {_HASH} DESC)"
        counts = counts.selectExpr(
            "*",
            f"row_number() {heaviest} AS {_RANK}",
            f"sum({_LOAD}) {bucket} AS {_SUM}",
            f"count(1) {bucket} AS {_KEYS}",
            f"sum({_NOISE}) {bucket} AS {_NOISES}",
        ).where(f"{_RANK} <= {k}")
        aggregates = [f"max({_SUM})", f"max({_KEYS})", f"collect_list({row})", f"max({_NOISES})"]
    named = zip(aggregates, (_SUM, _KEYS, _TOP, _NOISE), strict=True)
    return counts.groupBy(_BUCKET).agg(*(F.expr(f"{what} AS {name}") for what, name in named))


def name_in_sql(key: GroupingKey, names: Sequence[str]) -> str:
    """Return the expression of a key as text, from these columns: Python cannot hold every key."""
    texts = []
    for name, field in zip(names, key.fields, strict=True):
        is_binary = isinstance(field.dataType, T.BinaryType)
        text = f"concat('0x', hex({name}))" if is_binary else f"CAST({name} AS STRING)"
        texts.append(f"coalesce({text}, 'null')")
    return f"substring(concat_ws(', ', {', '.join(texts)}), 1, {LONGEST_TEXT})"
