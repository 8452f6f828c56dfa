"""A self-contained page about a replayed application, from plain data: when each stage ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.models import ColumnDataSource

from skewless.dashboard import figures
from skewless.dashboard.page_style import BLUE, GREEN, RED, Section, Sign, document, write_document

#: A replay as plain data: see `WhatIf.as_dict`.
Replayed = Mapping[str, Any]

_MOST_STAGES = 200


def write_replay_page(replays: Sequence[Replayed], name: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `name` is that of the application: text, not HTML. All timelines have the same scale.
    """
    longest = 1.02 * max(0.001, *(one["seconds"] for one in replays))
    found = (("stage", BLUE), ("with a straggler", RED), ("the same with even tasks", GREEN))
    legend = tuple(Sign(text, colour, "box") for text, colour in found)
    cards = []
    for one in replays:
        skewed = any(stage["balanced_seconds"] is not None for stage in one["stages"])
        for balanced in (False, True) if skewed else (False,):
            root = f"slots-{one['slots']}{'-balanced' * balanced}"
            seconds = one["balanced_seconds" if balanced else "seconds"]
            title = f"{one['slots']} slots{', without stragglers' * balanced}: {seconds:.1f} s"
            section = Section(root, title, "From submission to end.", legend, is_wide=True)
            cards.append((section, timeline(one, longest, root, balanced=balanced)))
    write_document(document("skewless: replay", _said(replays, name), cards), path)


def timeline(replay: Replayed, longest: float, root: str, *, balanced: bool = False) -> Any:
    """Return a bar for each stage from its beginning to its end, the first one on top."""
    stages = sorted(replay["stages"], key=lambda stage: -stage["seconds"])[:_MOST_STAGES]
    stages.sort(key=lambda stage: (stage["begin"], stage["stage"]))
    begins = [stage["balanced_begin" if balanced else "begin"] for stage in stages]
    lengths = [_length(stage, balanced=balanced) for stage in stages]
    names = [f"{stage['stage']}.{stage['attempt']}" for stage in stages]
    colour = GREEN if balanced else RED
    columns = {
        "stage": names,
        "begin": begins,
        "end": [begin + length for begin, length in zip(begins, lengths, strict=True)],
        "seconds": lengths,
        "colour": [BLUE if stage["balanced_seconds"] is None else colour for stage in stages],
        **{column: [stage[column] for stage in stages] for column in ("tasks", "what")},
    }
    plot = figures.canvas(
        root,
        "seconds from the beginning of the first job",
        "stage",
        height=90 + 14 * max(4, len(stages)),
        x_range=(0.0, longest),
        y_range=names[::-1],
    )
    bars = plot.hbar(
        *("stage", 0.8, "begin", "end"), color="colour", source=ColumnDataSource(columns)
    )
    tips = [("stage", "@stage"), ("", "@what"), ("tasks", "@tasks"), ("seconds", "@seconds{0.00}")]
    figures.add_tips(plot, tips, [bars], across=False)
    return plot


def _length(stage: Mapping[str, Any], *, balanced: bool) -> float:
    even = stage["balanced_seconds"]
    return float(even if balanced and even is not None else stage["seconds"])


def _said(replays: Sequence[Replayed], name: str) -> str:
    lines = [f"<h1>skewless: {escape(name)}, replayed</h1>"]
    for one in replays:
        measured = one.get("measured_seconds")
        logged = "" if measured is None else f"; the log has {measured:.1f} s"
        lines.append(
            f"<p>{one['slots']} slots: {one['seconds']:.1f} s{logged}; without stragglers "
            f"{one['balanced_seconds']:.1f} s.</p>"
        )
    return "".join(lines)
