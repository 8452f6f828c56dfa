"""A self-contained page about a job that ran under several strategies, from plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column, gridplot
from bokeh.models import Div, HoverTool, Span
from bokeh.plotting import figure
from bokeh.resources import INLINE

from skewless.metrics import relative_loads
from skewless.private_files import write_private

#: What one strategy did: `strategy`, `loads`, `rows`, `differences`, and `batches`, each with
#: `batch`, `seconds`, `imbalance` and `replication`.
Record = Mapping[str, Any]

_COLOURS = ("#4477aa", "#cc3311", "#228833", "#aa3377", "#ccbb44", "#66ccee")
_FAIR = "#333333"
_WIDTH = 1140


def write_job_report(runs: Sequence[Record], about: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `about` says what the job was. It and the names of strategies are text, not HTML.
    """
    if not runs:
        raise ValueError("runs must be at least one, not 0")
    said = f"<h2>skewless: the same job under {escape(_names(runs))}</h2>"
    said += f"<p>{escape(about)}</p><p><b>{escape(equality(runs))}</b></p>"
    page = column(
        Div(text=said, width=_WIDTH),
        gridplot([[load_bars(runs, number) for number in range(len(runs))]]),
        over_batches(runs, "seconds", "Seconds per micro-batch", "seconds"),
        over_batches(runs, "imbalance", "Imbalance per micro-batch", "(max − mean) / mean"),
        over_batches(runs, "replication", "Replicas per key in a micro-batch", "replicas per key"),
    )
    write_private(path, file_html(page, INLINE, "skewless: the main job"))


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


def load_bars(runs: Sequence[Record], number: int) -> Any:
    """Return a bar per worker, in units of its fair share, on the scale of all runs."""
    highest = max(float(relative_loads(run["loads"]).max()) for run in runs)
    heights = relative_loads(runs[number]["loads"]).tolist()
    plot = figure(
        title=f"{runs[number]['strategy']}: load per worker, 1 = fair share",
        width=_WIDTH // len(runs),
        height=260,
        y_range=(0.0, max(1.2, 1.05 * highest)),
        toolbar_location=None,
    )
    plot.vbar(x=list(range(len(heights))), top=heights, width=0.85, color=_colour(number))
    plot.add_layout(Span(location=1.0, dimension="width", line_color=_FAIR, line_dash="dashed"))
    plot.xaxis.axis_label = "worker"
    return plot


def over_batches(runs: Sequence[Record], what: str, title: str, label: str) -> Any:
    """Return one line per run: a number of each micro-batch, where it is known."""
    plot = figure(title=title, width=_WIDTH, height=240, toolbar_location=None)
    for number, run in enumerate(runs):
        known = [batch for batch in run["batches"] if batch[what] is not None]
        points = {"x": [b["batch"] for b in known], "y": [b[what] for b in known]}
        style = {"color": _colour(number), "legend_label": run["strategy"]}
        plot.line(**points, line_width=2, **style)
        plot.scatter(**points, size=7, **style)
    plot.y_range.start = 0
    plot.add_tools(HoverTool(tooltips=[("micro-batch", "@x"), (label, "@y")]))
    plot.xaxis.axis_label = "micro-batch"
    plot.yaxis.axis_label = label
    return plot


def _names(runs: Sequence[Record]) -> str:
    names = [str(run["strategy"]) for run in runs]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
