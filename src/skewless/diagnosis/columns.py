"""Ranks the columns of a file by how uneven hashing would be if they were the key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skewless.diagnosis.key_facts import count_keys
from skewless.metrics import imbalance
from skewless.strategies import Hash
from skewless.workloads import Trace
from skewless.workloads.trace import columns_of

_LEAST_KEYS = 2
_MOST_DISTINCT = 0.5  # of the records: a column with more is an identifier, if no value is heavy


class Candidate(NamedTuple):
    """A column that could be a key."""

    column: str
    type: str
    n_records: int
    n_keys: int
    top_share: float
    imbalance: float  # of hashing


def rank_columns(
    path: str,
    *,
    n_workers: int,
    format: str = "auto",
    limit: int = 1_000_000,
    delimiter: str = "auto",
) -> list[Candidate]:
    """Return the columns that could be keys, the most uneven one first.

    Columns of measured values and of times are left out, and so are columns with one value. Columns
    with more values than half of the records are left out too, unless one of the values is above
    the fair share of a worker. Only the first `limit` records are read.
    """
    found = []
    reading = {"format": format, "limit": limit, "delimiter": delimiter}
    for column, kind in columns_of(path, format, delimiter).items():
        if not _could_be_key(kind):
            continue
        trace = Trace(path=path, key=(column,), **reading)  # type: ignore[arg-type]
        counted = count_keys(trace.chunks(0))
        n_keys = counted.n_keys
        if n_keys < _LEAST_KEYS:
            continue
        top_share = float(counted.counts.max() / counted.n_records)
        is_distinct = n_keys > max(_MOST_DISTINCT * counted.n_records, _LEAST_KEYS)
        if is_distinct and top_share * n_workers <= 1.0:
            continue
        workers = np.empty(counted.keys.size, np.int32)
        strategy = Hash()
        strategy.route(counted.keys, strategy.start(n_workers, 0), workers)
        loads = np.bincount(workers, counted.counts, n_workers)
        uneven = imbalance(loads)
        found.append(Candidate(column, str(kind), counted.n_records, n_keys, top_share, uneven))
    return sorted(found, key=lambda one: -one.imbalance)


def _could_be_key(kind: pa.DataType) -> bool:
    """Return whether a type can hold names: it is not nested, a time or a measured value."""
    kinds = pa.types
    others = (kinds.is_floating, kinds.is_nested, kinds.is_null, kinds.is_temporal)
    return not any(is_other(kind) for is_other in others)
