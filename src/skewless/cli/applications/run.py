"""What `skewless run` does for every application: check, start Spark, run, show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import refusing_bad_input, stopped
from skewless.cli.applications.options import RunOptions
from skewless.cli.live import serving
from skewless.cli.needs import needing_bokeh
from skewless.cli.on_spark import require_spark, scratch_folder, spark_session
from skewless.cli.screen import console, print_json, progress_bar
from skewless.plumbing.arguments import MOST_WORKERS, path_text, seed_number, whole

if TYPE_CHECKING:
    from skewless.apps.computation import Computation
    from skewless.apps.records.inputs import Input
    from skewless.apps.tpch.tables import TableFiles

    Found = Input | TableFiles

_TOP = 20
_LONGEST_CELL = 80
#: The kind of records that is several tables.
TABLES = "tables"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


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
            least, most = generated.fewest_records(kind), generated.most_records(kind)
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
            else:
                _run_batch(application, records.read(spark), options)
        except (ValueError, OSError) as error:
            raise stopped(str(error), 2) from None
    if options.output is not None:
        if options.as_json:
            print_json({"output": options.output})
        else:
            print(f"The results: {options.output}")


def _settings(options: RunOptions) -> dict[str, Any]:
    """Return the settings of all applications, without options that were not given."""
    settings: dict[str, Any] = {**options.timing()}
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
    from skewless.apps.records.outputs import is_begun, require_writable
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
        from skewless.apps.tpch.tables import find_tables

        return find_tables(path, format, delimiter)
    from skewless.apps.records.inputs import find_input

    return find_input(path, format, delimiter)


def _run_batch(application: Computation[Any], records: Any, options: RunOptions) -> None:
    results = application.of(records)
    if options.output is not None:
        results.write.parquet(options.output)
    else:
        _show(application, results, options.as_json)


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
    from skewless.apps.records.outputs import ledger_beside
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
        from skewless.apps.records.outputs import json_lines

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
