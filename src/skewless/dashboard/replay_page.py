"""A self-contained page about a replayed application, from plain data: when each stage ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, Div, HoverTool
from bokeh.plotting import figure
from bokeh.resources import INLINE

from skewless.plumbing.private_files import write_private

#: A replay as plain data: see `WhatIf.as_dict`.
Replayed = Mapping[str, Any]

_BAR, _SKEWED, _EVEN = "#4477aa", "#cc3311", "#228833"
_WIDTH = 1140
_MOST_STAGES = 200


def write_replay_page(replays: Sequence[Replayed], name: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `name` is that of the application: text, not HTML. All timelines have the same scale.
    """
    longest = 1.02 * max(0.001, *(one["seconds"] for one in replays))
    parts = [Div(text=_said(replays, name), width=_WIDTH)]
    for one in replays:
        parts.append(timeline(one, longest))
        if any(stage["balanced_seconds"] is not None for stage in one["stages"]):
            parts.append(timeline(one, longest, balanced=True))
    write_private(path, file_html(column(*parts), INLINE, "skewless: replay"))


def timeline(replay: Replayed, longest: float, *, balanced: bool = False) -> Any:
    """Return a bar for each stage from its beginning to its end, the first one on top."""
    stages = sorted(replay["stages"], key=lambda stage: -stage["seconds"])[:_MOST_STAGES]
    stages.sort(key=lambda stage: (stage["begin"], stage["stage"]))
    of = "balanced_begin" if balanced else "begin"
    lengths = [_length(stage, balanced=balanced) for stage in stages]
    colour = _EVEN if balanced else _SKEWED
    names = [f"{stage['stage']}.{stage['attempt']}" for stage in stages]
    source = ColumnDataSource(
        {
            "stage": names,
            "begin": [stage[of] for stage in stages],
            "end": [stage[of] + length for stage, length in zip(stages, lengths, strict=True)],
            "seconds": lengths,
            "tasks": [stage["tasks"] for stage in stages],
            "what": [stage["what"] for stage in stages],
            "colour": [_BAR if s["balanced_seconds"] is None else colour for s in stages],
        }
    )
    seconds = replay["balanced_seconds" if balanced else "seconds"]
    plot = figure(
        title=f"{replay['slots']} slots{', without stragglers' * balanced}: {seconds:.1f} s",
        width=_WIDTH,
        height=90 + 14 * max(4, len(stages)),
        x_range=(0.0, longest),
        y_range=names[::-1],
        toolbar_location=None,
    )
    plot.hbar(y="stage", left="begin", right="end", height=0.8, color="colour", source=source)
    tips = [("stage", "@stage"), ("", "@what"), ("tasks", "@tasks"), ("seconds", "@seconds{0.00}")]
    plot.add_tools(HoverTool(tooltips=tips))
    plot.xaxis.axis_label = "seconds from the beginning of the first job"
    plot.yaxis.axis_label = "stage"
    return plot


def _length(stage: Mapping[str, Any], *, balanced: bool) -> float:
    even = stage["balanced_seconds"]
    return float(even if balanced and even is not None else stage["seconds"])


def _said(replays: Sequence[Replayed], name: str) -> str:
    lines = [f"<h2>skewless: {escape(name)}, replayed</h2>"]
    for one in replays:
        measured = one.get("measured_seconds")
        logged = "" if measured is None else f"; the log has {measured:.1f} s"
        lines.append(
            f"<p>{one['slots']} slots: {one['seconds']:.1f} s{logged}; without stragglers "
            f"{one['balanced_seconds']:.1f} s.</p>"
        )
    lines.append(
        "<p>A bar is a stage, from its submission to its end. Red: it has a straggler. Green: the "
        "same stage with even tasks.</p>"
    )
    return "".join(lines)
