"""Run all strategies side by side and write the raw records and the README's table."""

import typer
from rich.progress import track

from benchmarks.tables import OVERVIEW, write_all
from skewless import registry
from skewless.experiments import overview
from skewless.experiments.tables import write_records


def main() -> None:
    """Run all strategies side by side and write the raw records and the README's table."""
    names = registry.names()
    n_cells = len(names) * len(overview.STREAMS)
    write_records(OVERVIEW, list(track(overview.measure(names), "simulating", total=n_cells)))
    print(f"raw records: {OVERVIEW}")
    write_all()


if __name__ == "__main__":
    typer.run(main)
