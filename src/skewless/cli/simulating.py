"""`skewless simulate`: routes a stream by one or more strategies, without Spark."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input
from skewless.cli.option import option
from skewless.cli.screen import AsJson, console, number_table, print_json, progress_bar
from skewless.plumbing.arguments import MOST_WORKERS, seed_number, shown
from skewless.plumbing.text_tables import bytes_text, seconds_text

if TYPE_CHECKING:
    from skewless.arrays import Floats
    from skewless.simulator import Run
    from skewless.workloads import Workload


def _stream(
    workload: str | None,
    trace: Path | None,
    key: str | None,
    settings: dict[str, str],
    given: dict[str, Any],
) -> Workload:
    """Build what is routed: a trace, a named workload, or plain Zipf.

    Parameters of the workload are `settings` by --with, and `given` by options of their own, where
    None means that there was no such option, and counts are texts.
    """
    from skewless import workloads

    given = {name: value for name, value in given.items() if value is not None}
    for name in ("n_keys", "n_records", "limit"):
        if name in given:
            given[name] = reading.count(given[name], f"--{name.removeprefix('n_')}")
    for parameter in settings.keys() & given.keys():
        raise ValueError(f"--with {parameter}=… cannot be combined with an option that sets it too")
    if trace is not None:
        if workload is not None or "z" in given or "n_keys" in given:
            raise ValueError("--trace cannot be combined with --workload, --zipf or --keys")
        n_records = given.pop("n_records", None)
        given.setdefault("limit", n_records)
        if not key:
            raise ValueError("--trace needs --key COLUMN (several: separated by commas)")
        return workloads.make("trace", path=str(trace), key=key, **given, **settings)
    if key is not None or "weight" in given or "limit" in given:
        raise ValueError("--key, --weight and --limit go with --trace FILE")
    if workload == "trace":
        raise ValueError("give a trace with --trace FILE --key COLUMN")
    if workload is None and "z" not in given:
        raise ValueError(
            "say what to route: --zipf Z, --workload NAME, or --trace FILE --key COLUMN"
        )
    return workloads.make(workload or "zipf", **given, **settings)


def _speeds(text: str | None, n_workers: int) -> Floats | None:
    import numpy as np

    if text is None:
        return None
    try:
        pattern = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--capacities takes numbers separated by commas, not {shown(text)}"
        ) from None
    if any(not 0 < speed < float("inf") for speed in pattern):
        raise ValueError(f"--capacities must be above 0 and finite, not {shown(text)}")
    if n_workers % len(pattern):
        raise ValueError(
            f"--capacities: {len(pattern)} numbers do not repeat evenly over {n_workers} workers"
        )
    return np.tile(pattern, n_workers // len(pattern))


@app.command("simulate")
def simulate_command(
    strategy: str = option(..., reading.STRATEGIES),
    workers: str = option("16", "Number of workers; several: 16,32."),
    sources: str = option("1", "Number of sources; record i goes to source i mod that number."),
    seed: int = option(0, "Seed of workload and routing."),
    weight: str | None = option(None, "The trace's column with what a record costs."),
    window: str = option("10000", "Records per window."),
    set_: list[str] | None = option(None, "Set a strategy parameter: name=value.", "--set"),
    capacities: str | None = option(
        None, "Relative speeds, separated by commas; a short list is repeated."
    ),
    sync: str = option(
        "0",
        "Records between two merges of the sources' states; 0: never. Or "
        "interval=RECORDS[,delay=RECORDS][,work=RECORDS][,adaptive=yes].",
    ),
    horizon: str = option("0", "Records over which load is balanced; 0: each window separately."),
    timing: list[str] | None = option(
        None, "Give the run a clock: name=value, such as service=1e-4."
    ),
    event: list[str] | None = option(
        None, "speed|leave|join@RECORD:worker=NUMBER[,value=CAPACITY]"
    ),
    windows: bool = option(False, "With --json: the metrics of each window, too.", "--windows"),
    zipf: float | None = option(None, "Exponent of the Zipf distribution."),
    keys: str | None = option(None, "Number of keys, e.g. 1e5."),
    records: str | None = option(None, "Number of records, e.g. 1e6."),
    workload: str | None = option(None, "A workload by name; see `skewless workloads`."),
    with_: list[str] | None = option(None, "Set a workload parameter: name=value.", "--with"),
    trace: Path | None = option(None, "A file: Parquet, CSV or JSON lines."),
    key: str | None = option(None, "The trace's key column(s)."),
    limit: str | None = option(None, "Read at most this many records of the trace."),
    as_json: AsJson = False,
) -> None:
    """Route a stream by one or more strategies and measure balance, replicas and cost."""
    from skewless import parameters
    from skewless.simulator import Cluster, Timing, simulate
    from skewless.simulator.starting import MOST_SOURCES, Membership, require_capacities
    from skewless.simulator.timed.timing import require_events
    from skewless.strategy import Merges, Rescales

    with refusing_bad_input():
        chosen = reading.strategies(strategy, reading.pairs(set_ or [], "--set"))
        settings = reading.pairs(with_ or [], "--with")
    options = reading.of_simulator("trace" if trace is not None else workload or "zipf", settings)
    with refusing_bad_input(), reading.naming(options):
        given = {"z": zipf, "weight": weight, "n_keys": keys, "n_records": records, "limit": limit}
        stream = _stream(workload, trace, key, settings, given)
        n_sources = reading.count(sources, "--sources", least=1, most=MOST_SOURCES)
        seed_number(seed, "--seed")
        records_per_window = reading.count(window, "--window", least=1)
        together = reading.sync(sync, n_sources)
        records_per_interval = reading.count(horizon, "--horizon")
        if records_per_interval and not any(hasattr(one, "begin") for one in chosen):
            raise ValueError("--horizon: none of the chosen strategies balances over intervals")
        if together is not None and not any(isinstance(one, Merges) for one in chosen):
            raise ValueError("--sync: none of the chosen strategies merges what its sources learn")
        clock = parameters.make(Timing, reading.pairs(timing, "--timing")) if timing else None
        happens = reading.events(event or [])
        cells = [
            (one, n, _speeds(capacities, n))
            for n in reading.counts(workers, "--workers", least=1, most=MOST_WORKERS)
            for one in chosen
        ]
        for one, n, speeds in cells:  # refuse impossible events before any run
            events = require_events(happens, n, stream.n_records)
            Membership(one, require_capacities(speeds, n), events)
        if windows and not as_json:
            raise ValueError("--windows: give --json, too")
        unaware = [o.name for o in chosen if not isinstance(o, Rescales) or o.traits.ignores_speeds]
        if capacities is not None and unaware:
            typer.echo(f"--capacities: {', '.join(unaware)} treat all workers alike", err=True)
    runs = []
    with progress_bar() as bar:
        for one, n, speeds in cells:
            task = bar.add_task(f"{one.name}, {n} workers", total=stream.n_records)
            routed = stream
            if n > 1 and hasattr(stream, "n_workers") and "n_workers" not in settings:
                # `fluctuation` shifts load between homes, which depend on the workers of the run.
                routed = dataclasses.replace(stream, n_workers=n)  # type: ignore[type-var]
            # The content of a trace is only read here.
            with refusing_bad_input(), reading.naming(options):
                run = simulate(
                    one,
                    routed,
                    n_workers=n,
                    n_sources=n_sources,
                    seed=seed,
                    window=records_per_window,
                    horizon=records_per_interval,
                    sync=together if together is not None and isinstance(one, Merges) else 0,
                    cluster=Cluster(speeds, happens),
                    timing=clock,
                    progress=lambda done, task=task: bar.update(task, completed=done),  # type: ignore[misc]
                )
            runs.append(run)
            bar.update(task, visible=False)
            if as_json:
                print_json(run.summary() | (run.by_window() if windows else {}))
    if not as_json:
        console().print(comparison_table(runs))


#: The columns of the table for people, by their headings.
_COLUMNS = {
    "workers": "{workers}",
    "imbalance": "{imbalance:.2g}",
    "replicas / key": "{about}{replication:.4f}",
    "window imbalance": "{window_imbalance_mean:.2g}",
    "window replicas": "{window_replication_mean:.3f}",
    "makespan": "{makespan_ratio:.3f}",
    "ns / record": "{ns_per_record:.1f}",
    "state": "{state}",
}
_TIMED = {"records / s": "{throughput:,.0f}", "latency": "{latency}", "99 %": "{p99}"}


def comparison_table(runs: list[Run]) -> Table:
    """Return the table for people: one row per run, and the limit as the last row."""
    rows = [run.summary() for run in runs]
    first = rows[0]
    title = (
        f"{first['workload']}: {first['records']:,} records, {first['keys']:,} keys, "
        f"{first['sources']} source(s), windows of {first['window']:,} records"
    )
    if merges := [row["syncs"] for row in rows if "syncs" in row]:
        title += f", merged {max(merges):,} times"
    columns = dict(_COLUMNS)
    if "throughput" in first:
        columns |= _TIMED
    table = number_table("strategy", *columns, left="strategy", title=title, title_justify="left")
    for row in rows:
        about = "" if row["replication_exact"] else "≈"
        told = row | {"about": about, "state": bytes_text(row["state_bytes"])}
        if "throughput" in row:
            told["latency"] = seconds_text(row["latency_mean"])
            told["p99"] = seconds_text(row["latency_p99"])
        table.add_row(row["strategy"], *(form.format_map(told) for form in columns.values()))
    for n, limit in sorted({(row["workers"], row["replication_limit"]) for row in rows}):
        best = (str(n), "0", f"{limit:.4f}", "0", "", "1.000", "", "")
        table.add_row("the limit", *best, style="dim")
    return table
