from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import string
import struct
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keys.make_spark_vectors import CASES, VECTORS, column
from reference.kernels.xxhash64 import spark_hash, xxh64
from skewless.kernels.xxhash64 import SPARK_SEED, hash_long, hash_ranks
from skewless.keys import hash_keys

DOCUMENT = json.loads(VECTORS.read_text(encoding="utf-8"))
IDS = [", ".join(case["columns"]) for case in DOCUMENT["cases"]]


def signed(hashes: Any) -> list[int]:
    return np.asarray(hashes, np.uint64).view(np.int64).tolist()


@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=IDS)
def test_hashes_are_those_of_spark(case: dict[str, Any]) -> None:
    columns = [column(kind, values) for kind, values in case["columns"].items()]
    assert signed(hash_keys(*columns)) == case["xxhash64"]


def test_vectors_are_those_of_the_script() -> None:
    assert [case["columns"] for case in DOCUMENT["cases"]] == CASES


@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=IDS)
def test_slices_and_chunks_hash_as_the_whole(case: dict[str, Any]) -> None:
    columns = [column(kind, values) for kind, values in case["columns"].items()]
    n = len(columns[0])
    padded = [pa.concat_arrays([c[-1:], c[:1], c, c[:1]]) for c in columns]
    assert signed(hash_keys(*(c[2 : 2 + n] for c in padded))) == case["xxhash64"]
    chunked = [pa.chunked_array([c[:1], c[1:1], c[1:]], c.type) for c in columns]
    assert signed(hash_keys(*chunked)) == case["xxhash64"]
    assert hash_keys(*(c[:0] for c in columns)).size == 0


@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=IDS)
def test_dictionaries_hash_as_their_values(case: dict[str, Any]) -> None:
    columns = [column(kind, values) for kind, values in case["columns"].items()]
    indices = list(reversed(range(len(columns[0]))))
    encoded = [pa.DictionaryArray.from_arrays(pa.array(indices), c) for c in columns]
    assert signed(hash_keys(*encoded)) == case["xxhash64"][::-1]


def test_null_indices_of_a_dictionary_are_nulls() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["a", "b"]))
    assert hash_keys(encoded).tolist() == hash_keys(["b", None, "a"]).tolist()
    assert hash_keys([1, 2, 3], encoded).tolist() == hash_keys([1, 2, 3], ["b", None, "a"]).tolist()


texts = st.one_of(st.none(), st.text(max_size=80))


@given(st.lists(st.tuples(texts, texts), max_size=20), st.integers(0, 5))
@settings(deadline=None)
def test_strings_equal_the_oracle(records: list[tuple[str | None, str | None]], cut: int) -> None:
    columns = [[record[i] for record in records] for i in (0, 1)]
    as_bytes = [[None if v is None else v.encode() for v in values] for values in columns]
    expected = spark_hash(as_bytes)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        arrays = [pa.array(values, kind) for values in columns]
        assert hash_keys(*arrays).tolist() == expected
        assert hash_keys(*(array[cut:] for array in arrays)).tolist() == expected[cut:]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=40))
@settings(deadline=None)
def test_python_integers_are_long(values: list[int | None]) -> None:
    expected = spark_hash([[None if v is None else struct.pack("<q", v) for v in values]])
    assert hash_keys(pa.array(values, pa.int64())).tolist() == expected
    assert hash_keys(values).tolist() == expected


@given(st.lists(st.one_of(st.none(), st.integers(-(10**38) + 1, 10**38 - 1)), max_size=40))
@settings(deadline=None)
def test_wide_decimals_hash_the_bytes_of_a_java_big_integer(values: list[int | None]) -> None:
    def java_bytes(value: int) -> bytes:
        magnitude = value if value >= 0 else -value - 1
        return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)

    expected = spark_hash([[None if v is None else java_bytes(v) for v in values]])
    decimals = [None if v is None else Decimal(v) for v in values]
    assert hash_keys(pa.array(decimals, pa.decimal128(38, 0))).tolist() == expected


def test_every_length_of_bytes_equals_the_oracle() -> None:
    data = random.Random(1).randbytes(200)
    values = [data[:length] for length in range(200)]
    assert hash_keys(values).tolist() == [xxh64(value, 42) for value in values]


def test_numpy_pandas_and_lists_hash_as_arrow_does() -> None:
    pandas = pytest.importorskip("pandas")
    words = ["a", None, "żółć"]
    expected = hash_keys(pa.array(words)).tolist()
    assert hash_keys(words).tolist() == expected
    assert hash_keys(tuple(words)).tolist() == expected
    assert hash_keys(np.array(words, object)).tolist() == expected
    assert hash_keys(pandas.Series(words)).tolist() == expected
    assert hash_keys(pandas.Series(words, dtype="category")).tolist() == expected
    assert (
        hash_keys(np.array([1, 2], np.int32)).tolist()
        == hash_keys(pa.array([1, 2], pa.int32())).tolist()
    )
    assert hash_keys(np.array([1, 2])).tolist() != hash_keys(np.array([1, 2], np.int32)).tolist()
    assert hash_keys(pandas.Series([1.5, np.nan])).tolist() == hash_keys([1.5, None]).tolist()


def test_times_of_any_unit_are_microseconds() -> None:
    moment = dt.datetime(2024, 2, 29, 12, 34, 56)
    seconds = pa.array([moment], pa.timestamp("s"))
    for unit in ("ms", "us", "ns"):
        assert hash_keys(seconds.cast(pa.timestamp(unit))).tolist() == hash_keys(seconds).tolist()
    assert hash_keys([moment]).tolist() == hash_keys(seconds).tolist()
    day = pa.array([dt.date(2024, 2, 29)], pa.date32())
    assert hash_keys(day.cast(pa.date64())).tolist() == hash_keys(day).tolist()


def test_python_decimals_are_what_spark_infers() -> None:
    expected = hash_keys(pa.array([Decimal("1.5"), None], pa.decimal128(38, 18))).tolist()
    assert hash_keys([Decimal("1.5"), None]).tolist() == expected


def test_lists_of_fixed_size_hash_as_lists() -> None:
    values = [[1, 2], None, [3, None]]
    fixed = pa.array(values, pa.list_(pa.int64(), 2))
    assert hash_keys(fixed).tolist() == hash_keys(values).tolist()
    assert hash_keys(fixed[1:]).tolist() == hash_keys(values[1:]).tolist()


def test_nulls_alone_leave_the_seed() -> None:
    assert hash_keys([None, None], [None, None]).tolist() == [42, 42]


def test_hash_long_is_the_hash_of_a_column_of_longs() -> None:
    ranks = np.array([1, 2, -5, 2**62], np.int64)
    out = np.empty(4, np.uint64)
    hash_ranks(ranks, out)
    assert out.tolist() == hash_keys(ranks).tolist()
    assert [int(hash_long(rank, SPARK_SEED)) for rank in ranks] == out.tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.uint64()),
        np.array([1], np.uint8),
        pa.array([1.0], pa.float16()),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[]], pa.list_(pa.uint8())),
        pa.array([Decimal(1)], pa.decimal256(40, 0)),
    ],
    ids=lambda column: str(pa.array(column).type),
)
def test_other_types_are_refused_by_name(column: Any) -> None:
    kind = pa.array(column).type
    name = kind.value_type if pa.types.is_list(kind) else kind
    with pytest.raises(TypeError, match=rf"{re.escape(str(name))}; allowed: strings"):
        hash_keys(column)


def test_what_is_no_column_is_refused() -> None:
    with pytest.raises(TypeError, match="not the value 'abc'"):
        hash_keys("abc")
    with pytest.raises(TypeError, match="mixes types"):
        hash_keys([1, "a"])
    with pytest.raises(TypeError, match="64 bits"):
        hash_keys([2**63])
    with pytest.raises(ValueError, match="at least one"):
        hash_keys()
    with pytest.raises(ValueError, match="column 0 has 2 records and column 1 has 1"):
        hash_keys([1, 2], ["a"])
    with pytest.raises(ValueError, match="one dimension, not 2"):
        hash_keys(np.zeros((2, 2)))


def test_inputs_are_untouched() -> None:
    values = np.array([0.0, -0.0, np.nan, 1.0])
    before = values.tobytes()
    hash_keys(values)
    assert values.tobytes() == before


PROGRAM = """
import json, sys
from keys.make_spark_vectors import VECTORS, column
from skewless.keys import hash_keys
for case in json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]:
    hashes = hash_keys(*(column(kind, values) for kind, values in case["columns"].items()))
    assert hashes.view("int64").tolist() == case["xxhash64"], case
"""


def test_kernels_give_the_same_without_the_compiler() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], env=environment, check=True)


@pytest.mark.spark
def test_random_values_hash_as_in_a_live_session(spark: Any) -> None:
    from pyspark.sql.functions import xxhash64

    rng = random.Random(7)
    n = 4_000

    def some(make: Any) -> list[Any]:
        return [None if rng.random() < 0.05 else make() for _ in range(n)]

    letters = string.printable + "äß鍵🔑"
    digits = 10**38 - 1
    table = pa.table(
        {
            "text": pa.array(some(lambda: "".join(rng.choices(letters, k=rng.randrange(70))))),
            "long": pa.array(some(lambda: rng.randrange(-(2**63), 2**63)), pa.int64()),
            "int": pa.array(some(lambda: rng.randrange(-(2**31), 2**31)), pa.int32()),
            "double": pa.array(some(lambda: rng.gauss(0, 1e9)), pa.float64()),
            "float": pa.array(some(lambda: rng.gauss(0, 1)), pa.float32()),
            "wide": pa.array(
                some(lambda: Decimal(rng.randint(-digits, digits) >> rng.randrange(127))),
                pa.decimal128(38, 0),
            ),
            "narrow": pa.array(some(lambda: Decimal(rng.randint(-(10**9), 10**9))))
            .cast(pa.decimal128(18, 0)),
            "bytes": pa.array(some(lambda: rng.randbytes(rng.randrange(50)))),
            "flag": pa.array(some(lambda: rng.random() < 0.5)),
            "day": pa.array(some(lambda: rng.randrange(-40_000, 40_000)), pa.int32())
            .cast(pa.date32()),
            "time": pa.array(some(lambda: rng.randrange(2**50)), pa.timestamp("us", "UTC")),
            "list": pa.array(some(lambda: [rng.randrange(9) for _ in range(rng.randrange(5))])),
        }
    )  # fmt: skip
    frame = spark.createDataFrame(table)
    groups = [[name] for name in table.column_names] + [["text", "long", "double"]]
    groups.append(table.column_names)
    rows = frame.select(*(xxhash64(*names) for names in groups)).collect()
    for position, names in enumerate(groups):
        expected = [row[position] for row in rows]
        assert signed(hash_keys(*(table[name] for name in names))) == expected, names
