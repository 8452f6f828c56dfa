"""Aggregation as a dict of lists: slow, obvious, and how the tests cut and merge records."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations import Aggregation, group


def same_key(value: Any) -> Any:
    """Return something hashable that is equal for values that Spark groups together."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else ("number", value + 0.0)
    if isinstance(value, dict):
        return tuple((name, same_key(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return ("list", *(same_key(inner) for inner in value))
    return (type(value).__name__, value)


def sort_key(value: Any) -> Any:
    """Return something that sorts as Spark orders values: null first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, dict):
        return (1, *(sort_key(inner) for inner in value.values()))
    if isinstance(value, list):
        return (1, tuple(sort_key(inner) for inner in value))
    return (1, value)


def values_by_key(keys: Sequence[Any], *columns: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the rows of each key, a bare value where there is one column; no row with a null."""
    rows: dict[Any, list[Any]] = defaultdict(list)
    for key, *row in zip(keys, *columns, strict=True):
        present = rows[key]
        if None not in row:
            present.append(row[0] if len(row) == 1 else tuple(row))
    return rows


def aggregate(
    aggregation: Aggregation, keys: Sequence[int], columns: Sequence[pa.Array], seed: int
) -> dict[int, Any]:
    """Return each key's result: records cut and partial results merged as the seed says."""
    chance = random.Random(seed)
    order = list(range(len(keys)))
    chance.shuffle(order)
    cuts = sorted(chance.choices(range(len(keys) + 1), k=chance.randrange(5)))
    # Not by `take`, which does not know every type.
    moved = [pa.array([column[i].as_py() for i in order], column.type) for column in columns]
    moved_keys = pa.array([keys[i] for i in order], pa.int64())
    input_types = [column.type for column in columns]
    types = aggregation.state_types(input_types)
    partials = []
    for begin, end in zip([0, *cuts], [*cuts, len(keys)], strict=True):
        part_keys = moved_keys.slice(begin, end - begin)
        groups = group([part_keys])
        parts = [column.slice(begin, end - begin) for column in moved]
        states = aggregation.update(parts, groups.codes, groups.n_groups)
        partials.append(_table(part_keys.take(pa.array(groups.first)), states, types))
    while True:
        chance.shuffle(partials)
        some = pa.concat_tables(partials[:3]).combine_chunks()
        partials = [_merged(aggregation, some, types), *partials[3:]]
        if len(partials) == 1:
            break
    states = [column.combine_chunks() for column in partials[0].columns[1:]]
    results = aggregation.finish(states)
    assert results.type == aggregation.result_type(input_types)
    return dict(zip(partials[0]["key"].to_pylist(), results.to_pylist(), strict=True))


def _table(keys: Any, states: Sequence[Any], types: Sequence[pa.DataType]) -> pa.Table:
    assert [state.type for state in states] == list(types)
    assert all(len(state) == len(keys) for state in states)
    return pa.table([keys, *states], names=["key", *(f"state {i}" for i in range(len(states)))])


def _merged(aggregation: Aggregation, table: pa.Table, types: Sequence[pa.DataType]) -> pa.Table:
    columns = [column.combine_chunks() for column in table.columns]
    groups = group(columns[:1])
    states = aggregation.merge(columns[1:], groups.codes, groups.n_groups)
    return _table(columns[0].take(pa.array(groups.first)), states, types)


def codes_of(*codes: int) -> Any:
    """Return group codes."""
    return np.array(codes, np.int64)
