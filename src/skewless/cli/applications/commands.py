"""`skewless run APP`: the applications of the papers, on your records or on generated ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from skewless.cli.application import app
from skewless.cli.applications.options import RunOptions, WindowOptions, taking
from skewless.cli.applications.run import TABLES, run_application
from skewless.cli.option import option
from skewless.plumbing.arguments import seed_number

if TYPE_CHECKING:
    from skewless.apps.application import Application
    from skewless.apps.records.inputs import Input
    from skewless.apps.tpch.tables import TableFiles
    from skewless.apps.tpch_q5 import TpchQ5

#: The largest exponent of --skew.
_STEEPEST = 10

run = typer.Typer(help="Run an application on Spark.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(run, name="run")


@run.callback()
def _run() -> None:
    """Run an application on Spark."""


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
        from skewless.apps.wordcount import WordCount

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

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.vwap import Vwap

        return Vwap(symbol, price, size, **settings)

    run_application(options, "trades", make)


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
        from skewless.apps.hashtags import Hashtags
        from skewless.apps.records.inputs import WORD

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

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.road_condition import RoadCondition

        if positions and vehicle is not None:
            raise ValueError("give one of --vehicle COLUMN and --positions")
        known = None if positions else "vehicle" if vehicle is None else vehicle
        return RoadCondition(cell, known, speed, least, **settings)

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

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.ddos_flows import DdosFlows

        return DdosFlows(source, destination, least, **settings)

    run_application(options, "flows", make)


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

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.self_join import SelfJoin

        return SelfJoin(symbol, side, trader, time, within, **settings)

    run_application(options, "trades", make)


@run.command()
@taking(WindowOptions)
def clustering(
    options: WindowOptions,
    key: str = option("postcode", "The column with the key."),
    text: str = option("name", "The column with the texts to cluster."),
    alike: float = option(0.7, "How similar texts of a cluster must be, above 0 and at most 1."),
) -> None:
    """Cluster the similar texts of each key by VOTE and GREEDY (Dalton)."""

    def make(records: Input | None, settings: dict[str, Any]) -> Application:
        from skewless.apps.clustering import Clustering

        return Clustering(key, text, alike, **settings)

    run_application(options, "voters", make)


@run.command("tpch-q5")
@taking(RunOptions)
def tpch_q5(
    options: RunOptions,
    region: str = option("ASIA", "The name of the region."),
    window: str = option("5 minutes", "The length of windows."),
    slide: str | None = option(
        None, "The time from one window to the next; a fifth of --window if not given."
    ),
    skew: float | None = option(
        None, "Redraw the foreign keys of --input by Zipf's law with this exponent."
    ),
) -> None:
    """Compute query 5 of TPC-H in sliding windows: revenue by nation of a region (Mixed).

    --input is a folder with the tables, as generators of TPC-H write them. Their keys are even;
    --skew redraws them. --generate makes this many line items, with skewed foreign keys.
    """

    def make(records: Any, settings: dict[str, Any]) -> TpchQ5:
        from skewless.apps.tpch_q5 import TpchQ5

        return TpchQ5(region, window, slide, **settings)

    def prepare(files: TableFiles | None) -> TableFiles | None:
        from skewless.apps.tpch.skewing import Skew

        if skew is None:
            return files
        if files is None:
            raise ValueError("--skew goes with --input: generated foreign keys are skewed already")
        if options.checkpoint is not None:
            raise ValueError(
                "--skew cannot be combined with --checkpoint: it draws from the keys that exist now"
            )
        if not 0 <= skew <= _STEEPEST:
            raise ValueError(f"--skew must be at least 0 and at most {_STEEPEST}, not {skew}")
        seed = 0 if options.seed is None else seed_number(options.seed, "--seed")
        return replace(files, skew=Skew(skew, window, seed).of)

    run_application(options, TABLES, make, prepare)
