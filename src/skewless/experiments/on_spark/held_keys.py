"""Keyed state by the number of keys that are held: what a micro-batch costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from skewless.experiments.tables import Row, markdown, range_of

HEADINGS = (
    "files of the state",
    "keys held",
    "keys touched",
    "CPU seconds per micro-batch",
    "to the fewest keys held",
    "lowest to highest",
    "rounds",
)


def table(records: Sequence[Row]) -> str:
    """Return one line per number of keys; ratios are within one round."""
    rows = []
    for cold in (False, True):
        seconds: dict[int, dict[int, float]] = {}
        for record in records:
            if record["cold"] == cold:
                seconds.setdefault(record["held"], {})[record["round"]] = record["seconds"]
        fewest = seconds[min(seconds)]
        for n_held, by_round in sorted(seconds.items()):
            ratios = [by_round[number] / fewest[number] for number in by_round]
            rows.append(
                [
                    "read anew in each micro-batch" if cold else "kept open",
                    f"{n_held:,}",
                    f"{records[0]['touched']:,}",
                    f"{median(by_round.values()):.3f}",
                    f"{median(ratios):.2f}",
                    range_of(ratios),
                    str(len(by_round)),
                ]
            )
    return markdown(HEADINGS, rows)
