"""Continuous TPC-H Q5 by hash and by Mixed: balance, moves and throughput side by side."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from skewless.experiments.tables import Row, markdown, range_of

#: What is compared; the others are measured against the first one.
STRATEGIES = ("hash", "mixed")
HEADINGS = (
    "strategy",
    "fullest worker / mean",
    "in the worst batch",
    "keys moved per batch",
    "records/s",
    "to hash",
    "lowest to highest",
    "rounds",
    "rows, equal to Spark SQL",
)


def table(records: Sequence[Row]) -> str:
    """Return one line per strategy; ratios are within one round, and the median over rounds.

    The range is that of the rounds: the lowest and the highest of their ratios.
    """
    rows = []
    base = {r["round"]: _speed(r) for r in records if r["strategy"] == STRATEGIES[0]}
    for strategy in dict.fromkeys(record["strategy"] for record in records):
        mine = [record for record in records if record["strategy"] == strategy]
        # The first micro-batch is placed by hash in any case: nothing is known yet.
        fullest = [1 + one["imbalance"] for r in mine for one in r["batches"][1:]]
        moved = [one["moved"] for r in mine for one in r["batches"][1:]]
        ratios = [_speed(r) / base[r["round"]] for r in mine if r["round"] in base]
        rows.append(
            [
                f"`{strategy}`",
                f"{mean(fullest):.2f}",
                f"{max(fullest):.2f}",
                f"{mean(moved):.0f}",
                f"{median(_speed(r) for r in mine):,.0f}",
                f"{median(ratios):.2f}",
                range_of(ratios),
                str(len(mine)),
                f"{mine[0]['rows']:,}",
            ]
        )
    return markdown(HEADINGS, rows)


def _speed(record: Row) -> float:
    """Return records per second of all micro-batches but the first, which warms up."""
    batches = record["batches"][1:]
    return float(sum(one["records"] for one in batches) / sum(one["seconds"] for one in batches))
