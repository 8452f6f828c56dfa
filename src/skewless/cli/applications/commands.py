"""`skewless run APP`: the applications of the papers, on your records or on generated ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

from skewless.cli.application import app, refusing_bad_input
from skewless.cli.applications.run import (
    TABLES,
    RunOptions,
    WindowOptions,
    run_application,
    taking,
)
from skewless.cli.option import option

if TYPE_CHECKING:
    from skewless.apps.computation import Application
    from skewless.apps.records.inputs import Input

run = typer.Typer(help="Run an application on Spark.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(run, name="run")


def _made(place: str, *fields: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """Return what makes an application of these fields; only then is its module imported."""

    def make(records: Any, settings: dict[str, Any]) -> Any:
        module, _, name = place.partition(":")
        return getattr(import_module(f"skewless.apps.{module}"), name)(*fields, **settings)

    return make


@run.command()
@taking(WindowOptions)
def wordcount(
    options: WindowOptions,
    key: str | None = option(
        None, "The key column(s); a plain text needs none: its words are counted."
    ),
) -> None:
    """Count the records of each key, or of each window and key."""

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.records.inputs import WORD
        from skewless.apps.windowed import WordCount

        if key is None and records is not None and records.format != "text":
            names = records.columns()
            there = f"; {records.path!r} has {', '.join(names)}" if names else ""
            raise ValueError(f"--key COLUMN is needed (several: separated by commas){there}")
        columns = tuple(part.strip() for part in (key or WORD).split(","))
        return WordCount(columns, **settings)

    run_application(options, "words", make)


@run.command()
@taking(WindowOptions)
def vwap(
    options: WindowOptions,
    symbol: str = option("symbol", "The column with the symbol."),
    price: str = option("price", "The column with the price."),
    size: str = option("size", "The column with the traded amount."),
) -> None:
    """Compute the volume-weighted average price of each symbol (PStream)."""
    run_application(options, "trades", _made("windowed:Vwap", symbol, price, size))


@run.command()
@taking(WindowOptions)
def hashtags(
    options: WindowOptions,
    text: str | None = option(None, "The column with texts; 'text' if not given."),
    hashtag: str | None = option(
        None, "Instead of --text: the column with one hashtag per record."
    ),
    top: int | None = option(None, "Show only this many hashtags per window; all if not given."),
) -> None:
    """Count the hashtags of texts (PStream, Dalton, Pd-Stream)."""

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.records.inputs import WORD
        from skewless.apps.windowed import Hashtags

        column = text
        if text is None and hashtag is None:
            column = WORD if records is not None and records.format == "text" else "text"
        return Hashtags(column, hashtag, top, **settings)

    run_application(options, "posts", make)


@run.command("road-condition")
@taking(WindowOptions)
def road_condition(
    options: WindowOptions,
    cell: str = option("cell", "The column with the cell of the map."),
    vehicle: str | None = option(None, "The column with the vehicle; 'vehicle' if not given."),
    speed: str = option("speed", "The column with its speed."),
    least: int = option(1, "Show only cells with at least this many vehicles."),
    positions: bool = option(
        False, "Count positions instead, if vehicles are not known.", "--positions"
    ),
) -> None:
    """Count the vehicles in each cell and period, with their mean speed (PStream).

    The period is --window, 5 minutes if not given; --time is the column 'ts' if not given.
    """
    with refusing_bad_input():
        if positions and vehicle is not None:
            raise ValueError("give one of --vehicle COLUMN and --positions")
    known = None if positions else "vehicle" if vehicle is None else vehicle
    make = _made("windowed:RoadCondition", cell, known, speed, least)
    run_application(options, "positions", make)


@run.command("ddos-flows")
@taking(WindowOptions)
def ddos_flows(
    options: WindowOptions,
    source: str = option("source", "The column with the source address."),
    destination: str = option("destination", "The column with the destination."),
    least: int = option(1, "Show only sources with at least this many flows."),
) -> None:
    """Count the flows of each source address and their destinations (Pd-Stream)."""
    run_application(options, "flows", _made("windowed:DdosFlows", source, destination, least))


@run.command("self-join")
@taking(RunOptions)
def self_join(
    options: RunOptions,
    symbol: str = option("symbol", "The column with the symbol."),
    side: str = option("side", "The column with buy or sell."),
    trader: str | None = option(
        None, "The column with the trader; then only pairs of one trader count."
    ),
    time: str = option("ts", "The column with the time of a trade."),
    within: str = option("1 second", "How far apart the trades of a pair may be."),
) -> None:
    """Pair trades of one symbol on different sides that are near each other in time (Mixed)."""
    run_application(
        options, "trades", _made("self_join:SelfJoin", symbol, side, trader, time, within)
    )


@run.command()
@taking(WindowOptions)
def clustering(
    options: WindowOptions,
    key: str = option("postcode", "The column with the key."),
    text: str = option("name", "The column with the texts to cluster."),
    alike: float = option(0.7, "How similar texts of a cluster must be, above 0 and at most 1."),
) -> None:
    """Cluster the similar texts of each key by VOTE and GREEDY (Dalton)."""
    run_application(options, "voters", _made("clustering:Clustering", key, text, alike))


@run.command("tpch-q5")
@taking(RunOptions)
def tpch_q5(
    options: RunOptions,
    region: str = option("ASIA", "The name of the region."),
    window: str = option("5 minutes", "The length of windows."),
    slide: str | None = option(
        None, "The time from one window to the next; a fifth of --window if not given."
    ),
) -> None:
    """Compute query 5 of TPC-H in sliding windows: revenue by nation of a region (Mixed).

    --input is a folder with the tables, as generators of TPC-H write them. Their keys are even.
    --generate makes this many line items, with skewed foreign keys.
    """
    run_application(options, TABLES, _made("tpch_q5:TpchQ5", region, window, slide))
