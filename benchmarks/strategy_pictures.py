"""Measure every strategy on a drifting stream, and draw the pictures of the strategies' pages."""

from pathlib import Path

import typer
from rich.progress import track

from skewless import registry
from skewless.dashboard.strategy_pictures import strategy_picture
from skewless.experiments import strategy_pictures
from skewless.experiments.tables import read_records, write_records

PROJECT = Path(__file__).parent.parent
RECORDS = PROJECT / "benchmarks" / "results" / "strategy_pictures.jsonl"
PICTURES = PROJECT / "docs" / "pictures" / "strategies"


def draw() -> None:
    """Draw the pictures from the records; measures nothing."""
    for record in read_records(RECORDS):
        strategy_picture(record, PICTURES / f"{record['strategy']}.svg")


def main() -> None:
    """Measure every strategy on a drifting stream; draw the pictures of their pages."""
    names = registry.names()
    measured = track(strategy_pictures.measure(names), "simulating", total=len(names))
    write_records(RECORDS, list(measured))
    draw()
    print(f"raw records: {RECORDS}; pictures: {PICTURES}")


if __name__ == "__main__":
    typer.run(main)
