"""The live page of a query: a document of Bokeh, made from its history and kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bokeh.document import Document
from bokeh.models import ColumnDataSource, DataRange1d, LinearColorMapper

from skewless.dashboard import figures, live_history
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
    fill_document(doc, history)
    write_document(doc, path)


def fill_document(doc: Document, history: Record) -> Callable[[Record], None]:
    """Fill a document with the page of a history; return what brings it up to date."""
    sources = {name: ColumnDataSource(found) for name, found in _columns(history).items()}
    texts = {name: figures.text_root(name) for name in ("status", "summary", "hot_keys")}
    shown = history

    def bring_up_to_date(history: Record) -> None:
        nonlocal shown
        if history is not shown:
            shown = history
            for name, columns in _columns(history).items():
                sources[name].data = columns
        # A text that has not changed is not sent again.
        texts["status"].text = live_history.status(history)
        texts["summary"].text = live_history.summary(history)
        texts["hot_keys"].text = live_history.hot_keys_text(history)
        # The cards of the page, and how long their legends are: another page must be loaded anew.
        cards = (f"{section.root} {len(section.legend)}" for section in sections_of(history))
        texts["status"].tags = [",".join(cards) or "waiting"]

    bring_up_to_date(history)
    foot = (
        f"Read from {history['place']}. Batch time is from the plan of a micro-batch to its last "
        "report; Spark's own work before and after is not in it."
    )
    cards = [
        (section, texts.get(section.root) or _figure(section.root, sources))
        for section in sections_of(history)
    ]
    above = (texts["status"], texts["summary"])
    frame(doc, "skewless: live balance", live_history.heading(history), cards, above, foot)
    return bring_up_to_date


def _columns(history: Record) -> dict[str, dict[str, list[Any]]]:
    """Return the columns that plots draw, by their source."""
    return {
        "series": live_history.series(history),
        "map": live_history.load_map(history),
        "loads": live_history.last_loads(history, BLUE, RED),
        "state": live_history.last_state(history),
    }


class _Plot(NamedTuple):
    """A card with a plot of one column: what it says, its axis and colour, and its tips."""

    title: str
    about: str
    column: str
    label: str
    colour: str
    form: str  # of the values under the pointer
    more: tuple[tuple[str, str], ...] = ()  # what else is shown there
    source: str = "series"  # of `_columns`: a row per micro-batch, or else per worker


_KEYS = (("keys", "@keys{0,0}"),)
_PLOTS = {
    "last_loads": _Plot(
        "Load per worker, last micro-batch",
        "In units of the fair share.",
        *("load", "load, 1 = fair share", "colour", "{0.00}", (("records", "@records{0,0}"),)),
        source="loads",
    ),
    "throughput": _Plot(
        "Throughput",
        "Records per second of a micro-batch.",
        *("records_per_second", "records per second", GREEN, "{0,0}"),
    ),
    "batch_time": _Plot(
        "Batch time", "From the plan to the last report.", "seconds", "seconds", ORANGE, "{0.00}"
    ),
    "replicas": _Plot(
        "Replicas per key",
        "1 means that no key is on two workers.",
        *("replication", "replicas per key", VIOLET, "{0.0000}", _KEYS),
    ),
    "moves": _Plot(
        "Moves",
        "Keys whose state went to another worker.",
        *("moves", "keys moved", VIOLET, "{0,0}"),
    ),
    "state": _Plot(
        "State per worker",
        "Bytes after the last micro-batch.",
        *("bytes", "bytes", GREEN, "{0.00 d}", _KEYS),
        source="state",
    ),
}


def sections_of(history: Record) -> list[Section]:
    """Return the cards of a query of this kind."""
    if not history["known"] or not history["routes"]:
        return []
    ramp = f"linear-gradient(to right, {BLUE}, {BLUE}05 50%, {RED}05 50%, {RED})"
    is_bounded = history["tolerance"] is not None
    above = Sign("above the tolerance" if is_bounded else "above 1.1", RED, "box")
    lines = [
        Sign("records", BLUE),
        *([Sign("time of workers", VIOLET)] if _has(history, "seconds_imbalance") else []),
        *([Sign("cost of records", GREEN)] if _has(history, "cost_imbalance") else []),
        *([Sign("tolerance", GREY, "dashed")] if is_bounded else []),
    ]
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
        _card("last_loads", Sign("load", BLUE, "box"), above, Sign("fair share", GREY, "dashed")),
        Section(
            "imbalance",
            "Imbalance",
            "How much more the busiest worker had than the mean. 0 is perfect.",
            tuple(lines),
        ),
    ]
    own = ("moves", "state") if history["keeps_state"] else ("replicas",)
    found += [_card(root) for root in ("throughput", "batch_time", *own)]
    said = "The heaviest keys of the last micro-batch, and the workers that have them."
    return [*found, Section("hot_keys", "Hot keys", said, is_wide=True)]


def _card(root: str, *legend: Sign) -> Section:
    one = _PLOTS[root]
    return Section(root, one.title, one.about, legend)


def _has(history: Record, name: str) -> bool:
    return any(batch[name] is not None for batch in history["batches"])


def _load_map(source: Any) -> Any:
    close = {"range_padding": 0, "default_span": 1.0}
    ranges = {axis: DataRange1d(**close) for axis in ("x_range", "y_range")}
    plot = figures.canvas("load_map", _BATCH, "worker", height=300, **ranges)
    plot.ygrid.grid_line_color = None
    colours = LinearColorMapper(palette=list(RAMP), low=0.0, high=2.0, nan_color=_ABSENT)
    places = {name: name for name in ("image", "x", "y", "dw", "dh")}
    image = plot.image(**places, source=source, color_mapper=colours)
    figures.whole_numbers(plot.yaxis)
    tips = [(_BATCH, "$x{0}"), ("worker", "$y{0}"), ("load", "@image{0.00} × fair share")]
    figures.add_tips(plot, tips, [image], across=False)
    return plot


def _imbalance(source: Any) -> Any:
    plot = figures.canvas("imbalance", _BATCH, "(max − mean) / mean")
    figures.add_line(plot, source, "batch", "seconds_imbalance", VIOLET)
    figures.add_line(plot, source, "batch", "cost_imbalance", GREEN)
    line = figures.add_line(plot, source, "batch", "imbalance", BLUE)
    plot.line("batch", "tolerance", source=source, **figures.DASHED)
    tips = [
        (_BATCH, "@batch"),
        ("by records", "@imbalance{0.000}"),
        ("by time", "@seconds_imbalance{0.000}"),
        ("tolerance", "@tolerance{0.000}"),
    ]
    figures.add_tips(plot, tips, [line])
    return plot


def _figure(root: str, sources: Mapping[str, Any]) -> Any:
    """Return the plot of a card."""
    if root == "load_map":
        return _load_map(sources["map"])
    if root == "imbalance":
        return _imbalance(sources["series"])
    one = _PLOTS[root]
    source = sources[one.source]
    across, place = ("batch", _BATCH) if one.source == "series" else ("worker", "worker")
    settings = {"y_range": DataRange1d(range_padding=0.2)} if root == "replicas" else {}
    plot = figures.canvas(root, place, one.label, **settings)
    is_bars = across == "worker" or root == "moves"
    add = figures.add_bars if is_bars else figures.add_line
    drawn = add(plot, source, across, one.column, one.colour)
    if root in ("last_loads", "replicas"):
        figures.add_level(plot, 1.0)
    else:
        figures.short_numbers(plot.yaxis, "0.[00] d" if one.label == "bytes" else "0.[00]a")
    tips = [(place, f"@{across}"), (one.label, f"@{one.column}{one.form}"), *one.more]
    figures.add_tips(plot, tips, [drawn])
    return plot
