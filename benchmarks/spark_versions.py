"""What works on which version of Spark: a table from the records of `make test-versions`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.records import Report, Row, markdown

_SHOWN = {"passed": "yes", "failed": "**no**", "skipped": "not tried"}
#: The order of the lines: a part that is run again alone stays where it is. Others come last.
PARTS = (
    "`route`, batch",
    "`plan_keys`, and `route` by its plan",
    "`join` of tables, `plan_join`",
    "`route`, batch, decided online",
    "`aggregate`, batch, ready aggregations",
    "`aggregate`, batch, own aggregators and windows",
    "`aggregate`, batch, zero/reduce/merge/finish",
    "`aggregate`, stream, ready aggregations, ledger and restart",
    "`aggregate`, stream, own aggregators, ledger and restart",
    "`hot_keys`, `observe_hot_keys`",
    "`hot_keys(…).apply`",
    "`process`, stream, ledger and restart",
    "continuous processing and real-time mode: refused",
)
_MODES = {"classic": "classic", "connect": "Connect"}


def table(records: Sequence[Row]) -> str:
    """Return one line per part of skewless, and a column per version and kind of session.

    >>> route = {"spark": "4.1.4", "mode": "classic", "part": "`route`", "outcome": "passed"}
    >>> print(table([route]))
    | | 4.1.4, classic |
    | --- | ---: |
    | `route` | yes |
    """
    columns = sorted({(_numbers(r["spark"]), r["spark"], r["mode"]) for r in records})
    found = dict.fromkeys(record["part"] for record in records)
    parts = [part for part in PARTS if part in found]
    parts += [part for part in found if part not in PARTS]
    ended = {(r["spark"], r["mode"], r["part"]): r["outcome"] for r in records}
    headings = [f"{spark}, {_MODES[mode]}" for _, spark, mode in columns]
    rows = [
        [part, *(_SHOWN[ended.get((spark, mode, part), "skipped")] for _, spark, mode in columns)]
        for part in parts
    ]
    shown = markdown(["", *headings], rows).replace("|  |", "| |", 1)
    interpreted = sorted({r["spark"] for r in records if not r.get("compiled", True)}, key=_numbers)
    if interpreted:
        shown += f"\n\nKernels were interpreted, not compiled, on {', '.join(interpreted)}."
    return shown


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, so that 4.10 comes after 4.9.

    >>> _numbers("4.10.0.dev1") > _numbers("4.9.3")
    True
    """
    return tuple(int(part) for part in version.split(".") if part.isdigit())


REPORT = Report("spark_versions.jsonl", {("docs/guides/platforms.md", "spark versions"): table})
