"""What `skewless run` does for every application: options, check, start Spark, run, show."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import (
    app,
    needing_bokeh,
    refusing_bad_input,
    require_spark,
    scratch_folder,
    spark_session,
    stopped,
)
from skewless.cli.live import serving
from skewless.cli.option import shared, taking
from skewless.cli.screen import console, print_json, progress_bar
from skewless.plumbing.arguments import MOST_WORKERS, path_text, seed_number, whole

if TYPE_CHECKING:
    from skewless.apps.computation import Application
    from skewless.apps.records.inputs import Input

_TOP = 20
_LONGEST_CELL = 80

run = typer.Typer(help="Run an application on Spark.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(run, name="run")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where the records come from, how they are routed, and where the results go."""

    input_: str | None = shared(None, reading.INPUT, "--input")
    generate: str | None = shared(
        None, "Instead of --input: make this many records, the same each time."
    )
    strategy: str | None = shared(
        None,
        "A name, or module:Class for your own; or auto, plain or local, as in "
        "`aggregate`, but not for self-join. "
        "If not given: cascade-ahead, but mixed for self-join.",
    )
    set_: list[str] | None = shared(None, "Set a strategy parameter: name=value.", "--set")
    workers: int = shared(8, "Number of workers.")
    stream: bool = shared(False, "Read the folder as a stream, until all is read.", "--stream")
    output: str | None = shared(
        None, "Folder for all results, as Parquet; without it, 20 are shown."
    )
    checkpoint: str | None = shared(
        None, "Folder for the state of the stream; the next run resumes from it."
    )
    format_: str = shared("auto", reading.FORMAT, "--format")
    delimiter: str = shared("auto", reading.DELIMITER)
    files_per_batch: int | None = shared(
        None, "Files per micro-batch; all that there are if not given."
    )
    watermark: str | None = shared(
        None, "How late records may be; each window is written once, when complete."
    )
    dashboard: bool = shared(
        False, "Show the stream on a live page on this machine.", "--dashboard"
    )
    seed: int | None = shared(None, "Seed of the routing; a random one if not given.")
    master: str = shared("local[*]", "Where Spark runs.")
    as_json: bool = shared(
        False, "Print all results, one JSON object per line, in no order.", "--json"
    )


@dataclass(frozen=True, kw_only=True)
class WindowOptions(RunOptions):
    """The same with windows of event time."""

    time: str | None = shared(None, "The column with the time of a record, for --window.")
    window: str | None = shared(None, "The length of windows, like '10 minutes'.")
    slide: str | None = shared(None, "The time from one window to the next, if windows overlap.")


def application(
    place: str, kind: str, options: type[RunOptions] = WindowOptions
) -> Callable[[Callable[..., dict[str, Any] | None]], None]:
    """Make a function the command that runs an application, of the module and class `place`.

    The command has the function's options, and then the fields of `options`. The function gets its
    own options and, as its first argument, the user's records; None if records of this `kind` are
    generated. It returns the fields of the application; None if they are its options.
    """

    def added(fields_of: Callable[..., dict[str, Any] | None]) -> None:
        @functools.wraps(fields_of)
        def command(chosen: RunOptions, **values: Any) -> None:
            def make(records: Input | None, settings: dict[str, Any]) -> Application:
                module, name = place.split(":")
                cls = getattr(import_module(f"skewless.apps.{module}"), name)
                fields = fields_of(records, **values)
                made: Application = cls(**(values if fields is None else fields), **settings)
                return made

            _run(chosen, kind, make)

        run.command(fields_of.__name__.replace("_", "-"))(taking(options)(command))

    return added


def _run(
    options: RunOptions, kind: str, make: Callable[[Input | None, dict[str, Any]], Application]
) -> None:
    """Run an application; bad options are refused before Spark starts."""
    require_spark()
    from skewless.apps.records import generated
    from skewless.apps.records.inputs import find_input

    if options.dashboard:
        with needing_bokeh():
            import skewless.dashboard.live_server  # noqa: F401 - before Spark starts
    with refusing_bad_input():
        settings = _settings(options)
        _require_options(options)
        records = None
        if options.input_ is not None:
            records = find_input(options.input_, options.format_, options.delimiter)
            if options.stream:
                records.require_folder()
        made = make(records, settings)
        if records is not None:
            for option, names in made.columns().items():
                records.require_columns(names, option)
        if options.stream:
            made.batch_column()
        if options.generate is not None:
            n_records = reading.count(
                options.generate, "--generate", generated.FEWEST, generated.MOST
            )
    chosen: Any = made.strategy
    warm = [chosen if isinstance(chosen, str) else chosen.name]
    with scratch_folder() as scratch, spark_session(options.master, scratch, warm) as spark:
        try:
            if records is None:
                generated.write_generated(kind, scratch / "generated", n_records)
                records = find_input(str(scratch / "generated"))
            if options.stream:
                _run_stream(spark, made, records, options, scratch)
            elif options.output is not None:
                made.of(records.read(spark)).write.parquet(options.output)
            else:
                _show(made, made.of(records.read(spark)), options.as_json)
        except (ValueError, OSError) as error:
            raise stopped(str(error), 2) from None
    if options.output is not None:
        if options.as_json:
            print_json({"output": options.output})
        else:
            print(f"The results: {options.output}")


def _settings(options: RunOptions) -> dict[str, Any]:
    """Return the settings of all applications, without options that were not given."""
    from skewless.spark.aggregation.choosing import FORMS, LOCAL

    settings: dict[str, Any] = {
        name: value
        for name in ("time", "window", "slide", "watermark")
        if (value := getattr(options, name, None)) is not None
    }
    given = reading.pairs(options.set_ or [], "--set")
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
        settings["strategy"] = reading.one_strategy(options.strategy, given, "--strategy")
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
    if (options.input_ is None) == (options.generate is None):
        raise ValueError("give one of --input PATH and --generate RECORDS")
    for option, value, other, there in (
        ("--checkpoint", checkpoint, "--stream", options.stream),
        ("--watermark", options.watermark, "--stream", options.stream),
        ("--files-per-batch", options.files_per_batch, "--stream", options.stream),
        ("--dashboard", options.dashboard, "--stream", options.stream),
        ("--checkpoint", checkpoint, "--input: generated records end with the run", options.input_),
        ("--format", options.format_ != "auto", "--input", options.input_),
        ("--delimiter", options.delimiter != "auto", "--input", options.input_),
    ):
        if value not in (None, False) and there in (None, False):
            raise ValueError(f"{option} goes with {other}")
    if output is not None:
        require_writable(output, going_on=checkpoint is not None and is_begun(checkpoint))


def _run_stream(
    spark: Any, made: Application, records: Input, options: RunOptions, scratch: Path
) -> None:
    from skewless.apps.computation import ledger_beside
    from skewless.apps.records.generated import FILES_PER_BATCH
    from skewless.spark.aggregation.windows import WINDOW
    from skewless.spark.balance.history import History
    from skewless.spark.ledger.ledger import Ledger

    n_files = options.files_per_batch
    if n_files is None and options.generate is not None:
        n_files = FILES_PER_BATCH
    output = options.output or str(scratch / "results")
    checkpoint = options.checkpoint or str(scratch / "checkpoint")
    read = records.read_stream(spark, n_files)
    page: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if options.dashboard:
        page = serving(History(Ledger(ledger_beside(checkpoint))), beside_results=True)
    n_done = 0
    with page, progress_bar() as bar:
        task = bar.add_task("micro-batches", total=None)

        def progress(done: int) -> None:
            nonlocal n_done
            n_done = done
            bar.update(task, completed=done)

        interrupted = False
        try:
            made.stream(read, output, checkpoint, progress)
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
    column = made.batch_column()
    _show(made, results if column is None else results.drop(column), options.as_json)
    if options.as_json:
        return
    if made.mode == "append" and WINDOW in results.columns:
        print("Windows that the watermark has not passed yet are not shown.")
    if options.checkpoint is not None:
        print("These are only the results of this run, and they are not kept; --output keeps all.")


def _where_it_resumes(options: RunOptions, n_done: int) -> str:
    """Return the message for a user who has stopped a stream: where it resumes."""
    if options.checkpoint is None:
        return (
            "stopped: the same command begins with the first record again; with --checkpoint and "
            "--output it would resume"
        )
    point = f"with micro-batch {n_done} of" if n_done else "where it was before, by"
    return f"stopped: the same command resumes {point} checkpoint {options.checkpoint}"


def _show(made: Application, results: Any, as_json: bool) -> None:
    if as_json:
        from skewless.apps.computation import json_lines

        for line in json_lines(results):
            print(line)
        return
    first = made.ranked(results, _TOP)
    table = Table(box=None)
    for name in first.columns:
        table.add_column(name, justify="left" if name in made.about else "right")
    for row in first.collect():
        table.add_row(*(_text(row[name], name in made.about) for name in first.columns))
    console().print(table)


def _text(value: Any, is_about: bool) -> str:
    """Return a cell of the table: a column of what the row is about, or a number."""
    if value is None:
        return "null"
    if isinstance(value, tuple) and hasattr(value, "start"):
        return f"{value.start} – {value.end}"  # type: ignore[attr-defined]
    if is_about:
        text = str(value)
        return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if abs(value) < 1 else f"{value:,.2f}"
