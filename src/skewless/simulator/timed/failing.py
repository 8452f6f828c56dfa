"""A worker fails: what it had, what was meant for it, and the sources that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Rows, SmallInts, Workers
from skewless.simulator.timed import in_flight, parking
from skewless.simulator.timed.in_flight import InFlight
from skewless.simulator.timed.measuring import Times
from skewless.simulator.timed.parking import Parked
from skewless.simulator.timed.queueing import FULL, Batch, Queues, Rules


class Outcome(NamedTuple):
    """What a failure left behind."""

    parked: Parked
    flight: InFlight
    windows: Ints  # of the records that the worker had
    rerouted_windows: Ints
    rerouted_keys: Keys
    rerouted_workers: Workers


class _Again(NamedTuple):
    """Records that need another worker."""

    keys: Keys
    costs: Floats
    sources: SmallInts
    windows: Ints


def fail(
    worker: int,
    queues: Queues,
    batch: Batch,
    parked: Parked,
    flight: InFlight,
    times: Times,
    rules: Rules,
    reroute: Callable[[Keys, Floats, SmallInts], Workers],
    *,
    now: float,
    replay: bool,
) -> Outcome:
    """Empty the queue of a worker, and send on what can be sent on.

    A record that its source had sent is lost, or sent again now. A record that its source has not
    sent yet, because there was no room or because it is not its turn, goes to another worker.
    """
    sent = flight.rows[: int(flight.size[0])]
    mine = sent["worker"] == worker
    unsent = mine & (sent["begin"] > now)
    had = mine & ~unsent
    again = mine if replay else unsent
    _release_sources(queues, sent[unsent], rules, now)
    windows: Ints = sent["window"][had]
    if not replay:
        np.add.at(times.done, windows, 1)
        np.minimum.at(times.first, windows, sent["begin"][had])
        np.maximum.at(times.last, windows, now)
    at = np.flatnonzero(again)
    held = np.flatnonzero(parked.rows["worker"][: int(parked.size[0])] == worker)
    coming, sources = _coming(batch, worker)
    parts = (
        _again(sent[at]),
        _again(parked.rows[held]),
        _Again(batch.keys[coming], batch.costs[coming], sources, batch.windows[coming]),
    )
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _Again._fields
    }
    records = _Again(**columns)
    workers = reroute(records.keys, records.costs, records.sources)
    first, second, third = np.split(workers, [at.size, at.size + held.size])
    parked.rows["worker"][held] = second
    batch.workers[coming] = third
    parked = parking.with_room(parked, at.size)
    leave = np.where(unsent[at], np.maximum(sent["wanted"][at], now), now)
    born = sent["born"][at]
    if rules.arrivals == FULL:  # latency counts from when a record leaves
        born = np.where(unsent[at], leave, born)
    for row, until, new, since in zip(sent[at], leave, first, born, strict=True):
        parking.park(
            parked, until, new, row["cost"], row["window"], since, row["key"], row["source"]
        )
    queues.free[worker] = now
    queues.begun[worker] = -np.inf
    queues.place[worker] = 0
    flight.fails[worker] -= 1
    flight = in_flight.without(flight, mine)
    return Outcome(parked, flight, windows, records.windows, records.keys, workers)


def _again(rows: Rows) -> _Again:
    return _Again(rows["key"], rows["cost"], rows["source"], rows["window"])


def _release_sources(queues: Queues, unsent: Rows, rules: Rules, now: float) -> None:
    """Release the sources that wait for room at the worker."""
    for row in unsent:
        source = row["source"]
        if row["number"] != queues.emitted[source] - 1:
            continue  # it is not what the source waits for
        free = max(float(row["wanted"]), now) + rules.emit
        if rules.pending and queues.n_under_way[source] == rules.pending:
            free = max(free, float(queues.under_way[source, 0]))
        queues.due[source] = max(free, float(queues.arrived[source]))


def _coming(batch: Batch, worker: int) -> tuple[Ints, SmallInts]:
    """Return where the batch has records for a worker, and their sources."""
    places: list[Ints] = [np.empty(0, np.int64)]
    sources: list[SmallInts] = [np.empty(0, np.int32)]
    for source, (head, end) in enumerate(zip(batch.head, batch.end, strict=True)):
        found = head + np.flatnonzero(batch.workers[head:end] == worker)
        places.append(found)
        sources.append(np.full(found.size, source, np.int32))
    return np.concatenate(places), np.concatenate(sources)
