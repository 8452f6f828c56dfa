"""`skewless diagnose columns` and `key`: which columns are uneven keys, and what would help?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from skewless.cli import reading
from skewless.cli.application import needing_bokeh, refusing_bad_input
from skewless.cli.diagnosing import diagnose
from skewless.cli.option import option
from skewless.cli.screen import AsJson, console, number_table, print_json
from skewless.diagnosis.costs import given_costs
from skewless.plumbing.arguments import MOST_WORKERS, shown

#: The options of both commands.
_Input = Annotated[str, typer.Option("--input", help=reading.INPUT)]
_Format = Annotated[str, typer.Option("--format", help=reading.FORMAT)]
_Delimiter = Annotated[str, typer.Option(help=reading.DELIMITER)]
_Workers = Annotated[str, typer.Option(help="Number of workers.")]


def _files(path: str, format: str) -> tuple[str, Any]:
    """Return path and format as traces call them; raise ValueError where only Spark can open it."""
    from skewless.workloads.trace import is_remote

    if is_remote(path):
        raise ValueError(
            f"--input: only Spark can open {shown(path)}; use `hot_keys` of skewless.spark"
        )
    return path, "jsonl" if format == "json" else format


@diagnose.command()
def columns(
    input_: _Input,
    limit: str = option("5e6", "Read at most this many records."),
    format_: _Format = "auto",
    delimiter: _Delimiter = "auto",
    workers: _Workers = "16",
    as_json: AsJson = False,
) -> None:
    """Rank the columns of a file by how uneven hashing by them would be.

    Example: skewless diagnose columns --input orders.parquet
    """
    from skewless.diagnosis.key_facts import rank_columns
    from skewless.workloads.trace import columns_of, delimiter_hint

    with refusing_bad_input(), reading.naming(reading.OF_INPUT):
        n_workers = reading.count(workers, "--workers", least=1, most=MOST_WORKERS)
        n_records = reading.count(limit, "--limit", least=1)
        path, format = _files(input_, format_)
        names = columns_of(path, format, delimiter)
        found = rank_columns(
            path, n_workers=n_workers, limit=n_records, format=format, delimiter=delimiter
        )
    if as_json:
        for one in found:
            print_json(one._asdict())
        return
    if hint := delimiter_hint(names):
        print(f"{hint}.")
    if found:
        headings = ("column", "type", "keys", "heaviest key", "imbalance")
        title = f"Hashing by each column, {n_workers} workers"
        table = number_table(*headings, left="column", title=title)
        for one in found:
            numbers = f"{one.n_keys:,}", f"{one.top_share:.1%}", f"{one.imbalance:.2g}"
            table.add_row(one.column, one.type, *numbers)
        console().print(table)
        print("\nLook closer with skewless diagnose key --key COLUMN.")
    else:
        print("No column could be a key: all are measured values, identifiers, or constant.")
    if any(one.n_records == n_records for one in found):
        print(f"{n_records:,} records were read, which is --limit.")


@diagnose.command()
def key(
    input_: _Input,
    key: str | None = option(None, "The key column(s)."),
    slots: str | None = option(None, "Tasks at the same time; as many as workers if not given."),
    per_record: float | None = option(None, "Seconds of work for each record, to predict times."),
    per_pair: float | None = option(None, "Seconds for each key on each worker that has it."),
    limit: str = option("5e6", "Read at most this many records."),
    window: str = option("10000", "Records per micro-batch of a stream."),
    page: Path | None = option(None, "Write a page with plots to this file."),
    format_: _Format = "auto",
    delimiter: _Delimiter = "auto",
    workers: _Workers = "16",
    as_json: AsJson = False,
) -> None:
    """Show the heaviest keys, their drift, and what each way of partitioning would do.

    Example: skewless diagnose key --input orders.parquet --key customer_id --workers 64
    """
    if page is not None:
        with needing_bokeh():
            from skewless.dashboard.diagnose_pages import write_key_page
    from skewless.diagnosis.key_facts import diagnose_keys
    from skewless.workloads import Trace

    with refusing_bad_input(), reading.naming(reading.OF_INPUT):
        settings: dict[str, Any] = {
            "n_workers": reading.count(workers, "--workers", least=1, most=MOST_WORKERS),
            "window": reading.count(window, "--window", least=1),
            "n_slots": None if slots is None else reading.count(slots, "--slots", 1, MOST_WORKERS),
            "costs": given_costs(per_record, per_pair, ("--per-record", "--per-pair")),
        }
        most = reading.count(limit, "--limit", least=1)
        path, format = _files(input_, format_)
        if key is None:
            raise ValueError(
                "--key COLUMN is missing; `skewless diagnose columns` ranks the columns"
            )
        columns = tuple(name.strip() for name in key.split(","))
        trace = Trace(path=path, key=columns, limit=most, format=format, delimiter=delimiter)
        if page is not None:  # its folder is made when all else is checked
            reading.file_to_write(page, "--page")
        report = diagnose_keys(trace, **settings)
        told = report.as_dict()
        if page is not None:
            write_key_page(told, path, page)
    if as_json:
        print_json(told)
        return
    print(report)
    if report.found.goes_on:
        print(f"{most:,} records were read, which is --limit.")
    if page is not None:
        print(f"\nThe page: {page}")
