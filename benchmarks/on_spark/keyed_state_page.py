"""A page about keyed state that moves: balance and time of each micro-batch, from raw records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.document import Document

from benchmarks.records import Row, grouped
from skewless.dashboard.job_report import colour_of, over_batches
from skewless.dashboard.page_style import Section, Sign, frame, write_document

TITLE = "skewless: keyed state that moves"


#: Numbers of the micro-batches: each with its title, what it means, and the title of its axis.
_PLOTS = {
    "imbalance": (
        "imbalance",
        "How much more the busiest worker had than the mean. 0 is perfect.",
        "(max − mean) / mean",
    ),
    "moved": ("state moved", "Of all state that the workers hold.", "share of the state"),
    "seconds": ("batch time", "Seconds that Spark took for a micro-batch.", "seconds"),
}


def write_keyed_state(records: Sequence[Row], about: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `records` have `scenario`, `strategy`, `batch`, `imbalance`, `moved`, and, where the stream ran
    on Spark, `wall` seconds. `about` is text, not HTML.
    """
    if not records:
        raise ValueError("records must not be empty")
    doc = Document()
    sections = []
    for number, (scenario, mine) in enumerate(grouped(records, "scenario").items()):
        runs = list(_runs(mine))
        legend = tuple(Sign(run["strategy"], colour_of(i)) for i, run in enumerate(runs))
        for what, (title, says, label) in _PLOTS.items():
            known = any(batch[what] is not None for run in runs for batch in run["batches"])
            if known:
                name = f"{what}-{number}"
                doc.add_root(over_batches(runs, what, label, name))
                sections.append(Section(name, f"{scenario}: {title}", says, legend))
    heading = f"<h1>{TITLE}</h1><p>{escape(about)}</p>"
    frame(doc, TITLE, heading, (), sections)
    write_document(doc, path)


def _runs(records: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield each strategy with its micro-batches."""
    for strategy, mine in grouped(records, "strategy").items():
        batches = [
            {**{name: row[name] for name in ("batch", "imbalance", "moved")}, "seconds": wall}
            for row, wall in ((row, row.get("wall")) for row in mine)
        ]
        yield {"strategy": str(strategy), "batches": batches}
