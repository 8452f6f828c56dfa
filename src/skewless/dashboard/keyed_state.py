"""A page about keyed state that moves: balance and time of each micro-batch, from raw records."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.models import Div
from bokeh.resources import INLINE

from skewless.dashboard.job_report import Record, over_batches
from skewless.private_files import write_private

_WIDTH = 1140


def write_keyed_state(records: Sequence[Record], about: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `records` have `scenario`, `strategy`, `batch`, `imbalance`, `moved`, and, where the stream ran
    on Spark, `wall` seconds. `about` is text, not HTML.
    """
    if not records:
        raise ValueError("records must be at least one, not 0")
    parts = [Div(text=f"<h2>Keyed state that moves</h2><p>{escape(about)}</p>", width=_WIDTH)]
    for scenario in dict.fromkeys(record["scenario"] for record in records):
        mine = [record for record in records if record["scenario"] == scenario]
        runs = [
            {
                "strategy": strategy,
                "batches": [
                    {
                        "batch": record["batch"],
                        "imbalance": record["imbalance"],
                        "moved": record["moved"],
                        "seconds": record.get("wall"),
                    }
                    for record in mine
                    if record["strategy"] == strategy
                ],
            }
            for strategy in dict.fromkeys(record["strategy"] for record in mine)
        ]
        name = escape(scenario)
        parts.append(over_batches(runs, "imbalance", f"{name}: imbalance", "(max − mean) / mean"))
        parts.append(over_batches(runs, "moved", f"{name}: state moved", "share of the state"))
        if any(batch["seconds"] is not None for run in runs for batch in run["batches"]):
            parts.append(over_batches(runs, "seconds", f"{name}: seconds", "seconds"))
    write_private(path, file_html(column(*parts), INLINE, "skewless: keyed state"))
