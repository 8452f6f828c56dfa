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
        str | None,
        typer.Option(help="Instead of --input: make this many records, the same each time."),
    ] = None
    strategy: Annotated[
        str | None,
        typer.Option(
            help="A name, or module:Class for your own; or auto, plain or local, as in "
            "`aggregate`, but not for self-join and tpch-q5. "
            "If not given: cascade-ahead, but mixed for self-join and tpch-q5."
        ),
    ] = None
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a strategy parameter: name=value.")
    ] = None
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 8
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the folder as a stream, until all is read.")
    ] = False
    output: Annotated[
        str | None,
        typer.Option(help="Folder for all results, as Parquet; without it, 20 are shown."),
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Folder for the state of the stream; the next run resumes from it."),
    ] = None
    format_: Annotated[
        str,
        typer.Option("--format", help="parquet, csv, jsonl or text; auto uses the file name."),
    ] = "auto"
    delimiter: Annotated[str | None, DELIMITER] = None
    files_per_batch: Annotated[
        int | None, typer.Option(help="Files per micro-batch; all that there are if not given.")
    ] = None
    watermark: Annotated[
        str | None,
        typer.Option(help="How late records may be; each window is written once, when complete."),
    ] = None
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show the stream on a live page on this machine.")
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
        """Return the options about times and windows that were given."""
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
        str | None, typer.Option(help="The time from one window to the next, if windows overlap.")
    ] = None


def taking(options: type[RunOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of `options` as options of the command line.

    The command gets them as one object, its first argument. Its other arguments are options of this
    command only, which the help lists first.
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
