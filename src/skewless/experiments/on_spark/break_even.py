"""The table of break-even costs: what a key costs on a worker where routing by it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skewless.experiments.on_spark.alternatives import OURS
from skewless.experiments.tables import Row, markdown
from skewless.rounding import seconds_text
from skewless.spark.diagnosis.costs import ALIKE

#: Costs of a key on each worker that has it, in seconds.
PER_PAIR = tuple(round(10.0 ** (step / 6), 9) for step in range(-36, 7))


def costs_that_pay(times: Sequence[Mapping[str, float]]) -> tuple[int, int] | None:
    """Return the first and the last place where ours is the fastest by more than chance, or None.

    `times` has the seconds of each job, by its name, for costs that grow.

    >>> slow, fast = {"cascade-ahead": 2.0, "hash": 2.0}, {"cascade-ahead": 1.0, "hash": 2.0}
    >>> costs_that_pay([slow, fast, fast, slow]), costs_that_pay([slow])
    ((1, 2), None)
    """
    found = [number for number, one in enumerate(times) if best_other(one)[1] > ALIKE * one[OURS]]
    return (found[0], found[-1]) if found else None


def best_other(times: Mapping[str, float]) -> tuple[str, float]:
    """Return the fastest job that is not ours, and its seconds."""
    name = min((job for job in times if job != OURS), key=lambda job: times[job])
    return name, times[name]


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
            [seconds_text(per_record), slots, *(row.get(stream, "–") for stream in streams)]
            for (per_record, slots), row in rows.items()
        ],
    )


def _cell(record: Row) -> str:
    if record["from"] is None:
        return "never"
    begin = f"{seconds_text(record['from'])} ({record['below']})"
    if record["to"] >= PER_PAIR[-1]:
        return f"from {begin} on"
    return f"{begin} – {seconds_text(record['to'])} ({record['above']})"
