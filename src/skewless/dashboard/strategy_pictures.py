"""The picture of a strategy's page: load per worker at the end, and the heaviest one over time."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from skewless.dashboard.pictures import LINE, PALE, STRONG, STYLE, Record, save
from skewless.metrics import relative_loads

BASELINE = "hash"


def strategy_picture(record: Record, path: Path) -> None:
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
