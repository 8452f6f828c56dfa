"""Counts the keys of files with Spark aggregations: the driver holds counts, not records."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from skewless.arrays import Keys
from skewless.diagnosis.key_facts import CURVE, TOP, KeyFacts, heavy_share, part_size
from skewless.spark.columns import internal, quoted

#: The place of a record: its file, the start of the part of the file that one task reads, and a
#: number that increases along this part.
FILE, BEGIN, ROW = internal("file"), internal("begin"), internal("row")
_HASH, _PLACE, _FIRST, _N = internal("hash"), internal("place"), internal("first"), internal("n")
_PART, _RANK, _VALUES = internal("part"), internal("rank"), internal("values")


class CountedKeys(NamedTuple):
    """The results of counting the keys, and the keys of the first records."""

    facts: KeyFacts
    values: dict[int, tuple[Any, ...]]  # of the columns of the heaviest keys, by hash
    beginning: Keys


def count_on_spark(
    records: DataFrame, key: list[str], *, n_workers: int, beginning: int
) -> CountedKeys:
    """Return the counts; it reads the key columns of the records four times.

    `records` have the columns `FILE`, `BEGIN` and `ROW`. They are in the order of their files'
    names and of their places in the files, as without Spark. Of the first ones, `beginning` of
    them, the keys are returned: 16 bytes each on the driver.
    """
    columns = [F.col(quoted(name)) for name in key]
    hashed = records.select(F.xxhash64(*columns).alias(_HASH), *columns, FILE, BEGIN, ROW)
    offsets, n_records = _offsets(hashed)
    if not n_records:
        raise ValueError("the input has no records")
    values = F.first(F.struct(*columns)).alias(_VALUES)
    counts = hashed.groupBy(_HASH).agg(F.count("*").alias(_N), values)
    counts = counts.persist(StorageLevel.DISK_ONLY)
    try:
        is_above = (F.col(_N) * n_workers > n_records).cast("bigint")
        n_keys, n_above = counts.agg(F.count("*"), F.sum(is_above)).collect()[0]
        rows = counts.orderBy(*_heaviest_first()).limit(CURVE).collect()
    finally:
        counts.unpersist()
    placed = _placed(hashed, offsets)
    size = part_size(n_records)
    facts = KeyFacts(
        n_records=n_records,
        n_keys=int(n_keys),
        n_above_fair_share=int(n_above),
        heaviest=tuple((_unsigned(row[_HASH]), int(row[_N])) for row in rows),
        tops=_tops(placed, size, heavy_share(n_workers) * size),
    )
    values_of = {_unsigned(row[_HASH]): tuple(row[_VALUES]) for row in rows}
    return CountedKeys(facts, values_of, _beginning(placed, beginning))


def _offsets(hashed: DataFrame) -> tuple[DataFrame, int]:
    """Return how many records come before each part of a file, and how many there are in all."""
    found = hashed.groupBy(FILE, BEGIN).agg(F.min(ROW).alias(_FIRST), F.count("*").alias(_N))
    before, offsets = 0, []
    for row in sorted(found.collect(), key=_place):
        offsets.append((row[FILE], row[BEGIN], before - row[_FIRST]))
        before += row[_N]
    schema = f"`{FILE}` string, `{BEGIN}` bigint, `{_FIRST}` bigint"
    return hashed.sparkSession.createDataFrame(offsets, schema), before


def _place(row: Row) -> tuple[PurePosixPath, int]:
    return PurePosixPath(unquote(row[FILE])), row[BEGIN]


def _placed(hashed: DataFrame, offsets: DataFrame) -> DataFrame:
    """Return the hash and the place of each record in the whole stream, from 0."""
    joined = hashed.join(F.broadcast(offsets), [FILE, BEGIN])
    return joined.select(_HASH, (F.col(ROW) + F.col(_FIRST)).alias(_PLACE))


def _tops(placed: DataFrame, size: int, least: float) -> tuple[tuple[int, ...], ...]:
    """Return the heaviest keys of each part of `size` records, with `least` records each."""
    part = F.expr(f"`{_PLACE}` div {size}").alias(_PART)
    counts = placed.groupBy(part, _HASH).agg(F.count("*").alias(_N))
    rank = F.row_number().over(Window.partitionBy(_PART).orderBy(*_heaviest_first()))
    rows = counts.withColumn(_RANK, rank).where(F.col(_RANK) <= TOP).collect()
    tops: dict[int, list[int]] = {row[_PART]: [] for row in rows}
    for row in sorted(rows, key=lambda row: row[_RANK]):
        if row[_N] >= least:
            tops[row[_PART]].append(_unsigned(row[_HASH]))
    return tuple(tuple(tops[part]) for part in sorted(tops))


def _beginning(placed: DataFrame, n: int) -> Keys:
    """Return the hashes of the first records, in order."""
    table = placed.where(F.col(_PLACE) < n).select(_PLACE, _HASH).toArrow()
    order = np.argsort(table[_PLACE].to_numpy())
    hashes: Keys = table[_HASH].to_numpy()[order].view(np.uint64)
    return hashes


def _heaviest_first() -> list[Column]:
    """Return the order of keys by records, and by their hash as a number without a sign."""
    return [F.desc(_N), F.col(_HASH) < 0, F.col(_HASH)]


def _unsigned(number: int) -> int:
    return number % (1 << 64)
