"""Measure every strategy in every cell of the frontier; write raw records and tables.

Cells that have a record already are skipped, so an interrupted run goes on where it was.
"""

import json
from pathlib import Path

import typer
from rich.progress import track

from benchmarks.frontier.cells import cell_of, cells, in_order, measure
from benchmarks.frontier.tables import REPORT
from benchmarks.records import write_records
from skewless import registry
from skewless.cli.option import option


def main(
    data: Path | None = option(None, "Folder of Parquet files with `key`."),
    only: str | None = option(None, "Some strategies, with commas."),
    again: bool = option(False, "Also what has a record.", "--again"),
) -> None:
    """Measure what has no record yet, then write the page."""
    names = only.split(",") if only else registry.names()
    todo = cells(names, sorted(path.stem for path in data.glob("*.parquet")) if data else ())
    if data is None:
        print("no --data: the traces keep the records that they have")
    kept = [r for r in REPORT.read() if not again or cell_of(r) not in todo]
    write_records(REPORT.path, kept)
    done = {cell_of(record) for record in kept}
    todo = [cell for cell in todo if cell not in done]
    with REPORT.path.open("a", encoding="utf-8") as lines:
        for record in track(measure(todo, data), "simulating", total=len(todo)):
            lines.write(json.dumps(record) + "\n")
            lines.flush()
    write_records(REPORT.path, in_order(REPORT.read()))
    REPORT.write_tables()


if __name__ == "__main__":
    typer.run(main)
