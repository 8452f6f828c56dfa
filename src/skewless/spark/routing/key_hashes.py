"""Hashes of keys, computed by the JVM: the usual one, and one for keys that a stranger chose.

Spark's `xxhash64` is fast and public: it is easy to make thousands of keys that have one and the
same hash. For such keys there is SHA-256 in front. Its input is the key written so that
different keys are never written alike. What goes to Python are two numbers of 64 bits, and the task
makes a key of them with the seed of the routing, which is in no plan of Spark and in no log of it.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.arrays import Keys, Words
from skewless.kernels.hashing import keyed
from skewless.spark.columns import GroupingKey

#: Types whose text is different for different values, whatever the time zone of the session.
_WRITTEN_AS_TEXT = (
    T.BooleanType
    | T.ByteType
    | T.ShortType
    | T.IntegerType
    | T.LongType
    | T.FloatType
    | T.DoubleType
    | T.DecimalType
    | T.DateType
    | T.TimestampNTZType
    | T.DayTimeIntervalType
    | T.YearMonthIntervalType
)


def hashed_key(key: GroupingKey, *, untrusted: bool) -> list[Column]:
    """Return what a router gets of a key; raise ValueError for a type that cannot be untrusted."""
    if not untrusted:
        return [F.xxhash64(*key.columns)]
    parts = [
        _part(column, field.dataType, name)
        for column, field, name in zip(key.grouped, key.fields, key.names, strict=True)
    ]
    digest = F.sha2(F.concat(*parts), 256)
    # Of something that cannot be chosen, two hashes are as good as the first half of it.
    return [F.xxhash64(digest), F.xxhash64(F.lit(1), digest)]


def keyed_hashes(first: Keys, second: Keys, seed: int) -> Keys:
    """Return one key for each pair of digests."""
    sequence = np.random.SeedSequence(seed, spawn_key=(1,))  # not the seeds of a strategy
    seeds: Words = sequence.generate_state(2, np.uint64).astype(np.uint64)
    keys = np.empty(first.size, np.uint64)
    keyed(first, second, seeds, keys)
    return keys


def _part(column: Column, kind: T.DataType, name: str) -> Column:
    """Return a column as bytes that say where they end: null and each value differ."""
    written = _written(column, kind, name)
    length = F.octet_length(written).cast("string")
    return F.coalesce(
        F.concat(length.cast("binary"), _bytes(":"), written),
        _bytes("-"),
    )


def _written(column: Column, kind: T.DataType, name: str) -> Column:
    """Return a column as bytes, different for different values of its type; null stays null."""
    if isinstance(kind, T.BinaryType):
        return column
    if isinstance(kind, T.StringType) and kind.isUTF8BinaryCollation():
        return column.cast("binary")
    if isinstance(kind, T.TimestampType):  # as text, an hour of autumn is there twice
        return F.unix_micros(column).cast("string").cast("binary")
    if isinstance(kind, _WRITTEN_AS_TEXT):
        return column.cast("string").cast("binary")
    if isinstance(kind, T.StructType):
        parts = [_part(column.getField(f.name), f.dataType, name) for f in kind.fields]
        return F.when(column.isNotNull(), F.concat(_bytes(""), *parts))
    if isinstance(kind, T.ArrayType):
        items = F.transform(column, lambda item: F.hex(_part(item, kind.elementType, name)))
        return F.array_join(items, ",").cast("binary")
    raise ValueError(
        f"untrusted_keys: column {name!r} is of type {kind.simpleString()}, which has no safe "
        "hash: cast it to string, or leave out untrusted_keys"
    )


def _bytes(text: str) -> Column:
    return F.lit(text.encode())
