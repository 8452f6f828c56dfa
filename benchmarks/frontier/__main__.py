"""Measure every strategy in every cell of the frontier; write raw records, tables and pictures.

Cells that have a record already are skipped, so an interrupted run goes on where it was.
"""

import json
from pathlib import Path

import typer
from rich.progress import track

from benchmarks import pictures
from benchmarks.frontier.cells import GROUPS, cell_of, cells, in_order, measure, traces_in
from benchmarks.frontier.tables import REPORT, points
from benchmarks.records import write_records
from skewless import registry
from skewless.cli.option import option


def write_documents() -> None:
    """Write the page's tables and the pictures from the records; measures nothing."""
    REPORT.write_tables()
    records = REPORT.read()
    for group, n_workers in (("grid", 128), ("real", 64)):
        found = points(records, group, n_workers)
        if found:
            pictures.frontier(found, pictures.PICTURES / f"frontier-{group}.svg")


def main(
    data: Path | None = option(None, "Folder of Parquet files with `key`."),
    only: str | None = option(None, "Some strategies, with commas."),
    groups: str | None = option(None, "Some groups of cells, with commas.", "--cells"),
    again: bool = option(False, "Also what has a record.", "--again"),
) -> None:
    """Measure what has no record yet, then write the page and its pictures."""
    names = only.split(",") if only else registry.names()
    chosen = groups.split(",") if groups else list(GROUPS)
    todo = cells(names, chosen, traces_in(data) if data else ())
    if data is None and "real" in chosen:
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
    write_documents()


if __name__ == "__main__":
    typer.run(main)
