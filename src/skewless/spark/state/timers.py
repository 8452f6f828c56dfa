"""Timers: times in a list of the state. The earliest one fires when the watermark passes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.aggregations.columns import list_lengths, plain
from skewless.arrays import Ints
from skewless.spark.state.versions.state_tables import FOREVER, NO_TIME


def earliest(states: Any, field: str | None, after: Any = NO_TIME) -> Ints:
    """Return the earliest timer of each state that is later than `after`, in microseconds.

    The largest number if there is none.

    >>> moments = pa.array([[5, 3, None], [], None], pa.list_(pa.timestamp("us", "UTC")))
    >>> states = pa.StructArray.from_arrays([moments], ["at"])
    >>> (earliest(states, "at") == [3, FOREVER, FOREVER]).tolist()
    [True, True, True]
    """
    found = np.full(len(states), FOREVER)
    if field is not None and len(states):
        owners, times = _listed(states, field)
        is_later = times > np.broadcast_to(after, found.size)[owners]
        np.minimum.at(found, owners[is_later], times[is_later])
    return found


def without(states: Any, field: str, fired: Ints) -> Any:
    """Return states without the timers that have `fired`, a time for each state, and nulls."""
    owners, times = _listed(states, field)
    stay = times != fired[owners]
    counts = np.bincount(owners[stay], minlength=len(states))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    place = states.type.get_field_index(field)
    kind = states.type[place].type
    values = pa.array(times[stay]).cast(pa.timestamp("us")).cast(kind.value_type)
    fields = states.flatten()
    fields[place] = pa.ListArray.from_arrays(offsets, values).cast(kind)
    return pa.StructArray.from_arrays(fields, fields=list(states.type), mask=states.is_null())


def _listed(states: Any, field: str) -> tuple[Ints, Ints]:
    """Return all timers: the number of the state, and the time in microseconds."""
    lists = states.flatten()[states.type.get_field_index(field)]
    owners: Ints = np.repeat(np.arange(len(states)), list_lengths(lists))
    values = plain(pc.list_flatten(lists)).cast(pa.int64())
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    times: Ints = values.fill_null(0).to_numpy(zero_copy_only=False)
    return owners[valid], times[valid]
