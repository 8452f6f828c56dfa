"""The clock of a simulation: when each record leaves its source, is served, and is done.

A kernel goes from record to record in the order of virtual time. The next source is the one whose
next record is due first; a heap of sources finds it. All that is needed of the past is when each
worker will be free, when the last records of its queue were taken out of it, and when the records
under way will be done: workers serve in order, so a record that comes later changes none of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I32, I64, U64, Floats, Ints, SmallInts
from skewless.kernels.hashing import draw, to_unit
from skewless.kernels.sorting import sift
from skewless.plumbing.compiling import kernel
from skewless.simulator.timed.under_way import Parked, Times, drop_first, note, park

ARRIVALS = ("full", "even", "poisson")
FULL, _EVEN, _POISSON = range(3)


class Queues(NamedTuple):
    """Workers, sources, and what is under way."""

    free: Floats  # by worker: when it will be free
    capacities: Floats  # by worker
    begun: Floats  # [worker, place]: when the last records were taken out of its queue
    place: Ints  # by worker: of the oldest of these
    busy: Floats  # by worker: seconds of service since it was last cleared
    served: Ints  # by worker: records since it was last cleared
    due: Floats  # by source: when its next record may leave
    heap: SmallInts  # the sources; the one that is due first is in front
    n_heap: Ints  # [1] sources that still have records
    emitted: Ints  # by source: records so far
    arrived: Floats  # by source: when its next record arrives
    under_way: Floats  # [source, …]: a heap of the times at which its records will be done
    n_under_way: Ints  # by source


class Batch(NamedTuple):
    """Records that have a worker, in the order of the stream; sources take turns in it."""

    workers: SmallInts
    costs: Floats  # seconds on a worker of capacity 1
    windows: Ints  # the window of each record
    until: Floats  # before which it may not leave, because its key has no state yet
    head: Ints  # by source: the place of its next record, which may not be there yet
    end: Ints  # [1] behind the last record


class Rules(NamedTuple):
    """The numbers of a `Timing` that the kernel needs."""

    arrivals: Any
    gap: Any  # mean seconds between two arrivals at one source
    emit: Any
    pending: Any
    exponential: Any
    seed: Any


@kernel
def _sift_down(heap: SmallInts, n: I64, due: Floats) -> None:
    """Restore the order of a heap of sources whose first one has a later time now."""
    i = 0
    moving = heap[0]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        right = child + 1
        if right < n and _before(heap[right], heap[child], due):
            child = right
        if not _before(heap[child], moving, due):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = moving


@kernel
def _before(one: I32, other: I32, due: Floats) -> bool:
    """Return whether a source comes first; among equals the one with the lower number does."""
    first, second = due[one], due[other]
    return bool(first < second or (first == second and one < other))


@kernel
def _push(heap: Floats, n: I64, time: F64) -> None:
    """Put a time into a heap of n times."""
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= time:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = time


@kernel
def _exponential(seed: U64, number: I64) -> F64:
    """Return draw `number` of an exponential distribution with mean 1."""
    return -np.log(1.0 - to_unit(draw(seed, number)))


@kernel
def next_arrival(queues: Queues, rules: Rules, source: I64, n_sources: I64) -> F64:
    """Return when the next record of a source arrives there."""
    if rules.arrivals == FULL:
        return 0.0
    number = queues.emitted[source]
    if rules.arrivals == _POISSON:
        before = queues.arrived[source] if number > 0 else 0.0
        return before + rules.gap * _exponential(rules.seed, number * n_sources + source)
    return (number * n_sources + source) * (rules.gap / n_sources)


@kernel
def _serve(queues: Queues, worker: I64, arrival: F64, cost: F64) -> F64:
    """Put a record into the queue of a worker, and return when it is done."""
    begin = max(arrival, queues.free[worker])
    seconds = cost / queues.capacities[worker]
    queues.free[worker] = begin + seconds
    place = queues.place[worker]
    queues.begun[worker, place] = begin
    queues.place[worker] = place + 1 if place + 1 < queues.begun.shape[1] else 0
    queues.busy[worker] += seconds
    queues.served[worker] += 1
    return begin + seconds


@kernel
def _may_send_again(queues: Queues, rules: Rules, source: I64, done: F64) -> F64:
    """Note when a record will be done; return when a source may have another one under way."""
    under_way = queues.under_way[source]
    n = queues.n_under_way[source]
    if n < rules.pending:
        _push(under_way, n, done)
        queues.n_under_way[source] = n + 1
        return under_way[0] if n + 1 == rules.pending else 0.0
    under_way[0] = done  # instead of the least
    sift(under_way, 0, n)
    return under_way[0]


@kernel
def _serve_parked(queues: Queues, parked: Parked, times: Times) -> None:
    """Send the record that may leave first; it has waited, so a full queue takes it."""
    row = parked.rows[0]
    begin = row["until"]
    done = _serve(queues, row["worker"], begin, row["cost"])
    note(times, row["window"], begin, done, done - row["born"])
    drop_first(parked)


@kernel
def _next_record(queues: Queues, batch: Batch, rules: Rules, source: I64, time: F64) -> None:
    """Advance a source, which sent a record at `time`, to its next one."""
    batch.head[source] += batch.head.size
    queues.emitted[source] += 1
    queues.arrived[source] = next_arrival(queues, rules, source, queues.due.size)
    queues.due[source] = max(time + rules.emit, queues.arrived[source])
    _sift_down(queues.heap, queues.n_heap[0], queues.due)


@kernel
def advance(
    queues: Queues,
    batch: Batch,
    parked: Parked,
    times: Times,
    rules: Rules,
    to_the_end: bool,
) -> None:
    """Send records until a source has none left, or, to the end, until none is left at all.

    A source without records may have further ones later, which may be due before those of other
    sources. So nothing can be said about what comes after.
    """
    n_sources = queues.due.size
    while queues.n_heap[0] > 0:
        source = queues.heap[0]
        if parked.size[0] > 0 and parked.rows[0]["until"] <= queues.due[source]:
            _serve_parked(queues, parked, times)
            continue
        i = batch.head[source]
        if i >= batch.end[0]:
            if not to_the_end:
                return
            queues.n_heap[0] -= 1
            queues.heap[0] = queues.heap[queues.n_heap[0]]
            _sift_down(queues.heap, queues.n_heap[0], queues.due)
            continue
        window = batch.windows[i]
        if times.gate[window] > queues.due[source]:
            queues.due[source] = times.gate[window]  # others may come first now
            _sift_down(queues.heap, queues.n_heap[0], queues.due)
            continue
        worker = batch.workers[i]
        cost = batch.costs[i]
        if rules.exponential:
            cost *= _exponential(~rules.seed, queues.emitted[source] * n_sources + source)
        wanted = queues.due[source]
        arrived = queues.arrived[source]
        if batch.until[i] > wanted:
            born = wanted if rules.arrivals == FULL else arrived
            park(parked, batch.until[i], worker, cost, window, born)
            _next_record(queues, batch, rules, source, wanted)
            continue
        # Sources that find no room wait in line: the next place is for the one that came first.
        time = max(wanted, queues.begun[worker, queues.place[worker]])
        done = _serve(queues, worker, time, cost)
        note(times, window, time, done, done - (time if rules.arrivals == FULL else arrived))
        if rules.pending > 0:
            time = max(time, _may_send_again(queues, rules, source, done) - rules.emit)
        _next_record(queues, batch, rules, source, time)
    while to_the_end and parked.size[0] > 0:
        _serve_parked(queues, parked, times)


def with_records(before: Batch, *columns: NDArray[Any]) -> Batch:
    """Return the batch with new records behind the others; `columns` are its first fields.

    Its arrays are used again while they have room. If they have none, records that were sent go.
    """
    batch, n_new = before, columns[0].size
    if before.end[0] + n_new > before.workers.size:
        left = slice(int(min(before.head.min(), before.end[0])), int(before.end[0]))
        n_left = left.stop - left.start
        room = np.zeros(n_left + 2 * n_new)
        arrays = [np.concatenate([old[left], room.astype(old.dtype)]) for old in before[:-2]]
        batch = Batch._make([*arrays, before.head - left.start, before.end - left.start])
    first = int(batch.end[0])
    for name, values in zip(Batch._fields[:-2], columns, strict=True):
        getattr(batch, name)[first : first + n_new] = values
    batch.end[0] += n_new
    return batch
