"""Self-contained pages that compare strategies: simulated runs, and runs of the main job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bokeh.document import Document
from bokeh.models import (
    BasicTickFormatter,
    ColumnDataSource,
    DataRange1d,
    LabelSet,
    LogTicker,
    LogTickFormatter,
)
from bokeh.transform import dodge

from skewless.dashboard import figures
from skewless.dashboard.page_style import BLUE, COLOURS, GREY, RED, Section, Sign, document
from skewless.metrics import relative_loads
from skewless.simulator import Run

TITLE = "skewless: strategies compared"
_SMALLEST_IMBALANCE = 1e-6  # where imbalance 0 is drawn on a logarithmic axis
_HIGHLIGHT = "cascade"

#: What one strategy did: `strategy`, `loads`, `rows`, `differences`, `records_per_second`,
#: `batch_seconds`, `imbalance`, `batch_imbalance`, `batch_replication`, and `batches`, each with
#: `batch`, `records`, `seconds`, `imbalance` and `replication`.
Record = Mapping[str, Any]

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


def comparison_document(runs: Sequence[Run]) -> Document:
    """Return the page."""
    best = "Means over windows. The lower left corner is best."
    ours = (Sign("our own", RED, "box"), Sign("all others", BLUE, "box"))
    numbers = Section(
        "numbers", "The numbers", "Imbalance and replicas are means over windows.", is_wide=True
    )
    trade = Section("trade_off", "Balance against replicas", best, ours, is_wide=True)
    cards = [(numbers, numbers_table(runs)), (trade, trade_off(runs))]
    # All plots have the same axis, so that their heights can be compared.
    top = 1.08 * max(1.0, *(relative_loads(run.loads, run.capacities).max() for run in runs))
    fair = (Sign("fair share", GREY, "dashed"),)
    for number, run in enumerate(runs):
        card = Section(f"loads-{number}", run.strategy, "Load per worker.", fair)
        cards.append((card, load_bars(run, card.root, top)))
    row = runs[0].summary()
    heading = (
        f"<h1>{TITLE}</h1><p>{escape(row['workload'])}: {row['records']:,} records, "
        f"{row['keys']:,} keys, {row['sources']} source{'s' * (row['sources'] > 1)}, "
        f"{row['workers']} workers, windows of {row['window']:,} records. All plots of loads have "
        "the same axis.</p>"
    )
    return document(TITLE, heading, cards)


def numbers_table(runs: Sequence[Run]) -> Any:
    """Return a line per run."""
    heads = ("imbalance", "replicas per key", "makespan, 1 = even")
    cells = "<td class='key'>{}</td>" + "<td class='number'>{}</td>" * len(heads)
    rows = "<th>strategy</th>" + "".join(f"<th class='number'>{head}</th>" for head in heads)
    for run in runs:
        row = run.summary()
        imbalance, replication = row["window_imbalance_mean"], row["window_replication_mean"]
        numbers = (f"{imbalance:.4f}", f"{replication:.3f}", f"{row['makespan_ratio']:.2f}")
        rows += f"</tr><tr>{cells.format(escape(run.strategy), *numbers)}"
    return figures.text_root("numbers", f"<table><tr>{rows}</tr></table>")


def load_bars(run: Run, name: str, top: float) -> Any:
    """Return a bar per worker, the heaviest first, in units of its fair share."""
    heights = sorted(relative_loads(run.loads, run.capacities).tolist(), reverse=True)
    return figures.bar_plot(
        *(name, "workers, highest load first", "load, 1 = fair share"),
        {"place": list(range(1, len(heights) + 1)), "load": heights},
        [("load", "@load{0.00} × fair share")],
        colour=_colour(run.strategy),
        level=1.0,
        height=200,
        y_range=(0.0, top),
    )


def trade_off(runs: Sequence[Run]) -> Any:
    """Return all runs as points: window imbalance to the right, replicas upwards."""
    rows = [run.summary() for run in runs]
    source = ColumnDataSource(
        {
            "strategy": [row["strategy"] for row in rows],
            "imbalance": [max(row["window_imbalance_mean"], _SMALLEST_IMBALANCE) for row in rows],
            "replication": [row["window_replication_mean"] for row in rows],
            "makespan": [row["makespan_ratio"] for row in rows],
            "colour": [_colour(row["strategy"]) for row in rows],
        }
    )
    ranges = {axis: DataRange1d(range_padding=0.12) for axis in ("x_range", "y_range")}
    titles = "imbalance (max − mean) / mean", "replicas per key"
    plot = figures.canvas("trade_off", *titles, height=420, x_axis_type="log", **ranges)
    plot.xaxis.ticker = LogTicker()
    plot.xaxis.formatter = LogTickFormatter()
    plot.yaxis.formatter = BasicTickFormatter(use_scientific=False)
    dots = plot.scatter("imbalance", "replication", size=10, color="colour", source=source)
    names = {"x": "imbalance", "y": "replication", "text": "strategy", "source": source}
    plot.add_layout(
        LabelSet(**names, x_offset=8, y_offset=4, text_font_size="12px", text_color=GREY)
    )
    tips = [
        ("strategy", "@strategy"),
        ("imbalance", "@imbalance{0.0000}"),
        ("replicas per key", "@replication{0.000}"),
        ("makespan", "@makespan{0.00}"),
    ]
    figures.add_tips(plot, tips, [dots], across=False)
    return plot


def _colour(strategy: str) -> str:
    return RED if _HIGHLIGHT in strategy else BLUE


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
        (Section("loads", "Load per worker, whole stream", share, fair), job_load_bars(runs)),
    ]
    cards += [
        (Section(root, title, told, names), over_batches(runs, root, label))
        for root, title, told, label in _OVER_BATCHES
    ]
    heading = f"<h1>skewless: the same job under {escape(_names(runs))}</h1><p>{escape(about)}</p>"
    return document("skewless: the main job", heading, cards)


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


def job_load_bars(runs: Sequence[Record]) -> Any:
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
