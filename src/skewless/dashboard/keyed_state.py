"""A page about keyed state that moves: balance and time of each micro-batch, from raw records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bokeh.document import Document

from skewless.dashboard.job_report import Record, colour_of, over_batches
from skewless.dashboard.page_style import Section, Sign, frame, write_document

TITLE = "skewless: keyed state that moves"


class _Plot(NamedTuple):
    """A number of the micro-batches: its title, what it means, and the title of its axis."""

    what: str
    title: str
    about: str
    label: str


_PLOTS = (
    _Plot(
        "imbalance",
        "imbalance",
        "How much more the busiest worker had than the mean. 0 is perfect.",
        "(max − mean) / mean",
    ),
    _Plot("moved", "state moved", "Of all state that the workers hold.", "share of the state"),
    _Plot("seconds", "batch time", "Seconds that Spark took for a micro-batch.", "seconds"),
)


def write_keyed_state(records: Sequence[Record], about: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `records` have `scenario`, `strategy`, `batch`, `imbalance`, `moved`, and, where the stream ran
    on Spark, `wall` seconds. `about` is text, not HTML.
    """
    if not records:
        raise ValueError("records must not be empty")
    doc = Document()
    sections = []
    for number, scenario in enumerate(dict.fromkeys(record["scenario"] for record in records)):
        runs = list(_runs([record for record in records if record["scenario"] == scenario]))
        legend = tuple(Sign(run["strategy"], colour_of(i)) for i, run in enumerate(runs))
        for what, title, says, label in _PLOTS:
            known = any(batch[what] is not None for run in runs for batch in run["batches"])
            if known:
                name = f"{what}-{number}"
                doc.add_root(over_batches(runs, what, label, name))
                sections.append(Section(name, f"{scenario}: {title}", says, legend))
    heading = f"<h1>{TITLE}</h1><p>{escape(about)}</p>"
    frame(doc, TITLE, heading, (), sections)
    write_document(doc, path)


def _runs(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Yield each strategy with its micro-batches."""
    for strategy in dict.fromkeys(record["strategy"] for record in records):
        yield {
            "strategy": str(strategy),
            "batches": [
                {
                    "batch": record["batch"],
                    "imbalance": record["imbalance"],
                    "moved": record["moved"],
                    "seconds": record.get("wall"),
                }
                for record in records
                if record["strategy"] == strategy
            ],
        }
