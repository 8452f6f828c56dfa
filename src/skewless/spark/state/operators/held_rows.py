"""Rows that are held per key as lists in a state, and searches by key and time. Arrow and numpy."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import exploded, in_order, lists
from skewless.arrays import Ints
from skewless.spark.state.processor import KeyedRecords
from skewless.spark.state.versions.state_tables import FOREVER, NO_TIME, Flags


def watermark_of(keyed: KeyedRecords) -> int:
    """Return the watermark in microseconds, or the least number if there is none.

    At the end of a batch DataFrame it is later than any time.
    """
    if keyed.watermark is None:
        return NO_TIME
    if keyed.watermark == datetime.max.replace(tzinfo=timezone.utc):
        return FOREVER - 1
    return int(pa.scalar(keyed.watermark, pa.timestamp("us", "UTC")).value)


def held(keyed: KeyedRecords, field: str) -> tuple[Any, Ints]:
    """Return the values of a list in the states of all keys, and the number of the key of each."""
    place = keyed.states.type.get_field_index(field)
    # `flatten` gives null for the fields of a null state, whatever they hold.
    return exploded(keyed.states.flatten()[place], np.arange(len(keyed), dtype=np.int64))


def states_of(fields: dict[str, tuple[Any, Ints]], ends: Ints, codes: Ints, n_keys: int) -> Any:
    """Build states made of lists; each ends when the first of its rows does.

    `fields` has for each list its values, and the number of the key of each; a key's values are in
    order. `ends` says when a row ends, in microseconds, and `codes` has the number of its key. A
    key without rows is forgotten.
    """
    soonest = np.full(n_keys, FOREVER)
    np.minimum.at(soonest, codes, ends)
    empty = np.ones(n_keys, np.bool_)
    empty[codes] = False
    arrays = [lists(values, places, n_keys) for values, places in fields.values()]
    arrays.append(pa.array(soonest).cast(pa.timestamp("us", "UTC")))
    return pa.StructArray.from_arrays(arrays, [*fields, "expires"], mask=pa.array(empty))


class ByKeyAndTime:
    """Rows in the order of key and time, to be searched by key and a span of time."""

    def __init__(self, codes: Ints, times: Ints) -> None:
        self.order = in_order(codes, times)
        self._distinct = np.unique(times)
        # Key and time as one number: a time counts by its place among all times.
        self._width = self._distinct.size + 1
        places = np.searchsorted(self._distinct, times[self.order])
        self._both = codes[self.order] * self._width + places

    def between(self, codes: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return for each key and span, both ends included, where its rows begin and end."""
        low = codes * self._width + np.searchsorted(self._distinct, begin, "left")
        high = codes * self._width + np.searchsorted(self._distinct, end, "right")
        return np.searchsorted(self._both, low, "left"), np.searchsorted(self._both, high, "left")

    def has(self, codes: Ints, begin: Ints, end: Ints) -> Flags:
        """Return for each key and span whether there is a row in it."""
        first, last = self.between(codes, begin, end)
        flags: Flags = last > first
        return flags
