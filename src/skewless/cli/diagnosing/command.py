"""`skewless diagnose`: is a job, or a key column, skewed, and what would help?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input
from skewless.cli.applications.options import DELIMITER
from skewless.cli.diagnosing.keys import Asked, diagnose_in_memory, diagnose_on_spark
from skewless.cli.diagnosing.logs import show_log
from skewless.cli.needs import needing_bokeh
from skewless.cli.on_spark import require_spark
from skewless.cli.screen import AsJson, console, print_json
from skewless.diagnosis.key_candidates import Candidate, rank_columns
from skewless.diagnosis.key_column import KeyReport
from skewless.diagnosis.stragglers import SLOW
from skewless.plumbing.arguments import MOST_WORKERS, printable, shown
from skewless.workloads.trace import columns_of, delimiter_hint, is_remote

_LISTED = 10


@app.command()
def diagnose(
    input_: Annotated[
        str | None,
        typer.Option("--input", help="A file or folder: Parquet, CSV, JSON lines or text."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The key column(s); without it, all columns are ranked.")
    ] = None,
    event_log: Annotated[
        Path | None, typer.Option(help="Instead of --input: the event log of a Spark application.")
    ] = None,
    format_: Annotated[
        str,
        typer.Option("--format", help="parquet, csv, jsonl or text; auto uses the file name."),
    ] = "auto",
    delimiter: Annotated[str | None, DELIMITER] = None,
    workers: Annotated[str | None, typer.Option(help="Number of workers; 16 if not given.")] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            help="Read at most this many records; 5e6 if not given. With --spark, all are counted "
            "and this many are simulated."
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Records per window; 10000 if not given.")
    ] = None,
    slow: Annotated[
        float | None,
        typer.Option(
            help="With --event-log: a task counts as slow from this many times the median on; "
            f"{SLOW:g} if not given."
        ),
    ] = None,
    on_spark: Annotated[
        bool, typer.Option("--spark", help="Count all records on Spark; needs --key.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(help="With --spark: where Spark runs; local[*] if not given.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a page with plots to this file; needs --key.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show whether records or a finished job are skewed, and what would help."""
    if page is not None:
        with needing_bokeh():
            from skewless.dashboard.key_page import write_key_page
    if on_spark:
        require_spark()
    with refusing_bad_input():
        for option, given in (
            ("--spark", on_spark),
            ("--page", page is not None),
            ("--key", key is not None and input_ is None),
            ("--workers", workers is not None),
            ("--limit", limit is not None),
            ("--window", window is not None),
            ("--format", format_ != "auto"),
            ("--delimiter", delimiter is not None),
        ):
            if given and event_log is not None:
                raise ValueError(f"{option} goes with --input, not with --event-log")
        if slow is not None and event_log is None:
            raise ValueError("--slow goes with --event-log")
        if master is not None and not on_spark:
            raise ValueError("--master goes with --spark")
        if (input_ is None) == (event_log is None):
            raise ValueError("give --input PATH [--key COLUMN], or --event-log FILE")
        if event_log is not None:
            least = SLOW if slow is None else slow
            if not least > 1.0:
                raise ValueError(f"--slow must be above 1, not {slow}")
            show_log(event_log, slow=least, as_json=as_json)
            return
        assert input_ is not None
        n_workers = reading.count(workers or "16", "--workers", least=1, most=MOST_WORKERS)
        n_records = reading.count(limit or "5e6", "--limit", least=1)
        per_window = reading.count(window or "10000", "--window", least=1)
        format_ = "jsonl" if format_ == "json" else format_  # as `run` calls it
        between = "auto" if delimiter is None else delimiter
        asked = Asked(input_, format_, key, n_workers, n_records, per_window, between)
        if is_remote(input_) and not on_spark:
            raise ValueError(f"--input: only Spark can open {shown(input_)}; add --spark")
        with reading.naming_input():
            ranks = key is None and not asked.is_text()
        if ranks:
            for option, given in (("--spark", on_spark), ("--page", page is not None)):
                if given:
                    raise ValueError(f"{option} goes with --key COLUMN")
            with reading.naming_input():
                found = rank_columns(
                    input_,
                    n_workers=n_workers,
                    limit=n_records,
                    format=format_,
                    delimiter=between,
                )
            hint = delimiter_hint(columns_of(input_, format_, between))
            _show_columns(found, n_workers, hint, as_json=as_json)
            if not as_json and any(one.n_records == n_records for one in found):
                print(f"{n_records:,} records were read, which is --limit.")
            return

        def checked() -> None:
            if page is not None:
                reading.file_to_write(page, "--page")

        if on_spark:
            report, names = diagnose_on_spark(
                asked, "local[*]" if master is None else master, checked
            )
        else:
            with reading.naming_input():
                report, names = diagnose_in_memory(asked, checked)
    texts = [_text(names.get(hashed)) for hashed, _ in report.top_keys]
    _show_keys(report, texts, per_window, as_json=as_json)
    if not on_spark and not as_json and report.n_records == n_records:
        print(f"{n_records:,} records were read, which is --limit; --spark counts all records.")
    if page is not None:
        with refusing_bad_input():
            write_key_page(report.as_dict(), texts, input_, page)
        if not as_json:
            print(f"\nThe page: {page}")


def _show_columns(found: list[Candidate], n_workers: int, hint: str, *, as_json: bool) -> None:
    if as_json:
        for one in found:
            print_json(one.as_dict())
        return
    if hint:
        print(f"{hint}.")
    if not found:
        print("No column could be a key: all are measured values, identifiers, or constant.")
        return
    table = Table(title=f"Hashing by each column, {n_workers} workers", box=None)
    table.add_column("column", no_wrap=True)
    for heading in ("type", "keys", "heaviest key", "imbalance"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        table.add_row(
            one.column,
            one.type,
            f"{one.n_keys:,}",
            f"{one.top_share:.1%}",
            f"{one.imbalance:.2g}",
        )
    console().print(table)
    print("\nLook closer with --key COLUMN.")


def _show_keys(report: KeyReport, texts: Sequence[str], per_window: int, *, as_json: bool) -> None:
    if as_json:
        listed = list(texts[:_LISTED])
        print_json(report.as_dict() | {"top_key_texts": listed})
        return
    print(
        f"{report.n_records:,} records, {report.n_keys:,} keys; "
        f"{report.n_above_fair_share} above the fair share of one of {report.n_workers} workers; "
        f"drift {report.drift:.2f} (0: the heavy keys stay the same, 1: all change)"
    )
    hottest = zip(map(printable, texts[:_LISTED]), report.top_keys, strict=False)
    print("Heaviest keys: " + ", ".join(f"{text} {share:.1%}" for text, (_, share) in hottest))
    table = Table(box=None)
    table.add_column("strategy", no_wrap=True)
    for heading in ("fullest worker", "workers per key", "in all windows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in report.measured:
        table.add_row(
            one.strategy,
            f"{one.slowest:.2f}",
            f"{one.replicas:.3f}",
            f"{one.replicas_in_all:.3f}",
        )
    console().print(table)
    print(
        f"Fullest worker: its load / the fair share. It and workers per key are means over windows "
        f"of {per_window:,} records; the last column is about all records at once."
    )
    if report.n_simulated < report.n_records:
        print(f"The strategies were simulated on the first {report.n_simulated:,} records.")
    print(f"\n{report.advice}")


def _text(values: tuple[object, ...] | None) -> str:
    """Return the columns of a key as one text."""
    parts = ("?",) if values is None else values
    return "/".join(
        part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in parts
    )
