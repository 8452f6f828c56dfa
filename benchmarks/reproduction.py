"""Measure the papers' figures at size quick; write their results, the document and the page."""

from pathlib import Path

import typer

from benchmarks.tables import PROJECT, REPRODUCTION, write_reproduction_tables
from skewless.cli.reproducing import cores, measure_on_screen
from skewless.dashboard.reproduction import write_reproduction
from skewless.experiments.reproduction.catalogue import all_figures
from skewless.experiments.reproduction.document import about_size
from skewless.experiments.reproduction.figure import QUICK
from skewless.experiments.reproduction.results import (
    FAILED,
    PAPER_NAMES,
    summary,
    without_plots,
    without_reason,
)
from skewless.experiments.tables import write_records

OUT = PROJECT / "out" / "reproduction"


def main() -> None:
    """Measure the papers' figures at size quick; what was measured before is used again."""
    OUT.mkdir(parents=True, exist_ok=True)
    results = measure_on_screen(all_figures(), QUICK, OUT, cores())
    write_records(REPRODUCTION, [without_plots(one) for one in results])
    write_reproduction_tables()
    page = OUT / "figures.html"
    write_reproduction(results, PAPER_NAMES, f"{about_size(QUICK.name)} {summary(results)}", page)
    print(summary(results))
    for name in without_reason(results):
        print(f"{name} is missed, and no experiment shows why")
    plots = Path(page).relative_to(PROJECT)
    print(f"the document: docs/results/reproduction.md; the plots: {plots}")
    if any(one["verdict"] == FAILED for one in results):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
