"""Static pictures for documents: SVG files that are the same, byte by byte, for the same records.

Started as a program, it measures and draws what each strategy does to one drifting stream: a
picture for its page has the load per worker at the end, and the heaviest one over time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import typer
from matplotlib.figure import Figure
from rich.progress import track

from benchmarks.records import PROJECT, Report, Row
from skewless import registry
from skewless.metrics import relative_loads
from skewless.simulator import Measuring, simulate
from skewless.workloads import EvolvingZipf

PICTURES = PROJECT / "docs" / "pictures"
STRONG = "#cc3311"
LINE = "#4477aa"
PALE = "#999999"
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
        path.parent.mkdir(parents=True, exist_ok=True)
        # Neither date nor version: the file changes only when the picture does.
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


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
