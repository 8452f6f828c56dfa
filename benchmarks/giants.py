"""Measure what pinned giants do to balance and moves; write the raw records and the table."""

import typer

from benchmarks.tables import GIANTS, write_giants
from skewless.experiments import giants
from skewless.experiments.tables import write_records


def main() -> None:
    """Measure what pinned giants do to balance and moves; write the raw records and the table."""
    write_records(GIANTS, giants.measure())
    print(f"raw records: {GIANTS}")
    write_giants()


if __name__ == "__main__":
    typer.run(main)
