"""A self-contained page about a job that ran under several strategies, from plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bokeh.document import Document
from bokeh.models import ColumnDataSource, DataRange1d
from bokeh.transform import dodge

from skewless.dashboard import figures
from skewless.dashboard.page_style import COLOURS, GREY, Section, Sign, document
from skewless.metrics import relative_loads

#: What one strategy did: `strategy`, `loads`, `rows`, `differences`, `records_per_second`,
#: `batch_seconds`, `imbalance`, `batch_imbalance`, `batch_replication`, and `batches`, each with
#: `batch`, `records`, `seconds`, `imbalance` and `replication`.
Record = Mapping[str, Any]

TITLE = "skewless: the main job"
_ACROSS = 0.84  # of a place on the x axis, for the bars of all runs
_IMBALANCE = "How much more the busiest worker had than the mean. 0 is perfect."
_REPLICAS = "Workers that have a key in a micro-batch. 1 means that no key is split."
#: The cards of numbers by micro-batch: the number, the title, what it says, and the axis.
_OVER_BATCHES = (
    ("throughput", "Throughput", "Records per second of a micro-batch.", "records per second"),
    ("seconds", "Batch time", "Seconds that Spark took for a micro-batch.", "seconds"),
    ("imbalance", "Imbalance", _IMBALANCE, "(max − mean) / mean"),
    ("replication", "Replicas per key", _REPLICAS, "replicas per key"),
)


def job_document(runs: Sequence[Record], about: str) -> Document:
    """Return the page; `about` says what the job was. It and names of strategies are no HTML."""
    if not runs:
        raise ValueError("runs must not be empty")
    names = tuple(Sign(str(run["strategy"]), colour_of(i)) for i, run in enumerate(runs))
    boxes = tuple(sign._replace(kind="box") for sign in names)
    share = "In units of the fair share. The worker with the highest load comes first."
    fair = (*boxes, Sign("fair share", GREY, "dashed"))
    cards = [
        (Section("summary", "Results", ""), figures.text_root("summary", summary(runs))),
        (Section("loads", "Load per worker, whole stream", share, fair), load_bars(runs)),
    ]
    cards += [
        (Section(root, title, told, names), over_batches(runs, root, label))
        for root, title, told, label in _OVER_BATCHES
    ]
    heading = f"<h1>skewless: the same job under {escape(_names(runs))}</h1><p>{escape(about)}</p>"
    return document(TITLE, heading, cards)


def summary(runs: Sequence[Record]) -> str:
    """Return the table of results, and whether they are those of plain Spark, as HTML."""
    best = max(run["records_per_second"] for run in runs)
    rows = ""
    for number, run in enumerate(runs):
        replicas = run["batch_replication"]
        width = 100 * run["records_per_second"] / best if best else 0.0
        rows += (
            f"<tr><td class='key'>{escape(str(run['strategy']))}</td>"
            f"<td class='number'>{run['records_per_second']:,.0f}</td><td class='optional'>"
            f"<span class='bar'><i style='background: {colour_of(number)}; width: {width:.0f}%'>"
            f"</i></span></td><td class='number'>{run['batch_seconds']:.2f}</td>"
            f"<td class='number'>{run['batch_imbalance']:.2g}</td>"
            f"<td class='number'>{'–' if replicas is None else f'{replicas:.3f}'}</td></tr>"
        )
    kind = "bad" if any(run["differences"] for run in runs) else "good"
    return (
        "<table><thead><tr><th>strategy</th><th class='number'>records / s</th>"
        "<th class='optional'></th><th class='number'>s / batch</th>"
        "<th class='number'>imbalance</th><th class='number'>replicas</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
        f"<p class='note {kind}'><br>{escape(equality(runs))}</p>"
        "<p class='note'>Imbalance and replicas per key are means over micro-batches, "
        "the time of a batch is the median.</p>"
    )


def equality(runs: Sequence[Record]) -> str:
    """Return the sentence that says whether the results are those of plain Spark.

    >>> equality([{"strategy": "hash", "rows": 7, "differences": 0}])
    "The result of hash equals plain Spark's, record for record: 7 rows."
    """
    wrong = [run for run in runs if run["differences"]]
    if wrong:
        counts = ", ".join(f"{run['strategy']}: {run['differences']:,} rows" for run in wrong)
        return f"NOT EQUAL to plain Spark's result: {counts} differ."
    many = len(runs) > 1
    return (
        f"The result{'s' * many} of {_names(runs)} equal{'' if many else 's'} plain Spark's, "
        f"record for record: {runs[0]['rows']:,} rows."
    )


def load_bars(runs: Sequence[Record]) -> Any:
    """Return the load of each worker in units of its fair share, the highest first, of all runs."""
    plot = figures.canvas("loads", "workers, highest load first", "load, 1 = fair share")
    width = _ACROSS / len(runs)
    for number, run in enumerate(runs):
        heights = sorted(relative_loads(run["loads"]).tolist(), reverse=True)
        source = ColumnDataSource(
            {
                "place": list(range(1, len(heights) + 1)),
                "load": heights,
                "strategy": [str(run["strategy"])] * len(heights),
            }
        )
        place = dodge("place", width * (number + 0.5) - _ACROSS / 2)
        bars = figures.add_bars(plot, source, place, "load", colour_of(number), 0.9 * width)
        tips = [("", "@strategy"), ("load", "@load{0.00} × fair share")]
        figures.add_tips(plot, tips, [bars], across=False)
    figures.add_level(plot, 1.0)
    return plot


def over_batches(runs: Sequence[Record], what: str, label: str) -> Any:
    """Return one line per run: a number of each micro-batch, where it is known.

    `what` is a number of the batches, or `throughput`, their records per second.
    """
    settings = {"y_range": DataRange1d(range_padding=0.2)} if what == "replication" else {}
    plot = figures.canvas(what, "micro-batch", label, **settings)
    for number, run in enumerate(runs):
        source = ColumnDataSource(
            {
                "batch": [batch["batch"] for batch in run["batches"]],
                "value": [_value(batch, what) for batch in run["batches"]],
                "strategy": [str(run["strategy"])] * len(run["batches"]),
            }
        )
        line = figures.add_line(plot, source, "batch", "value", colour_of(number))
        tips = [("", "@strategy"), ("micro-batch", "@batch"), (label, "@value{0,0.[000]}")]
        figures.add_tips(plot, tips, [line])
    if what in ("throughput", "seconds"):
        figures.short_numbers(plot.yaxis)
    return plot


def _value(batch: Record, what: str) -> float:
    if what == "throughput":
        return batch["records"] / batch["seconds"] if batch["seconds"] else math.nan
    return math.nan if batch[what] is None else float(batch[what])


def _names(runs: Sequence[Record]) -> str:
    names = [str(run["strategy"]) for run in runs]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def colour_of(number: int) -> str:
    """Return the colour of the run with this number."""
    return COLOURS[number % len(COLOURS)]
