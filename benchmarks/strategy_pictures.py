"""Measure every strategy on a drifting stream, and draw the pictures of the strategies' pages."""

from pathlib import Path

from rich.progress import track

from skewless import registry
from skewless.dashboard.strategy_pictures import strategy_picture
from skewless.experiments import strategy_pictures
from skewless.experiments.tables import write_records

PROJECT = Path(__file__).parent.parent
RECORDS = PROJECT / "benchmarks" / "results" / "strategy_pictures.jsonl"
PICTURES = PROJECT / "docs" / "pictures" / "strategies"


def main() -> None:
    names = registry.names()
    measured = track(strategy_pictures.measure(names), "simulating", total=len(names))
    records = list(measured)
    write_records(RECORDS, records)
    for record in records:
        strategy_picture(record, PICTURES / f"{record['strategy']}.svg")
    print(f"raw records: {RECORDS}; pictures: {PICTURES}")


if __name__ == "__main__":
    main()
