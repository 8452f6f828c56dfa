"""Records that were sent to workers that will fail: only later is it known which of them are done.

A worker serves in order, so the time at which a record will be done is known as soon as it is sent,
and it is counted at once. Where the worker may fail before, counting waits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, SmallInts
from skewless.plumbing.compiling import kernel
from skewless.simulator.timed.measuring import Times, note


class InFlight(NamedTuple):
    """The records in the order in which they were sent, and which workers will fail."""

    workers: SmallInts
    windows: Ints
    sources: SmallInts
    numbers: Ints  # of the record at its source; −1 for one that had been parked
    wanted: Floats  # when its source wanted to send it
    begin: Floats  # when it was sent
    done: Floats  # when it will be done
    born: Floats  # when it arrived at its source
    costs: Floats
    keys: Keys
    size: Ints  # [1]
    fails: Ints  # by worker: how often it will fail


#: What there is of each record.
_COLUMNS = tuple(name for name in InFlight._fields if name not in ("size", "fails"))


def none_in_flight(n_workers: int) -> InFlight:
    """Return no records; no worker will fail."""
    small: SmallInts = np.empty(0, np.int32)
    whole: Ints = np.empty(0, np.int64)
    times = np.empty(0)
    return InFlight(
        workers=small,
        windows=whole,
        sources=small,
        numbers=whole,
        wanted=times,
        begin=times,
        done=times,
        born=times,
        costs=times,
        keys=np.empty(0, np.uint64),
        size=np.zeros(1, np.int64),
        fails=np.zeros(n_workers, np.int64),
    )


def with_room(before: InFlight, n_more: int) -> InFlight:
    """Return the same with room for this many records more."""
    size = int(before.size[0])
    if not before.fails.any() or size + n_more <= before.done.size:
        return before

    def longer(column: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([column[:size], np.zeros(n_more, column.dtype)])

    columns: dict[str, Any] = {name: longer(getattr(before, name)) for name in _COLUMNS}
    return before._replace(**columns)


def without(before: InFlight, gone: NDArray[np.bool_]) -> InFlight:
    """Return the same without some of the records."""
    size = int(before.size[0])
    columns: dict[str, Any] = {name: getattr(before, name)[:size][~gone] for name in _COLUMNS}
    kept = before._replace(**columns)
    kept.size[0] = kept.done.size
    return kept


@kernel
def remember(
    flight: InFlight,
    worker: I32,
    window: I64,
    source: I32,
    number: I64,
    wanted: F64,
    begin: F64,
    done: F64,
    born: F64,
    cost: F64,
    key: U64,
) -> None:
    """Note a record that was sent to a worker that will fail."""
    i = flight.size[0]
    flight.workers[i] = worker
    flight.windows[i] = window
    flight.sources[i] = source
    flight.numbers[i] = number
    flight.wanted[i] = wanted
    flight.begin[i] = begin
    flight.done[i] = done
    flight.born[i] = born
    flight.costs[i] = cost
    flight.keys[i] = key
    flight.size[0] = i + 1


@kernel
def settle(flight: InFlight, times: Times, now: F64, window: I64) -> None:
    """Count the records that are done now, and all of the first windows, up to `window`."""
    kept = 0
    for i in range(flight.size[0]):
        if flight.done[i] <= now or flight.windows[i] <= window:
            latency = flight.done[i] - flight.born[i]
            note(times, flight.windows[i], flight.begin[i], flight.done[i], latency)
            continue
        if kept < i:
            flight.workers[kept] = flight.workers[i]
            flight.windows[kept] = flight.windows[i]
            flight.sources[kept] = flight.sources[i]
            flight.numbers[kept] = flight.numbers[i]
            flight.wanted[kept] = flight.wanted[i]
            flight.begin[kept] = flight.begin[i]
            flight.done[kept] = flight.done[i]
            flight.born[kept] = flight.born[i]
            flight.costs[kept] = flight.costs[i]
            flight.keys[kept] = flight.keys[i]
        kept += 1
    flight.size[0] = kept
