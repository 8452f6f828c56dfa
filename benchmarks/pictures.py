"""Static pictures for documents: SVG files that are the same, byte by byte, for the same records.

They are drawn from records, the summaries of runs, so that no picture needs a new run. Started as a
program, it measures and draws what each strategy does to one drifting stream: a picture for its
page has the load per worker at the end, and the heaviest one over time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.progress import track

from benchmarks.records import PROJECT, Report, Row
from skewless import registry
from skewless.metrics import relative_loads
from skewless.simulator import Measuring, simulate
from skewless.workloads import EvolvingZipf

PICTURES = PROJECT / "docs" / "pictures"
HIGHLIGHT = "cascade"
STRONG = "#cc3311"
LINE = "#4477aa"
PALE = "#999999"
_SMALLEST_IMBALANCE = 1e-6  # where imbalance 0 is drawn on a logarithmic axis
_SMALLEST_REPLICATION = 1e-5
_LABEL_DECADES = 1.0  # labels of points closer than that would cover each other
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "skewless",  # else every file has its own names
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "font.family": "sans-serif",
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.edgecolor": "#555555",
}


def frontier(records: Iterable[Row], path: Path, n_columns: int = 3) -> None:
    """Draw balance against replicas: a panel per cell, a point per strategy, and the front.

    A record has `panel` (the title of its cell), `strategy`, `label` (its name, with marks),
    `imbalance`, `replication` and `on_front`. Both axes are logarithmic; 0 is drawn at their
    lower ends.
    """
    cells: dict[str, list[Row]] = {}
    for record in records:
        cells.setdefault(record["panel"], []).append(record)
    if not cells:
        raise ValueError("records must be of at least one cell, not 0")
    across = [_place(record)[0] for cell in cells.values() for record in cell]
    middle = math.sqrt(min(across) * max(across))
    n_columns = min(n_columns, len(cells))
    n_rows = math.ceil(len(cells) / n_columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.5 * n_columns, 2.8 * n_rows), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        panels = [panel for row in grid for panel in row]
        for panel, (title, cell) in zip(panels, cells.items(), strict=False):
            _draw_cell(panel, title, cell, middle)
        for panel in panels[len(cells) :]:
            panel.set_axis_off()
        for panel in panels[max(0, len(cells) - n_columns) : len(cells)]:
            panel.tick_params(labelbottom=True)
        figure.supxlabel("imbalance (max − mean) / mean", fontsize=9)
        figure.supylabel("replicas per key − 1", fontsize=9)
        save(figure, path)


def _draw_cell(panel: Axes, title: str, cell: Sequence[Row], middle: float) -> None:
    panel.set_title(title)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.minorticks_off()
    panel.grid(color="#eeeeee", linewidth=0.6)
    panel.set_axisbelow(True)
    best = sorted(_place(record) for record in cell if record["on_front"])
    # Between two points of the front, the area above and to the right of the first is taken.
    panel.step(*zip(*best, strict=True), where="post", color=LINE, linewidth=1.0, zorder=1)
    for record in cell:
        own = record["strategy"] == HIGHLIGHT
        x, y = _place(record)
        panel.plot(
            *([x], [y]),
            marker="D" if own else "o",
            markersize=6 if own else 4 if record["on_front"] else 3,
            color=STRONG if own else LINE if record["on_front"] else PALE,
            linestyle="none",
            zorder=3 if own else 2,
            clip_on=False,
        )
    for (x, y), text in _labels(cell):
        own = text == HIGHLIGHT
        # Below the front is nothing; where a label would leave the panel it turns round.
        to_the_left = x > middle and not own
        above = own or y <= _SMALLEST_REPLICATION
        label = panel.annotate(
            text,
            (x, y),
            xytext=(-4 if to_the_left else 4, 3 if above else -3),
            textcoords="offset points",
            horizontalalignment="right" if to_the_left else "left",
            verticalalignment="bottom" if above else "top",
            fontsize=8 if own else 6,
            fontweight="bold" if own else "normal",
            color=STRONG if own else LINE,
            zorder=4,
        )
        label.set_in_layout(False)


def _labels(cell: Sequence[Row]) -> list[tuple[tuple[float, float], str]]:
    """Return the names to write and where; neighbours on the front share a label."""
    best = [record for record in cell if record["on_front"] and record["strategy"] != HIGHLIGHT]
    labels = [(_place(record), HIGHLIGHT) for record in cell if record["strategy"] == HIGHLIGHT]
    last = math.inf, math.inf
    for record in sorted(best, key=_place):
        place = _place(record)
        apart = (abs(math.log10(a / b)) for a, b in zip(last, place, strict=True))
        if max(apart) < _LABEL_DECADES:
            labels[-1] = labels[-1][0], f"{labels[-1][1]}, {record['label']}"
        else:
            labels.append((place, record["label"]))
        last = place
    return labels


def _place(record: Row) -> tuple[float, float]:
    return (
        max(record["imbalance"], _SMALLEST_IMBALANCE),
        max(record["replication"] - 1.0, _SMALLEST_REPLICATION),
    )


def save(figure: Figure, path: Path) -> None:
    """Write an SVG file that changes only when the picture does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Neither date nor version.
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


BASELINE = "hash"
WINDOW = 10_000


#: By family: what is said about it, a stream, and a number of workers. Strategies that move keys
#: cannot help a key that is heavier than a worker's share, so they get a stream without one.
SETTINGS = {
    family: (
        f"Zipf {z}, {n_workers} workers",
        EvolvingZipf(z=z, n_keys=10_000, n_records=400_000, period=100_000),
        n_workers,
    )
    for family, z, n_workers in (("splitting", 1.4, 16), ("moving", 0.9, 8))
}


def measure(names: Sequence[str]) -> Iterator[Row]:
    """Yield one record per strategy, and the baseline on the same stream in it."""
    baselines: dict[str, Row] = {}
    for name in names:
        family = registry.make(name).traits.family
        if family not in baselines:
            baselines[family] = _run(BASELINE, family)
        about = {"strategy": name, "about": SETTINGS[family][0]}
        yield about | _run(name, family) | {"baseline": baselines[family]}


def _run(name: str, family: str) -> Row:
    _, workload, n_workers = SETTINGS[family]
    strategy = registry.make(name)
    kept = Measuring(keep_loads=True)
    run = simulate(strategy, workload, n_workers=n_workers, seed=1, window=WINDOW, measuring=kept)
    loads = np.asarray(run.windows.loads)
    return {
        "loads": [float(load) for load in loads[-1]],
        "peaks": [round(float(relative_loads(window).max()), 4) for window in loads],
    }


def strategy_picture(record: Row, path: Path) -> None:
    """Draw one strategy, with the baseline in grey behind it.

    A record has `strategy`, `about` (the stream), `loads` (of the last window, by worker), `peaks`
    (the heaviest worker of each window, 1 = fair share), and `baseline` with the last two.
    """
    own = record["strategy"] != BASELINE
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.4), layout="constrained")
        bars, line = figure.subplots(1, 2)
        if own:
            bars.bar(*_bars(record["baseline"]["loads"]), width=0.9, color=PALE, alpha=0.5)
            line.plot(record["baseline"]["peaks"], color=PALE, linewidth=1.2, label=BASELINE)
        bars.bar(*_bars(record["loads"]), width=0.6, color=STRONG if own else LINE)
        line.plot(record["peaks"], color=STRONG if own else LINE, label=record["strategy"])
        for panel in (bars, line):
            panel.axhline(1.0, color="#333333", linewidth=0.8, linestyle=(0, (4, 3)))
        highest = max(1.2, *record["peaks"], *record["baseline"]["peaks"])
        line.set_ylim(0.0, 1.05 * highest)
        line.set_title("the heaviest worker of each window")
        line.set_xlabel("windows of 10,000 records; hot keys change")
        line.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        bars.set_title(f"load per worker, last window ({record['about']})")
        bars.set_xlabel("workers, heaviest first")
        bars.set_ylabel("load, 1 = fair share")
        bars.set_xticks([])
        save(figure, path)


def _bars(loads: list[float]) -> tuple[range, list[float]]:
    heights = sorted(relative_loads(loads).tolist(), reverse=True)
    return range(len(heights)), heights


REPORT = Report("strategy_pictures.jsonl", {})


def main() -> None:
    """Measure every strategy on a drifting stream; draw the pictures of their pages."""
    names = registry.names()
    REPORT.write(track(measure(names), "simulating", total=len(names)))
    for record in REPORT.read():
        strategy_picture(record, PICTURES / "strategies" / f"{record['strategy']}.svg")


if __name__ == "__main__":
    typer.run(main)
