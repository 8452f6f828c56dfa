"""Ask Spark for xxhash64 of values of every type, and write both to spark_vectors.json.

Run it again with `python tests/keys/make_spark_vectors.py` when a case is added.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa

VECTORS = Path(__file__).with_name("spark_vectors.json")

TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,0)": pa.decimal128(18, 0),
    "decimal(38,10)": pa.decimal128(38, 10),
    "array<bigint>": pa.list_(pa.int64()),
    "array<array<string>>": pa.list_(pa.list_(pa.string())),
    "struct<a:int,b:string>": pa.struct({"a": pa.int32(), "b": pa.string()}),
}

FLOATS = ["0", "-0.0", "1.5", "-1e-3", "nan", "inf", "-inf", None]
TIMES = ["1970-01-01 00:00:00", "2024-02-29 12:34:56.789012", "1905-01-01 00:00:00", None]
DECIMALS = [
    *("0", "1", "-1", "0.0000000127", "0.0000000128", "-0.0000000128", "-0.0000000129"),
    *("922337203.6854775807", "922337203.6854775808"),  # 2^63 − 1 and 2^63 unscaled
    *("-922337203.6854775808", "-922337203.6854775809"),
    *("1844674407.3709551615", "1844674407.3709551616"),
    *("9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999"),
    None,
]
WORDS = ["", "a", "ab", "abc", "abcd", "abcdefg", "abcdefgh", "abcdefghijk", "abcdefghijkl"]
LONG_WORDS = ["x" * 31, "y" * 32, "z" * 33, "skew" * 27, "żółć 鍵 🔑", None]

#: Each case: its columns, by type; values are JSON, binary in hexadecimal.
CASES: list[dict[str, list[Any]]] = [
    {"string": WORDS + LONG_WORDS},
    {"binary": ["", "00", "00ff80", "0102030405060708ff", None]},
    {"boolean": [True, False, None]},
    {"tinyint": [0, -1, 127, -128, None]},
    {"smallint": [0, -1, 32767, -32768, None]},
    {"int": [0, -1, 2147483647, -2147483648, None]},
    {"bigint": [0, 1, -1, 9223372036854775807, -9223372036854775808, None]},
    {"float": FLOATS},
    {"double": FLOATS},
    {"date": ["1970-01-01", "2024-02-29", "1905-01-01", None]},
    {"timestamp": TIMES},
    {"timestamp_ntz": TIMES},
    {"interval day to second": [0, -1, 86_400_000_000, None]},
    {"decimal(9,2)": ["0", "1.23", "-1.23", "9999999.99", None]},
    {"decimal(18,0)": ["0", "-1", "999999999999999999", None]},
    {"decimal(38,10)": DECIMALS},
    {"bigint": [1, None, 1, None, 2], "string": ["a", "a", None, None, ""]},
    {"string": ["a", "b", None], "int": [1, None, 7], "double": ["0.5", "-0.0", None]},
    {"array<bigint>": [[], [1], [1, None, 3], [None], None]},
    {"array<array<string>>": [[["a"], None, ["b", "c"]], [[]], None]},
    {"struct<a:int,b:string>": [{"a": 1, "b": "x"}, {"a": None, "b": "x"}, {"a": 2}, None]},
]


def column(kind: str, values: list[Any]) -> pa.Array:
    """Return JSON values as an Arrow array of the Spark type `kind`."""
    if kind == "binary":
        values = [None if value is None else bytes.fromhex(value) for value in values]
    if kind.startswith(("float", "double", "date", "timestamp", "decimal")):
        if kind == "timestamp":
            return pa.array(values, pa.string()).cast(pa.timestamp("us")).cast(TYPES[kind])
        return pa.array(values, pa.string()).cast(TYPES[kind])
    return pa.array(values, TYPES[kind])


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, xxhash64

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    vectors = []
    for case in CASES:
        table = pa.table({kind: column(kind, values) for kind, values in case.items()})
        frame = spark.createDataFrame(table)
        hashed = frame.select(xxhash64(*(col(f"`{kind}`").cast(kind) for kind in case))).collect()
        vectors.append({"columns": case, "xxhash64": [row[0] for row in hashed]})
    lines = ",\n".join(json.dumps(vector, ensure_ascii=False) for vector in vectors)
    text = f'{{"spark": "{spark.version}", "cases": [\n{lines}\n]}}\n'
    VECTORS.write_text(text, encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
