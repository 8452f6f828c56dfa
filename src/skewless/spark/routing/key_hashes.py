"""Hashes of keys, computed in the JVM: the usual one, and one for keys that strangers choose.

Spark's `xxhash64` is fast and public: it is easy to make thousands of keys with the same hash.
Untrusted keys are hashed with SHA-256 first. Its input encodes the key so that different keys never
have the same bytes. Two 64-bit numbers go to Python. There the task combines them with the seed of
the routing, which appears in no plan and no log of Spark.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.arrays import Keys, Words
from skewless.kernels.hashing import keyed
from skewless.spark.records import GroupingKey

#: Types whose text differs between values and does not depend on the session's time zone.
_WRITTEN_AS_TEXT = T.NumericType | T.BooleanType | T.DateType | T.TimestampNTZType
_INTERVALS = T.DayTimeIntervalType | T.YearMonthIntervalType


def hashed_key(key: GroupingKey, *, untrusted: bool) -> list[Column]:
    """Return the columns that a router gets; raise ValueError for a type without a safe hash."""
    if not untrusted:
        return [F.xxhash64(*key.columns)]
    parts = [
        _part(column, field.dataType, name)
        for column, field, name in zip(key.grouped, key.fields, key.names, strict=True)
    ]
    digest = F.sha2(F.concat(*parts), 256)
    # Nobody can choose the digest, so two hashes of it are as good as its first 128 bits.
    return [F.xxhash64(digest), F.xxhash64(F.lit(1), digest)]


def keyed_hashes(first: Keys, second: Keys, seed: int) -> Keys:
    """Return one key for each pair of digests."""
    sequence = np.random.SeedSequence(seed, spawn_key=(1,))  # not the seeds of a strategy
    seeds: Words = sequence.generate_state(2, np.uint64).astype(np.uint64)
    keys = np.empty(first.size, np.uint64)
    keyed(first, second, seeds, keys)
    return keys


def _part(column: Column, kind: T.DataType, name: str) -> Column:
    """Return a column as bytes with their length in front; null differs from every value."""
    written = _written(column, kind, name)
    length = F.octet_length(written).cast("string")
    return F.coalesce(F.concat(length.cast("binary"), _bytes(":"), written), _bytes("-"))


def _written(column: Column, kind: T.DataType, name: str) -> Column:
    """Return a column as bytes, different for different values of its type; null stays null."""
    if isinstance(kind, T.BinaryType):
        return column
    if isinstance(kind, T.StringType) and kind.isUTF8BinaryCollation():
        return column.cast("binary")
    if isinstance(kind, T.TimestampType):  # as text, one hour in autumn occurs twice
        return F.unix_micros(column).cast("string").cast("binary")
    if isinstance(kind, _WRITTEN_AS_TEXT | _INTERVALS):
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
