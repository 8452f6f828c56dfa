"""Test support: what the ready operators return, by plain and slow Python.

A span, a delay, `n` or `how` may be a list with one for each micro-batch: restarts change them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark.state.chains import in_order
from spark.state.operators.stepping import Record, each, with_watermarks

Rows = list[list[tuple[Any, ...]]]


def deduplicated(batches: Sequence[Sequence[Record]], within: Any, delay: Any) -> Rows:
    """Return the records that no returned one of the same key is near to, for each micro-batch."""
    returned: dict[Any, list[int]] = {}
    found = []
    marked = with_watermarks(batches, delay, lambda record: record[2])
    for (watermark, batch), span in zip(marked, each(within, batches), strict=True):
        for key, times in returned.items():
            returned[key] = [time for time in times if time + span > watermark]
        rows = [record for record in batch if record[2] is None]
        known = [r for r in batch if r[2] is not None and r[2] > watermark]
        for record in sorted(known, key=lambda record: record[2]):
            key, _, time = record
            if all(abs(time - other) > span for other in returned.get(key, [])):
                rows.append(record)
                returned.setdefault(key, []).append(time)
        found.append(in_order(rows))
    return found


def sessioned(batches: Sequence[Sequence[Record]], gap: int, delay: Any) -> Rows:
    """Return (key, start, end, records, sum of values) of each session that is over."""
    open_ones: dict[Any, list[tuple[int, int, int, int]]] = {}
    found = []
    for watermark, batch in with_watermarks(batches, delay, lambda record: record[2]):
        rows = []
        for key, own in open_ones.items():
            rows += [(key, *session) for session in own if session[1] <= watermark]
            open_ones[key] = [session for session in own if session[1] > watermark]
        for key, value, time in batch:
            if time is None or time + gap <= watermark:
                continue
            begin, end, count, total = time, time + gap, 1, value
            apart = []
            for session in open_ones.get(key, []):
                if session[0] <= end and begin <= session[1]:
                    begin, end = min(begin, session[0]), max(end, session[1])
                    count, total = count + session[2], total + session[3]
                else:
                    apart.append(session)
            open_ones[key] = [*apart, (begin, end, count, total)]
        found.append(in_order(rows))
    return found


def largest(batches: Sequence[Sequence[Record]], n: Any) -> Rows:
    """Return (key, rank, value, time) for each rank that has another record than before."""
    kept: dict[Any, list[Any]] = {}
    number = 0
    found = []
    for batch, most in zip(batches, each(n, batches), strict=True):
        before = dict(kept)
        for key, value, time in batch:
            kept[key] = [*kept.get(key, []), (number, value, time)]
            number += 1
        rows = []
        for key in {record[0] for record in batch}:
            kept[key] = sorted(kept[key], key=lambda r: (r[1] is None, -(r[1] or 0), r[0]))[:most]
            old = before.get(key, [])
            for rank, record in enumerate(kept[key]):
                if rank >= len(old) or old[rank] != record:
                    rows.append((key, rank + 1, record[1], record[2]))
        found.append(in_order(rows))
    return found


def joined(
    batches: Sequence[tuple[Sequence[Record], Sequence[Record]]],
    within: Any,
    delay: Any,
    how: Any,
    at_end: bool = False,
) -> Rows:
    """Return (key, left value, left time, right value, right time) for each micro-batch.

    With `at_end`, all records without a partner are returned in the last micro-batch.
    """
    kept: tuple[int, ...] = ()
    latest: list[int | None] = [None, None]
    watermark: list[int] = []  # none, or one
    held: list[list[Any]] = [[], []]  # [record, has met another]
    found = []
    for batch, span, behind, chosen in zip(
        batches, *(each(given, batches) for given in (within, delay, how)), strict=True
    ):
        rows = []
        kept = {"inner": (), "left": (0,), "right": (1,), "full": (0, 1)}[chosen]
        if latest[0] is not None and latest[1] is not None:
            now = _whole_millis(min(latest[0], latest[1])) - behind
            watermark = [max([now, *watermark])]
        for side in (0, 1):
            over = [o for o in held[side] if watermark and o[0][2] + span <= watermark[0]]
            held[side] = [one for one in held[side] if not any(one is other for other in over)]
            rows += [_alone(one[0], side) for one in over if side in kept and not one[1]]
        new: list[list[Any]] = [[], []]
        for side in (0, 1):
            for record in batch[side]:
                if record[2] is not None and watermark and record[2] <= watermark[0]:
                    continue
                if record[0] is None or record[2] is None:
                    rows += [_alone(record, side)] if side in kept else []
                else:
                    new[side].append([record, False])
        for a in held[0] + new[0]:
            for b in held[1] + new[1]:
                is_new = any(a is one for one in new[0]) or any(b is one for one in new[1])
                if is_new and a[0][0] == b[0][0] and abs(a[0][2] - b[0][2]) <= span:
                    rows.append((a[0][0], a[0][1], a[0][2], b[0][1], b[0][2]))
                    a[1] = b[1] = True
        held = [held[side] + new[side] for side in (0, 1)]
        found.append(rows)
        for side in (0, 1):
            times = [record[2] for record in batch[side] if record[2] is not None]
            times += [] if latest[side] is None else [latest[side]]
            latest[side] = max(times, default=None)
    if at_end:
        for side in kept:
            found[-1] += [_alone(one[0], side) for one in held[side] if not one[1]]
    return [in_order(rows) for rows in found]


def _alone(record: Record, side: int) -> tuple[Any, ...]:
    key, value, time = record
    return (key, value, time, None, None) if side == 0 else (key, None, None, value, time)


def _whole_millis(micros: int) -> int:
    return micros // 1000 * 1000
