"""The live page of a query: a document of Bokeh, made from its history and kept up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bokeh.document import Document
from bokeh.models import ColumnDataSource, DataRange1d, LinearColorMapper

from skewless.dashboard import live_history
from skewless.dashboard.figures import (
    add_bars,
    add_level,
    add_line,
    add_tips,
    canvas,
    short_numbers,
    text_root,
    whole_numbers,
)
from skewless.dashboard.live_history import Record
from skewless.dashboard.page_style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    VIOLET,
    Section,
    Sign,
    frame,
    write_document,
)

TITLE = "skewless: live balance"
_BATCH = "micro-batch"
_STEPS = 128
#: A worker that is not there yet, and a batch without records, must not look even.
_ABSENT = f"{GREY}66"
#: From no load over the fair share, which is transparent, to twice the fair share and more. So the
#: picture is readable on a light and on a dark screen, and balance is quiet.
RAMP = tuple(
    [f"{BLUE}{round(245 * (1 - step / _STEPS)):02x}" for step in range(_STEPS)]
    + [f"{RED}{round(245 * step / (_STEPS - 1)):02x}" for step in range(_STEPS)]
)


def write_live_page(history: Record, path: Path) -> None:
    """Write one page, with mode 0600; its JavaScript is inside, so it opens without a network."""
    doc = Document()
    fill_document(doc, history, None)
    write_document(doc, path)


def fill_document(
    doc: Document, history: Record, clock: Callable[[], float] | None = time.time
) -> Callable[[Record], None]:
    """Fill a document with the page of a history; return what brings it up to date.

    Without a clock, the page does not say how long ago the last micro-batch was.
    """
    sources = {name: ColumnDataSource(found) for name, found in _columns(history).items()}
    sections = sections_of(history)
    texts = {name: text_root(name) for name in ("status", "summary", "hot_keys")}
    shown = history

    def bring_up_to_date(history: Record) -> None:
        nonlocal shown
        if history is not shown:
            shown = history
            for name, columns in _columns(history).items():
                sources[name].data = columns
        now = None if clock is None else clock()
        told = {
            "status": live_history.status(history, now),
            "summary": live_history.summary(history),
            "hot_keys": live_history.hot_keys_text(history),
        }
        for name, html in told.items():
            if texts[name].text != html:
                texts[name].text = html
        if texts["status"].tags != [_kind(history)]:
            texts["status"].tags = [_kind(history)]

    bring_up_to_date(history)
    above = ("status", "summary")
    for name in above:
        doc.add_root(texts[name])
    for section in sections:
        doc.add_root(texts.get(section.root) or _figure(section.root, sources))
    foot = (
        f"Read from {history['place']}. Batch time is from the plan of a micro-batch to its last "
        "report; Spark's own work before and after is not in it."
    )
    frame(doc, TITLE, live_history.heading(history), above, sections, foot)
    return bring_up_to_date


def sections_of(history: Record) -> list[Section]:
    """Return the cards of a query of this kind."""
    if not history["known"] or not history["routes"]:
        return []
    ramp = f"linear-gradient(to right, {BLUE}, {BLUE}05 50%, {RED}05 50%, {RED})"
    tolerance = history["tolerance"]
    limit = () if tolerance is None else (Sign("tolerance", GREY, "dashed"),)
    too_much = "above the tolerance" if tolerance is not None else "above 1.1"
    found = [
        Section(
            "load_map",
            "Load per worker over time",
            "Red: more than the fair share. Blue: less. Even loads have no colour.",
            (
                Sign("from 0 over the fair share to 2 × and more", ramp, "ramp"),
                Sign("no such worker yet, or no records", _ABSENT, "box"),
            ),
            is_wide=True,
        ),
        Section(
            "last_loads",
            "Load per worker, last micro-batch",
            "In units of the fair share.",
            (
                Sign("load", BLUE, "box"),
                Sign(too_much, RED, "box"),
                Sign("fair share", GREY, "dashed"),
            ),
        ),
        Section(
            "imbalance",
            "Imbalance",
            "How much more the busiest worker had than the mean. 0 is perfect.",
            (
                Sign("records", BLUE),
                *([Sign("time of workers", VIOLET)] if _has(history, "seconds_imbalance") else []),
                *([Sign("cost of records", GREEN)] if _has(history, "cost_imbalance") else []),
                *limit,
            ),
        ),
        Section("throughput", "Throughput", "Records per second of a micro-batch."),
        Section("batch_time", "Batch time", "From the plan to the last report."),
    ]
    if history["keeps_state"]:
        found += [
            Section("moves", "Moves", "Keys whose state went to another worker."),
            Section("state_total", "State over time", "Bytes that all workers hold."),
            Section("state", "State per worker", "Bytes after the last micro-batch.", is_wide=True),
        ]
    else:
        found += [
            Section("replicas", "Replicas per key", "1 means that no key is on two workers."),
            Section("keys_split", "Split keys", "Keys on two workers or more."),
        ]
    said = "The heaviest keys of the last micro-batch, and the workers that have them."
    return [*found, Section("hot_keys", "Hot keys", said, is_wide=True)]


def _kind(history: Record) -> str:
    """Return a text that names the page's cards and the lengths of their legends."""
    found = [f"{section.root} {len(section.legend)}" for section in sections_of(history)]
    return ",".join(found) or "waiting"


def _has(history: Record, name: str) -> bool:
    return any(batch[name] is not None for batch in history["batches"])


def _columns(history: Record) -> dict[str, dict[str, list[Any]]]:
    """Return the columns that plots draw, by their source."""
    return {
        "series": live_history.series(history),
        "map": live_history.load_map(history),
        "loads": live_history.last_loads(history, BLUE, RED),
        "state": live_history.last_state(history),
    }


def _load_map(source: Any) -> Any:
    close = {"range_padding": 0, "default_span": 1.0}
    plot = canvas(
        "load_map",
        _BATCH,
        "worker",
        height=300,
        x_range=DataRange1d(**close),
        y_range=DataRange1d(**close),
    )
    plot.ygrid.grid_line_color = None
    colours = LinearColorMapper(palette=list(RAMP), low=0.0, high=2.0, nan_color=_ABSENT)
    image = plot.image(
        image="image", x="x", y="y", dw="dw", dh="dh", source=source, color_mapper=colours
    )
    whole_numbers(plot.yaxis)
    tips = [(_BATCH, "$x{0}"), ("worker", "$y{0}"), ("load", "@image{0.00} × fair share")]
    add_tips(plot, tips, [image], across=False)
    return plot


def _imbalance(source: Any) -> Any:
    plot = canvas("imbalance", _BATCH, "(max − mean) / mean")
    lines = [
        add_line(plot, source, "batch", name, colour)
        for name, colour in (
            ("seconds_imbalance", VIOLET),
            ("cost_imbalance", GREEN),
            ("imbalance", BLUE),
        )
    ]
    add_line(plot, source, "batch", "tolerance", GREY, dashed=True)
    tips = [
        (_BATCH, "@batch"),
        ("by records", "@imbalance{0.000}"),
        ("by time", "@seconds_imbalance{0.000}"),
        ("tolerance", "@tolerance{0.000}"),
    ]
    add_tips(plot, tips, lines[-1:])
    return plot


class _Simple(NamedTuple):
    """A plot of one column: its source and axes, its colour, and what it tells of a place."""

    source: str  # of `_columns`
    label: str
    column: str
    colour: str
    tips: tuple[tuple[str, str], ...]
    across: str = "batch"
    is_bars: bool = False
    has_level: bool = False  # a dashed line at 1
    axis: str = "0.[00]a"


_ROOTS = {
    "last_loads": _Simple(
        *("loads", "load, 1 = fair share", "load", "colour"),
        (("load", "@load{0.00} × fair share"), ("records", "@records{0,0}")),
        *("worker", True, True, ""),
    ),
    "throughput": _Simple(
        *("series", "records per second", "records_per_second", GREEN),
        (("records per second", "@records_per_second{0,0}"),),
    ),
    "batch_time": _Simple("series", "seconds", "seconds", ORANGE, (("seconds", "@seconds{0.00}"),)),
    "replicas": _Simple(
        *("series", "replicas per key", "replication", VIOLET),
        (("replicas per key", "@replication{0.0000}"), ("keys", "@keys{0,0}")),
        *("batch", False, True, ""),
    ),
    "keys_split": _Simple("series", "keys", "keys_split", ORANGE, (("keys", "@keys_split{0,0}"),)),
    "moves": _Simple(
        *("series", "keys moved", "moves", VIOLET, (("keys moved", "@moves{0,0}"),)),
        *("batch", True, False, "0.[0]a"),
    ),
    "state_total": _Simple(
        *("series", "bytes", "state_bytes", GREEN, (("bytes", "@state_bytes{0.00 d}"),)),
        axis="0.[00] d",
    ),
    "state": _Simple(
        *("state", "bytes", "bytes", GREEN, (("state", "@bytes{0.00 d}"), ("keys", "@keys{0,0}"))),
        *("worker", True, False, "0.[00] d"),
    ),
}


def _figure(root: str, sources: Mapping[str, Any]) -> Any:
    """Return the plot of a card."""
    if root not in _ROOTS:
        return _load_map(sources["map"]) if root == "load_map" else _imbalance(sources["series"])
    one = _ROOTS[root]
    place = _BATCH if one.across == "batch" else one.across
    settings = {"y_range": DataRange1d(range_padding=0.2)} if root == "replicas" else {}
    plot = canvas(root, place, one.label, **settings)
    add = add_bars if one.is_bars else add_line
    drawn = add(plot, sources[one.source], one.across, one.column, one.colour)
    if one.has_level:
        add_level(plot, 1.0)
    if one.axis:
        short_numbers(plot.yaxis, one.axis)
    add_tips(plot, [(place, f"@{one.across}"), *one.tips], [drawn])
    return plot
