"""Options that all applications of `skewless run` take, declared once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, get_type_hints

import typer

DELIMITER = typer.Option(
    "--delimiter",
    help=r"The character between the columns of CSV files, like ';' or '\t'; "
    "a comma if not given, and a tab for .tsv.",
)


def _option(default: Any, help: str, *names: str) -> Any:
    """Declare a field that is an option: its default, its help, and its name if that differs."""
    return field(default=default, metadata={"option": typer.Option(*names, help=help)})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where the records come from, how they are routed, and where the results go."""

    input_: str | None = _option(
        None, "A file or folder: Parquet, CSV, JSON lines or text.", "--input"
    )
    generate: str | None = _option(
        None, "Instead of --input: make this many records, the same each time."
    )
    strategy: str | None = _option(
        None,
        "A name, or module:Class for your own; or auto, plain or local, as in "
        "`aggregate`, but not for self-join and tpch-q5. "
        "If not given: cascade-ahead, but mixed for self-join and tpch-q5.",
    )
    set_: list[str] | None = _option(None, "Set a strategy parameter: name=value.", "--set")
    workers: int = _option(8, "Number of workers.")
    stream: bool = _option(False, "Read the folder as a stream, until all is read.", "--stream")
    output: str | None = _option(
        None, "Folder for all results, as Parquet; without it, 20 are shown."
    )
    checkpoint: str | None = _option(
        None, "Folder for the state of the stream; the next run resumes from it."
    )
    format_: str = _option(
        "auto", "parquet, csv, jsonl or text; auto uses the file name.", "--format"
    )
    delimiter: str | None = field(default=None, metadata={"option": DELIMITER})
    files_per_batch: int | None = _option(
        None, "Files per micro-batch; all that there are if not given."
    )
    watermark: str | None = _option(
        None, "How late records may be; each window is written once, when complete."
    )
    dashboard: bool = _option(
        False, "Show the stream on a live page on this machine.", "--dashboard"
    )
    seed: int | None = _option(None, "Seed of the routing; a random one if not given.")
    master: str = _option("local[*]", "Where Spark runs.")
    as_json: bool = _option(
        False, "Print all results, one JSON object per line, in no order.", "--json"
    )

    def timing(self) -> dict[str, str]:
        """Return the options about times and windows that were given."""
        names = ("time", "window", "slide", "watermark")
        said = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class WindowOptions(RunOptions):
    """The same with windows of event time."""

    time: str | None = _option(None, "The column with the time of a record, for --window.")
    window: str | None = _option(None, "The length of windows, like '10 minutes'.")
    slide: str | None = _option(None, "The time from one window to the next, if windows overlap.")


def taking(options: type[RunOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of `options` as options of the command line.

    The command gets them as one object, its first argument. Its other arguments are options of this
    command only, which the help lists first.
    """
    hints = get_type_hints(options)
    fields = dataclasses.fields(options)

    def wrapped(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        shared = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default,
                annotation=Annotated[hints[one.name], one.metadata["option"]],
            )
            for one in fields
        ]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            common = {one.name: values.pop(one.name) for one in fields}
            command(options(**common), **values)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        signature = inspect.Signature([*parameters, *shared])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return wrapped
