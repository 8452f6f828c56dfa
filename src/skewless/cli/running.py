"""`skewless run wordcount`: counts of one's own records, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from skewless.arguments import MOST_WORKERS, path_text, seed_number, whole
from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input, stopped
from skewless.cli.on_spark import require_spark, scratch_folder, spark_session
from skewless.cli.screen import console, progress_bar

if TYPE_CHECKING:
    from skewless.apps.inputs import Input
    from skewless.apps.wordcount import WordCount

_TOP = 20

run = typer.Typer(help="Run an application on Spark.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(run, name="run")


@run.callback()
def _run() -> None:
    """Run an application on Spark."""


@run.command()
def wordcount(
    input_: Annotated[
        str, typer.Option("--input", help="A file or folder: Parquet, CSV, JSON lines or text.")
    ],
    key: Annotated[
        str | None, typer.Option(help="The key column(s); a text is counted by word.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="A name, or module:Class for one's own.")] = (
        "cascade-ahead"
    ),
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a strategy parameter: name=value.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 8,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the folder as a stream, to its end.")
    ] = False,
    output: Annotated[
        str | None, typer.Option(help=f"Where the counts go, as Parquet; else the top {_TOP}.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where the stream keeps its state; the next run goes on.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="The column with the time of a record.")] = None,
    window: Annotated[
        str | None, typer.Option(help="The length of windows, like '10 minutes'.")
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option(help="How late records may be; windows are written once, when complete."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="parquet, csv, json or text; auto goes by the name.")
    ] = "auto",
    files_per_batch: Annotated[
        int | None, typer.Option(help="Files of a micro-batch; all that are there if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the routing; a random one if not given.")
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
) -> None:
    """Count the records of each key, or of each window and key."""
    require_spark()
    from skewless.apps.inputs import WORD, find_input, is_remote
    from skewless.apps.wordcount import WordCount, require_writable
    from skewless.spark.session_arguments import require_session

    with refusing_bad_input():
        chosen = reading.strategies(strategy, reading.pairs(set_ or [], "--set"))
        if len(chosen) != 1:
            raise ValueError(f"--strategy takes one strategy, not {strategy!r}")
        whole(workers, "--workers", least=1, most=MOST_WORKERS)
        if seed is not None:
            seed_number(seed, "--seed")
        require_session("skewless", master, "1g", None)
        for option, place in (("--output", output), ("--checkpoint", checkpoint)):
            if place is not None:
                path_text(place, option)
        if files_per_batch is not None:
            whole(files_per_batch, "--files-per-batch", least=1, most=(1 << 31) - 1)
        if not stream:
            for option, value in (
                ("--checkpoint", checkpoint),
                ("--watermark", watermark),
                ("--files-per-batch", files_per_batch),
            ):
                if value is not None:
                    raise ValueError(f"{option} goes with --stream")
        records = find_input(input_, format_)
        if key is None and records.format != "text":
            names = records.columns()
            there = f"; {input_!r} has {', '.join(names)}" if names else ""
            raise ValueError(f"--key COLUMN is needed (several with commas){there}")
        columns = [part.strip() for part in (key or WORD).split(",")]
        counting = WordCount(tuple(columns), chosen[0], workers, time, window, watermark, seed)
        records.require_columns(columns, "--key")
        records.require_columns([time] if time else [], "--time")
        if stream and not is_remote(input_) and not Path(input_).is_dir():
            raise ValueError(f"--stream reads a folder, and {input_!r} is a file")
        if output is not None:
            require_writable(output, going_on=checkpoint is not None and _used(checkpoint))
    names = [chosen[0].name]
    with scratch_folder() as scratch, spark_session(master, scratch, names) as spark:
        try:
            if not stream:
                _count(counting, records.read(spark), output)
            else:
                _count_stream(
                    spark,
                    counting,
                    records,
                    files_per_batch,
                    output or str(scratch / "counts"),
                    checkpoint or str(scratch / "checkpoint"),
                    shown=output is None,
                )
        except (ValueError, OSError) as error:
            raise stopped(str(error), 2) from None
    if output is not None:
        print(f"The counts: {output}")


def _count(counting: WordCount, records: Any, output: str | None) -> None:
    counts = counting.of(records)
    if output is not None:
        counts.write.parquet(output)
    else:
        _show(counting, counts)


def _count_stream(
    spark: Any,
    counting: WordCount,
    records: Input,
    files_per_batch: int | None,
    output: str,
    checkpoint: str,
    shown: bool,
) -> None:
    read = records.read_stream(spark, files_per_batch)
    with progress_bar() as bar:
        task = bar.add_task("micro-batches", total=None)
        counting.stream(read, output, checkpoint, lambda done: bar.update(task, completed=done))
    if not shown:
        return
    if not Path(output).exists():
        print("Nothing new to count.")
        return
    counts = spark.read.parquet(output)
    _show(counting, counts.drop("batch") if counting.mode == "append" else counts)
    if counting.mode == "append":
        print("Windows that the watermark has not passed yet are not counted here.")


def _show(counting: WordCount, counts: Any) -> None:
    names = [name for name in counts.columns if name != counting.result]
    table = Table(*names, box=None)
    table.add_column(counting.result, justify="right")
    for row in counting.top(counts, _TOP).collect():
        cells = [_text(row[name]) for name in names]
        table.add_row(*cells, f"{row[counting.result]:,}")
    console().print(table)


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple) and hasattr(value, "start"):
        return f"{value.start} – {value.end}"  # type: ignore[attr-defined]
    return str(value)


def _used(checkpoint: str) -> bool:
    return Path(checkpoint).is_dir() and any(Path(checkpoint).iterdir())
