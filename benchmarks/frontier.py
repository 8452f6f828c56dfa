"""Measure every strategy in every cell of the frontier; write raw records, tables and pictures.

Cells that have a record already are skipped, so an interrupted run goes on where it was.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from skewless import registry
from skewless.dashboard import pictures
from skewless.experiments import front, frontier, frontier_tables
from skewless.experiments.tables import read_records, write_records, write_table

PROJECT = Path(__file__).resolve().parent.parent
RECORDS = PROJECT / "benchmarks" / "results" / "frontier.jsonl"
PAGE = PROJECT / "docs" / "results" / "frontier.md"
PICTURES = PROJECT / "docs" / "pictures"
#: The cell whose load per worker the README shows.
SHOWN = ("grid", "zipf", 1.4, 32, 1, frontier.SEED)


def measure(todo: Sequence[frontier.Cell], data: Path | None) -> None:
    """Append a record per cell as soon as it is measured."""
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    with RECORDS.open("a", encoding="utf-8") as lines:
        for record in track(frontier.measure(todo, data), "simulating", total=len(todo)):
            lines.write(json.dumps(record) + "\n")
            lines.flush()
    write_records(RECORDS, frontier.in_order(read_records(RECORDS)))


def write_documents() -> None:
    """Write the page's tables and the pictures from the records; measures nothing."""
    records = read_records(RECORDS)
    for name, part in frontier_tables.PARTS.items():
        write_table(PAGE, name, part(records))
    for group, n_workers in (("grid", 128), ("real", 64)):
        points = front.points(records, group, n_workers)
        if points:
            pictures.frontier(points, PICTURES / f"frontier-{group}.svg")
    shown = {r["strategy"]: r for r in records if frontier.identity(r)[:-1] == SHOWN}
    if {"hash", "cascade"} <= shown.keys():
        runs = [shown["hash"], shown["cascade"]]
        pictures.load_per_worker(runs, PICTURES / "load-per-worker.svg")
    print(f"written: {PAGE.relative_to(PROJECT)}, {PICTURES.relative_to(PROJECT)}/")


def main(
    data: Annotated[Path | None, typer.Option(help="Folder of Parquet files with `key`.")] = None,
    only: Annotated[str | None, typer.Option(help="Some strategies, with commas.")] = None,
    cells: Annotated[str | None, typer.Option(help="Some groups of cells, with commas.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what has a record.")] = False,
) -> None:
    """Measure what has no record yet, then write the page and its pictures."""
    names = only.split(",") if only else registry.names()
    groups = cells.split(",") if cells else list(frontier.GROUPS)
    todo = frontier.cells(names, groups, frontier.traces_in(data) if data else ())
    if data is None and "real" in groups:
        print("no --data: the traces keep the records that they have")
    records = read_records(RECORDS) if RECORDS.exists() else []
    if again:
        replaced = {cell.identity for cell in todo}
        records = [r for r in records if frontier.identity(r) not in replaced]
        write_records(RECORDS, records)
    done = {frontier.identity(record) for record in records}
    measure([cell for cell in todo if cell.identity not in done], data)
    write_documents()


if __name__ == "__main__":
    typer.run(main)
