"""Measure what a routing decision costs and write the raw records and the tables made from them."""

import typer
from rich.progress import track

from benchmarks.tables import GROUPING_COST, write_all
from skewless import registry
from skewless.experiments import grouping_cost
from skewless.experiments.tables import write_records

REPETITIONS = 5


def main() -> None:
    """Measure what a routing decision costs; write the raw records and the tables."""
    names = registry.names()
    n_cells = len(names) * len(grouping_cost.WORKERS) * len(grouping_cost.EXPONENTS) * REPETITIONS
    records = track(grouping_cost.measure(names, repetitions=REPETITIONS), "routing", total=n_cells)
    write_records(GROUPING_COST, list(records))
    print(f"raw records: {GROUPING_COST}")
    write_all()


if __name__ == "__main__":
    typer.run(main)
