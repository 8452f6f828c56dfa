"""Options that all applications of `skewless run` take, declared once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer

DELIMITER = typer.Option(
    "--delimiter",
    help=r"The character between the columns of CSV files, like ';' or '\t'; "
    "a comma if not given, and a tab for .tsv.",
)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where the records come from, how they are routed, and where the results go."""

    input_: Annotated[
        str | None,
        typer.Option("--input", help="A file or folder: Parquet, CSV, JSON lines or text."),
    ] = None
    generate: Annotated[
        str | None, typer.Option(help="Make this many records instead, the same each time.")
    ] = None
    strategy: Annotated[
        str | None,
        typer.Option(
            help="A name, or module:Class for one's own; auto, plain or local, as `aggregate` "
            "takes them, but not for self-join and tpch-q5. "
            "If not given, cascade-ahead, and mixed for self-join and tpch-q5."
        ),
    ] = None
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a strategy parameter: name=value.")
    ] = None
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 8
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the folder as a stream, to its end.")
    ] = False
    output: Annotated[
        str | None,
        typer.Option(help="Where the results go, as Parquet; else the first 20 are shown."),
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option(help="Where the stream keeps its state; the next run goes on.")
    ] = None
    format_: Annotated[
        str,
        typer.Option("--format", help="parquet, csv, jsonl or text; auto goes by the name."),
    ] = "auto"
    delimiter: Annotated[str | None, DELIMITER] = None
    files_per_batch: Annotated[
        int | None, typer.Option(help="Files of a micro-batch; all that are there if not given.")
    ] = None
    watermark: Annotated[
        str | None,
        typer.Option(help="How late records may be; windows are written once, when complete."),
    ] = None
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show the stream on a live page of this machine.")
    ] = False
    seed: Annotated[
        int | None, typer.Option(help="Seed of the routing; a random one if not given.")
    ] = None
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]"
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print all results, one JSON object per line, in no order."),
    ] = False

    def timing(self) -> dict[str, str]:
        """Return what was said about times and windows."""
        names = ("time", "window", "slide", "watermark")
        said = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class WindowOptions(RunOptions):
    """The same with windows of event time."""

    time: Annotated[
        str | None, typer.Option(help="The column with the time of a record, for --window.")
    ] = None
    window: Annotated[
        str | None, typer.Option(help="The length of windows, like '10 minutes'.")
    ] = None
    slide: Annotated[
        str | None, typer.Option(help="From one window to the next, where windows overlap.")
    ] = None


def taking(options: type[RunOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of `options` as options of the command line.

    The command gets them as one object, its first argument; its others are options of its own,
    which the help lists first.
    """
    hints = get_type_hints(options, include_extras=True)
    fields = dataclasses.fields(options)

    def wrapped(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        shared = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in fields
        ]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            common = {field.name: values.pop(field.name) for field in fields}
            command(options(**common), **values)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        signature = inspect.Signature([*parameters, *shared])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return wrapped
