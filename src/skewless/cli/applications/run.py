"""What `skewless run` does for every application: options, check, start Spark, run, show."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import refusing_bad_input, stopped
from skewless.cli.live import serving
from skewless.cli.needs import needing_bokeh, require_spark, scratch_folder, spark_session
from skewless.cli.screen import console, print_json, progress_bar
from skewless.plumbing.arguments import MOST_WORKERS, path_text, seed_number, whole

if TYPE_CHECKING:
    from skewless.apps.computation import Computation
    from skewless.apps.records.inputs import Input
    from skewless.apps.tpch_tables import TableFiles

    Found = Input | TableFiles

_TOP = 20
_LONGEST_CELL = 80
#: The kind of records that is several tables.
TABLES = "tables"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


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


def run_application(
    options: RunOptions,
    kind: str,
    make: Callable[[Any, dict[str, Any]], Computation[Any]],
) -> None:
    """Run an application on the user's records, or on generated ones of this kind.

    Bad options are refused before Spark starts. `make` returns the application; it gets the input
    (None if records are generated) and the settings of all applications.
    """
    require_spark()
    from skewless.apps.records import generated

    if options.dashboard:
        with needing_bokeh():
            import skewless.dashboard.live_server  # noqa: F401 - before Spark starts
    with refusing_bad_input():
        settings = _settings(options)
        _require_options(options)
        records = _input(options, kind)
        application = make(records, settings)
        if records is not None:
            for option, names in (application.columns() or {"--input": ()}).items():
                records.require_columns(list(names), option)
        if options.stream:
            application.require_stream()
            application.batch_column()
        if options.generate is not None:
            least, most = generated.allowed_records(kind)
            n_records = reading.count(options.generate, "--generate", least=least, most=most)
    chosen: Any = application.strategy
    warm = [chosen if isinstance(chosen, str) else chosen.name]
    with scratch_folder() as scratch, spark_session(options.master, scratch, warm) as spark:
        try:
            if records is None:
                generated.write_generated(kind, scratch / "generated", n_records)
                records = _found(kind, str(scratch / "generated"))
            if options.stream:
                _run_stream(spark, application, records, options, scratch)
            elif options.output is not None:
                application.of(records.read(spark)).write.parquet(options.output)
            else:
                _show(application, application.of(records.read(spark)), options.as_json)
        except (ValueError, OSError) as error:
            raise stopped(str(error), 2) from None
    if options.output is not None:
        if options.as_json:
            print_json({"output": options.output})
        else:
            print(f"The results: {options.output}")


def _settings(options: RunOptions) -> dict[str, Any]:
    """Return the settings of all applications, without options that were not given."""
    names = ("time", "window", "slide", "watermark")
    said = {name: getattr(options, name, None) for name in names}
    settings: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    given = reading.pairs(options.set_ or [], "--set")
    from skewless.spark.aggregation.choosing import FORMS, LOCAL

    if options.strategy in FORMS:
        if given:
            raise ValueError(f"--set: {options.strategy!r} has no parameters")
        if options.dashboard and options.strategy != LOCAL:
            raise ValueError(
                f"--dashboard: --strategy {options.strategy} may run as plain Spark, which has no "
                "page: use local, or a name that `skewless strategies` lists"
            )
        settings["strategy"] = options.strategy
    elif options.strategy is not None:
        chosen = reading.strategies(options.strategy, given)
        if len(chosen) != 1:
            raise ValueError(f"--strategy takes one strategy, not {options.strategy!r}")
        settings["strategy"] = chosen[0]
    elif given:
        raise ValueError("--set goes with --strategy")
    settings["workers"] = whole(options.workers, "--workers", least=1, most=MOST_WORKERS)
    if options.seed is not None:
        settings["seed"] = seed_number(options.seed, "--seed")
    return settings


def _require_options(options: RunOptions) -> None:
    """Raise ValueError if options are out of range, or cannot be combined."""
    from skewless.apps.computation import is_begun, require_writable
    from skewless.spark.session_arguments import require_session

    require_session("skewless", options.master, "1g", None)
    output, checkpoint = options.output, options.checkpoint
    for option, place in (("--output", output), ("--checkpoint", checkpoint)):
        if place is not None:
            path_text(place, option)
    if options.files_per_batch is not None:
        whole(options.files_per_batch, "--files-per-batch", least=1, most=(1 << 31) - 1)
    for option, value in (
        ("--checkpoint", checkpoint),
        ("--watermark", options.watermark),
        ("--files-per-batch", options.files_per_batch),
        ("--dashboard", options.dashboard or None),
    ):
        if value is not None and not options.stream:
            raise ValueError(f"{option} goes with --stream")
    if options.generate is not None and checkpoint is not None:
        raise ValueError("--checkpoint goes with --input: generated records end with the run")
    if output is not None:
        require_writable(output, going_on=checkpoint is not None and is_begun(checkpoint))


def _input(options: RunOptions, kind: str) -> Found | None:
    if (options.input_ is None) == (options.generate is None):
        raise ValueError("give one of --input PATH and --generate RECORDS")
    if options.input_ is None:
        if options.format_ != "auto":
            raise ValueError("--format goes with --input")
        if options.delimiter is not None:
            raise ValueError("--delimiter goes with --input")
        return None
    between = "auto" if options.delimiter is None else options.delimiter
    records = _found(kind, options.input_, options.format_, between)
    if options.stream:
        records.require_folder()
    return records


def _found(kind: str, path: str, format: str = "auto", delimiter: str = "auto") -> Found:
    if kind == TABLES:
        from skewless.apps.tpch_tables import find_tables

        return find_tables(path, format, delimiter)
    from skewless.apps.records.inputs import find_input

    return find_input(path, format, delimiter)


def _run_stream(
    spark: Any, application: Computation[Any], records: Found, options: RunOptions, scratch: Path
) -> None:
    from skewless.apps.records.generated import FILES_PER_BATCH
    from skewless.spark.aggregation.windows import WINDOW

    n_files = options.files_per_batch
    if n_files is None and options.generate is not None:
        n_files = FILES_PER_BATCH
    output = options.output or str(scratch / "results")
    checkpoint = options.checkpoint or str(scratch / "checkpoint")
    read = records.read_stream(spark, n_files)
    n_done = 0
    with _page_of(checkpoint, options), progress_bar() as bar:
        task = bar.add_task("micro-batches", total=None)

        def progress(done: int) -> None:
            nonlocal n_done
            n_done = done
            bar.update(task, completed=done)

        try:
            application.stream(read, output, checkpoint, progress)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise stopped(_where_it_resumes(options, n_done), 130)
    if options.output is not None:
        return
    if not Path(output).exists():
        if not options.as_json:
            print("There are no new records.")
        return
    results = spark.read.parquet(output)
    column = application.batch_column()
    _show(application, results if column is None else results.drop(column), options.as_json)
    if not options.as_json and application.mode == "append" and WINDOW in results.columns:
        print("Windows that the watermark has not passed yet are not shown.")
    if not options.as_json and options.checkpoint is not None:
        print("These are only the results of this run, and they are not kept; --output keeps all.")


def _page_of(checkpoint: str, options: RunOptions) -> contextlib.AbstractContextManager[Any]:
    """Return a context that serves the live page while the stream runs, if it was asked for."""
    if not options.dashboard:
        return contextlib.nullcontext()
    from skewless.apps.computation import ledger_beside
    from skewless.spark.balance.history import History
    from skewless.spark.ledger.ledger import Ledger

    return serving(History(Ledger(ledger_beside(checkpoint))), beside_results=True)


def _where_it_resumes(options: RunOptions, n_done: int) -> str:
    """Return the message for a user who has stopped a stream: where it resumes."""
    if options.checkpoint is None:
        return (
            "stopped: the same command begins with the first record again; with --checkpoint and "
            "--output it would resume"
        )
    point = f"with micro-batch {n_done} of" if n_done else "where it was before, by"
    return f"stopped: the same command resumes {point} checkpoint {options.checkpoint}"


def _show(application: Computation[Any], results: Any, as_json: bool) -> None:
    if as_json:
        from skewless.apps.computation import json_lines

        for line in json_lines(results):
            print(line)
        return
    first = application.ranked(results, _TOP)
    found = {name for name in first.columns if name not in application.about}
    numbers = {name for name, kind in first.dtypes if kind.split("(")[0] in _NUMBERS}
    table = Table(box=None)
    for name in first.columns:
        table.add_column(name, justify="right" if name in numbers & found else "left")
    for row in first.collect():
        cells = [(row[name], name in numbers & found) for name in first.columns]
        table.add_row(*[_number(value) if counts else _text(value) for value, counts in cells])
    console().print(table)


def _number(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if abs(value) < 1 else f"{value:,.2f}"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple) and hasattr(value, "start"):
        return f"{value.start} – {value.end}"  # type: ignore[attr-defined]
    text = str(value)
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
