"""`skewless diagnose columns`: which columns of a file would be uneven keys?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import refusing_bad_input
from skewless.cli.applications.options import DELIMITER
from skewless.cli.diagnosing import diagnose
from skewless.cli.screen import AsJson, console, print_json
from skewless.plumbing.arguments import MOST_WORKERS, shown

if TYPE_CHECKING:
    from skewless.diagnosis.columns import Candidate

#: Options of the commands that read records.
Input = Annotated[
    str, typer.Option("--input", help="A file or folder: Parquet, CSV, JSON lines or text.")
]
Format = Annotated[
    str, typer.Option("--format", help="parquet, csv, jsonl or text; auto uses the file name.")
]
Delimiter = Annotated[str | None, DELIMITER]
NWorkers = Annotated[str, typer.Option("--workers", help="Number of workers.")]


@diagnose.command()
def columns(
    input_: Input,
    format_: Format = "auto",
    delimiter: Delimiter = None,
    workers: NWorkers = "16",
    limit: Annotated[str, typer.Option(help="Read at most this many records.")] = "5e6",
    as_json: AsJson = False,
) -> None:
    """Rank the columns of a file by how uneven hashing by them would be.

    Example: skewless diagnose columns --input orders.parquet
    """
    from skewless.diagnosis.columns import rank_columns
    from skewless.workloads.trace import columns_of, delimiter_hint, is_remote

    with refusing_bad_input():
        n_workers = reading.count(workers, "--workers", least=1, most=MOST_WORKERS)
        n_records = reading.count(limit, "--limit", least=1)
        format_ = "jsonl" if format_ == "json" else format_  # as `run` calls it
        between = "auto" if delimiter is None else delimiter
        if is_remote(input_):
            raise ValueError(
                f"--input: only Spark can open {shown(input_)}; use `skewless diagnose key --spark`"
            )
        with reading.naming_input():
            names = columns_of(input_, format_, between)
            if not names:
                raise ValueError(
                    f"--input: {shown(input_)} is a text without columns; `skewless diagnose key` "
                    "counts its words"
                )
            found = rank_columns(
                input_, n_workers=n_workers, limit=n_records, format=format_, delimiter=between
            )
    if as_json:
        for one in found:
            print_json(one._asdict())
        return
    _show(found, n_workers, delimiter_hint(names))
    if any(one.n_records == n_records for one in found):
        print(f"{n_records:,} records were read, which is --limit.")


def _show(found: list[Candidate], n_workers: int, hint: str) -> None:
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
        numbers = f"{one.n_keys:,}", f"{one.top_share:.1%}", f"{one.imbalance:.2g}"
        table.add_row(one.column, one.type, *numbers)
    console().print(table)
    print("\nLook closer with skewless diagnose key --key COLUMN.")
