"""`skewless run APP`: the applications of the papers, on your records or on generated ones."""

from __future__ import annotations

from typing import Any

from skewless.cli.applications.run import RunOptions, application
from skewless.cli.option import option

#: The user's records: an `Input`, whose module needs Spark; None: they are generated.
Records = Any
Fields = dict[str, Any]


@application("windowed:WordCount", "words")
def wordcount(
    records: Records,
    key: str | None = option(
        None, "The key column(s); a plain text needs none: its words are counted."
    ),
) -> Fields:
    """Count the records of each key, or of each window and key."""
    if key is None and records is not None and records.format != "text":
        names = records.columns()
        there = f"; {records.path!r} has {', '.join(names)}" if names else ""
        raise ValueError(f"--key COLUMN is needed (several: separated by commas){there}")
    return {"key": tuple(part.strip() for part in (key or "word").split(","))}


@application("windowed:Vwap", "trades")
def vwap(
    _: Records,
    symbol: str = option("symbol", "The column with the symbol."),
    price: str = option("price", "The column with the price."),
    size: str = option("size", "The column with the traded amount."),
) -> None:
    """Compute the volume-weighted average price of each symbol (PStream)."""


@application("windowed:Hashtags", "posts")
def hashtags(
    records: Records,
    text: str | None = option(None, "The column with texts; 'text' if not given."),
    hashtag: str | None = option(
        None, "Instead of --text: the column with one hashtag per record."
    ),
    top: int | None = option(None, "Show only this many hashtags per window; all if not given."),
) -> Fields:
    """Count the hashtags of texts (PStream, Dalton, Pd-Stream)."""
    if text is None and hashtag is None:
        text = "word" if records is not None and records.format == "text" else "text"
    return {"text": text, "hashtag": hashtag, "top": top}


@application("windowed:RoadCondition", "positions")
def road_condition(
    _: Records,
    cell: str = option("cell", "The column with the cell of the map."),
    vehicle: str | None = option(None, "The column with the vehicle; 'vehicle' if not given."),
    speed: str = option("speed", "The column with its speed."),
    least: int = option(1, "Show only cells with at least this many vehicles."),
    positions: bool = option(
        False, "Count positions instead, if vehicles are not known.", "--positions"
    ),
) -> Fields:
    """Count the vehicles in each cell and period, with their mean speed (PStream).

    The period is --window, 5 minutes if not given; --time is the column 'ts' if not given.
    """
    if positions and vehicle is not None:
        raise ValueError("give one of --vehicle COLUMN and --positions")
    known = None if positions else "vehicle" if vehicle is None else vehicle
    return {"cell": cell, "vehicle": known, "speed": speed, "least": least}


@application("windowed:DdosFlows", "flows")
def ddos_flows(
    _: Records,
    source: str = option("source", "The column with the source address."),
    destination: str = option("destination", "The column with the destination."),
    least: int = option(1, "Show only sources with at least this many flows."),
) -> None:
    """Count the flows of each source address and their destinations (Pd-Stream)."""


@application("self_join:SelfJoin", "trades", RunOptions)
def self_join(
    _: Records,
    symbol: str = option("symbol", "The column with the symbol."),
    side: str = option("side", "The column with buy or sell."),
    trader: str | None = option(
        None, "The column with the trader; then only pairs of one trader count."
    ),
    time: str = option("ts", "The column with the time of a trade."),
    within: str = option("1 second", "How far apart the trades of a pair may be."),
) -> None:
    """Pair trades of one symbol on different sides that are near each other in time (Mixed)."""
