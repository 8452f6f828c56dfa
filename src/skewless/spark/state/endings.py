"""When states end: by `expires`, by timers, or by the ttl. They come in the order of their times.

Timers are times in a list of the state. The earliest one fires when the watermark passes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import exploded, lists, without_nulls
from skewless.arrays import Ints
from skewless.spark.state.outcomes import Part
from skewless.spark.state.schemas import EXPIRES, Shape
from skewless.spark.state.versions import state_tables
from skewless.spark.state.versions.state_tables import FOREVER, LIVE, NO_TIME, hashes_of, later

if TYPE_CHECKING:
    from skewless.spark.state.worker_step import Work

#: While states end: columns with their last `expires` that came, and the last timer that fired.
_LAST = ("last_expires", "last_timer")


def ended(work: Work, due: pa.Table, now: int | None, at_once: int) -> Part:
    """Return the outcome for states that have expired, by `expires`, a timer or the ttl.

    They come in the order of their times, even if the watermark has passed several. A state
    that is kept may end again by `now`, up to `at_once` times. An `expires` must be later than
    the last one that came, and a timer later than the last one that fired: otherwise a state
    would come here without end. Earlier ones wait for the next micro-batch.
    """
    layout, limit = work.layout.heads, NO_TIME if now is None else now
    calls: list[tuple[pa.Table, Part]] = []
    tables: list[pa.Table] = []
    due, n_rounds = _with_last(due, *[np.full(due.num_rows, NO_TIME)] * 2), 0
    while due.num_rows:
        last = [state_tables.values_of(due, name) for name in _LAST]
        expires, fires = _next(work.shape, layout.states(due), *last)
        idle_from = _idle_from(work.shape, state_tables.values_of(due, state_tables.SEEN))
        own = np.minimum(expires, fires) <= np.minimum(idle_from, limit)
        gone = due.filter(pa.array(~own & (idle_from <= limit)))
        tables.append(state_tables.forgotten(layout, gone))
        if n_rounds == at_once or not own.any():
            break
        n_rounds += 1
        left = []
        for by_timer, which in enumerate((own & (expires < fires), own & (fires <= expires))):
            if not which.any():
                continue
            chosen, times = due.filter(pa.array(which)), (expires, fires)[by_timer][which]
            call = _ending(work, chosen, times if by_timer else None, now)
            calls.append((chosen, call))
            tables.append(call.changed)
            known = [one[which] for one in last]
            known[by_timer] = times
            left.append(_with_last(call.changed, *known))
        due = layout.newest(left)
        due = due.filter(due.column(LIVE))
    changed = layout.newest(tables)
    nothing, costs = np.zeros(changed.num_rows, np.int64), np.zeros(changed.num_rows)
    for chosen, call in calls:
        costs[layout.find(changed, hashes_of(chosen), layout.keys(chosen))] += call.costs
    results = [call.results for _, call in calls] or [work.shape.result_arrow.empty_table()]
    seconds = sum(call.seconds for _, call in calls)
    whole = pa.concat_tables(results)
    return Part(whole, changed, nothing, nothing, costs, seconds, n_rounds)


def _ending(work: Work, rows: pa.Table, fired: Ints | None, now: int | None) -> Part:
    """Call the processor for states that end; `fired` are the times of timers."""
    layout, hashes = work.layout.heads, hashes_of(rows)
    keyed = work.without_records(hashes, layout.keys(rows), layout.states(rows), now)
    method = work.shape.processor.on_expiry
    if fired is not None and work.shape.timers is not None:
        states = without(keyed.states, work.shape.timers, fired)
        times = pa.array(fired).cast(pa.timestamp("us", "UTC"))
        keyed = replace(keyed, states=states, times=times)
        method = work.shape.processor.on_timer
    # Expiry does not count as a record: the ttl counts from the last record.
    return work.called(keyed, hashes, state_tables.values_of(rows, state_tables.SEEN), method)


def _with_last(table: pa.Table, expired: Ints, fired: Ints) -> pa.Table:
    for name, times in zip(_LAST, (expired, fired), strict=True):
        table = table.append_column(name, pa.array(times))
    return table


def until(shape: Shape, states: Any, seen: Ints) -> Ints:
    """Return the ends of states in microseconds, by what comes first."""
    ends: Ints = np.minimum(np.minimum(*_next(shape, states)), _idle_from(shape, seen))
    return ends


def _next(
    shape: Shape, states: Any, expired: Any = NO_TIME, fired: Any = NO_TIME
) -> tuple[Ints, Ints]:
    """Return the `expires` of states and their earliest timers, both later than the last ones."""
    fires = earliest(states, shape.timers, fired)
    if EXPIRES not in shape.state.names:
        return np.full(len(states), FOREVER), fires
    column = states.flatten()[shape.state.names.index(EXPIRES)].cast(pa.int64())
    ends = column.fill_null(FOREVER).to_numpy(zero_copy_only=False)
    return np.where(ends > expired, ends, FOREVER), fires


def _idle_from(shape: Shape, seen: Ints) -> Ints:
    """Return the ends of states by the ttl, if no record comes."""
    ends = np.full(seen.size, FOREVER)
    if shape.ttl is not None:
        known = seen != NO_TIME
        ends[known] = later(seen[known], shape.ttl)
    return ends


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
    place = states.type.get_field_index(field)
    kind = states.type[place].type
    values = pa.array(times[stay]).cast(pa.timestamp("us")).cast(kind.value_type)
    fields = states.flatten()
    fields[place] = lists(values, owners[stay], len(states)).cast(kind)
    return pa.StructArray.from_arrays(fields, fields=list(states.type), mask=states.is_null())


def _listed(states: Any, field: str) -> tuple[Ints, Ints]:
    """Return all timers: the number of the state, and the time in microseconds."""
    column = states.flatten()[states.type.get_field_index(field)]
    times, owners = without_nulls(*exploded(column, np.arange(len(states))))
    return owners, times.cast(pa.int64()).to_numpy()
