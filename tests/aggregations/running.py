"""Run a ready aggregation over records in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from aggregations.oracle import aggregate, values_by_key
from aggregations.values import Values, columns_of, decimals
from skewless.aggregations import Aggregation

SEEDS = st.integers(0, 2**32)
EPS = np.finfo(float).eps
MODERATE = st.floats(-1e9, 1e9) | st.integers(-5, 5).map(float)
NUMBERS = {
    "double": Values(pa.float64(), MODERATE),
    "float": Values(pa.float32(), st.floats(-65536, 65536, width=32)),
    "int": Values(pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": Values(pa.int64(), st.integers(-(2**53), 2**53)),
    "decimal": Values(pa.decimal128(9, 2), decimals(9, 2)),
}


def keys_of(records: list[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in records]


def run(aggregation: Aggregation, records: list[Any], seed: int, *types: pa.DataType) -> Any:
    """Return the results by key and the oracle's values by key."""
    columns = columns_of(records, *types)
    got = aggregate(aggregation, keys_of(records), columns, seed)
    lists = [column.to_pylist(maps_as_pydicts="strict") for column in columns]
    return got, values_by_key(keys_of(records), *lists)
