"""`skewless compare`: strategies side by side in the simulator, as a table and as a page."""

from __future__ import annotations

from pathlib import Path

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input
from skewless.cli.needs import needing_bokeh
from skewless.cli.option import option
from skewless.cli.screen import AsJson, console, print_json, progress_bar
from skewless.cli.simulating import comparison_table


@app.command()
def compare(
    strategy: str = option("all", reading.STRATEGIES),
    out: Path = option(Path("out/comparison.html"), "The file for the page with the plots."),
    records: str = option("2e6", "Number of records, e.g. 1e6."),
    as_json: AsJson = False,
) -> None:
    """Simulate strategies on a stream whose hot keys drift; show a table and write a page.

    There are 32 workers, 4 sources and 100,000 keys. `simulate` has options for other numbers.
    """
    with needing_bokeh():
        from skewless.dashboard.comparison import write_page
    from skewless import workloads
    from skewless.simulator import simulate

    with refusing_bad_input():
        chosen = reading.strategies(strategy, {})
        n_records = reading.count(records, "--records", least=4)
        stream = workloads.make(
            "evolving-zipf", z=1.4, n_keys=100_000, n_records=n_records, period=n_records // 4
        )
        reading.page(out)
    runs = []
    with progress_bar() as bar:
        for one in chosen:
            task = bar.add_task(one.name, total=n_records)
            runs.append(
                simulate(
                    one,
                    stream,
                    n_workers=32,
                    n_sources=4,
                    progress=lambda done, task=task: bar.update(task, completed=done),  # type: ignore[misc]
                )
            )
            bar.update(task, visible=False)
            if as_json:
                print_json(runs[-1].summary())
    write_page(runs, out)
    if not as_json:
        console().print(comparison_table(runs))
        print(f"\nThe plots: {out}")
