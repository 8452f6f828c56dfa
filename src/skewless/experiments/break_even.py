"""The table of break-even costs: what a key must cost on a worker before routing by it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skewless.experiments.alternatives import ALIKE, OURS
from skewless.experiments.tables import Row, markdown

#: Costs of a key on each worker that has it, in seconds.
PER_PAIR = tuple(10.0 ** (step / 4) for step in range(-24, 1))


def first_that_pays(times: Sequence[Mapping[str, float]]) -> int | None:
    """Return from where on ours is the fastest by more than chance, to the end; None: never.

    `times` has the seconds of each job, by its name, for costs that grow.

    >>> slow, fast = {"cascade-ahead": 2.0, "hash": 2.0}, {"cascade-ahead": 1.0, "hash": 2.0}
    >>> first_that_pays([fast, slow, fast, fast]), first_that_pays([slow])
    (2, None)
    """
    found = None
    for number in reversed(range(len(times))):
        others = [seconds for job, seconds in times[number].items() if job != OURS]
        if min(others) <= ALIKE * times[number][OURS]:
            break
        found = number
    return found


def best_other_before(times: Sequence[Mapping[str, float]], first: int | None) -> str:
    """Return the fastest job but ours at the last cost before ours pays, at the highest if never.

    >>> slow = {"cascade-ahead": 1.0, "hash": 1.2, "salt-4": 1.1}
    >>> fast = {"cascade-ahead": 1.0, "hash": 2.0, "salt-4": 3.0}
    >>> best_other_before([slow, fast], 1), best_other_before([slow], None)
    ('salt-4', 'salt-4')
    """
    before = times[max((len(times) if first is None else first) - 1, 0)]
    return min((job for job in before if job != OURS), key=lambda job: before[job])


def table(records: Sequence[Row]) -> str:
    """Return a row per cost of a record and number of slots, and a column per stream."""
    streams = list(dict.fromkeys(record["stream"] for record in records))
    rows: dict[tuple[float, int], dict[str, str]] = {}
    for record in records:
        row = rows.setdefault((record["per_record"], record["slots"]), {})
        row[record["stream"]] = _cell(record)
    return markdown(
        ["a record costs", "slots", *streams],
        [
            [_duration(per_record), slots, *(row.get(stream, "–") for stream in streams)]
            for (per_record, slots), row in rows.items()
        ],
    )


def _cell(record: Row) -> str:
    if record["per_pair"] is None:
        return "never"
    return f"{_duration(record['per_pair'])} ({record['before']})"


def _duration(seconds: float) -> str:
    """Return seconds in a unit that suits them.

    >>> _duration(0.0056), _duration(0.0)
    ('5.6 ms', '0')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return "0"
