"""Records that were sent to workers that will fail: only later is it known which of them are done.

A worker serves in order, so the time at which a record will be done is known as soon as it is sent,
and it is counted at once. Where the worker may fail before, counting waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I32, I64, U64, Ints, Rows
from skewless.plumbing.compiling import kernel
from skewless.simulator.timed.measuring import Times, note
from skewless.simulator.timed.parking import longer

SENT = np.dtype(
    [
        ("worker", "i4"),
        ("source", "i4"),
        ("window", "i8"),
        ("number", "i8"),  # of the record at its source; −1 for one that had been parked
        ("wanted", "f8"),  # when its source wanted to send it
        ("begin", "f8"),  # when it was sent
        ("done", "f8"),  # when it will be done
        ("born", "f8"),  # when it arrived at its source
        ("cost", "f8"),
        ("key", "u8"),
    ]
)


class InFlight(NamedTuple):
    """The records in the order in which they were sent, and which workers will fail."""

    rows: Rows
    size: Ints  # [1]
    fails: Ints  # by worker: how often it will fail


def none_in_flight(n_workers: int) -> InFlight:
    """Return no records; no worker will fail."""
    return InFlight(np.empty(0, SENT), np.zeros(1, np.int64), np.zeros(n_workers, np.int64))


def with_room(before: InFlight, n_more: int) -> InFlight:
    """Return the same with room for this many records more."""
    size = int(before.size[0])
    if not before.fails.any() or size + n_more <= before.rows.size:
        return before
    return before._replace(rows=longer(before.rows[:size], n_more))


def without(before: InFlight, gone: NDArray[np.bool_]) -> InFlight:
    """Return the same without some of the records."""
    rows = before.rows[: int(before.size[0])][~gone]
    before.size[0] = rows.size
    return before._replace(rows=rows)


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
    row = flight.rows[flight.size[0]]
    row["worker"] = worker
    row["window"] = window
    row["source"] = source
    row["number"] = number
    row["wanted"] = wanted
    row["begin"] = begin
    row["done"] = done
    row["born"] = born
    row["cost"] = cost
    row["key"] = key
    flight.size[0] += 1


@kernel
def settle(flight: InFlight, times: Times, now: F64, window: I64) -> None:
    """Count the records that are done now, and all of the first windows, up to `window`."""
    kept = 0
    for i in range(flight.size[0]):
        row = flight.rows[i]
        if row["done"] <= now or row["window"] <= window:
            note(times, row["window"], row["begin"], row["done"], row["done"] - row["born"])
            continue
        flight.rows[kept] = row
        kept += 1
    flight.size[0] = kept
