"""`skewless simulate`: routes a stream by one or more strategies, without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.table import Table

from skewless import workloads
from skewless.arrays import Floats
from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input
from skewless.cli.screen import AsJson, bytes_text, console, print_json, progress_bar
from skewless.plumbing.arguments import MOST_WORKERS, seed_number, shown
from skewless.plumbing.rounding import seconds_text
from skewless.simulator import Run, simulate
from skewless.simulator.membership import Membership
from skewless.simulator.starting import MOST_SOURCES
from skewless.simulator.timed.timing import require_events
from skewless.simulator.window_records import write_windows
from skewless.strategy import AnyStrategy, Merges, Rescales
from skewless.workloads import Workload
from skewless.workloads.trace import columns_of


class _Cell(NamedTuple):
    """One run: a strategy, the number of workers, and their speeds if they differ."""

    strategy: AnyStrategy
    workers: int
    speeds: Floats | None


def _optional(text: str | None, option: str) -> int | None:
    return None if text is None else reading.count(text, option)


def _words(trace: Path, settings: dict[str, str]) -> str:
    """Return the key of a plain text, which has no columns; raise ValueError for other files."""
    given = (settings.get(name, "auto") for name in ("format", "delimiter"))
    if columns_of(str(trace), *given):
        raise ValueError("--trace needs --key COLUMN (several: separated by commas)")
    return "word"


def _workload(
    name: str | None,
    trace: Path | None,
    key: str | None,
    settings: dict[str, str],
    options: dict[str, Any],
) -> Workload:
    """Return the workload that the options describe: a trace, a named one, or plain Zipf."""
    given = {k: v for k, v in options.items() if v is not None}
    for parameter in settings.keys() & given.keys():
        raise ValueError(f"--with {parameter}=… cannot be combined with an option that sets it too")
    if trace is not None:
        if name is not None or "z" in given or "n_keys" in given:
            raise ValueError("--trace cannot be combined with --workload, --zipf or --keys")
        columns = {"key": key or _words(trace, settings)}
        columns |= {k: v for k, v in given.items() if k == "weight"}
        limit = given.get("limit", given.get("n_records"))
        return workloads.make("trace", path=str(trace), limit=limit, **columns, **settings)
    if key is not None or "limit" in given or "weight" in given:
        raise ValueError("--key, --weight and --limit go with --trace FILE")
    if name == "trace":
        raise ValueError("give a trace with --trace FILE --key COLUMN")
    if name is None and "z" not in given:
        raise ValueError(
            "say what to route: --zipf Z, --workload NAME, or --trace FILE --key COLUMN"
        )
    return workloads.make(name or "zipf", **given, **settings)


def _for_workers(stream: Workload, n_workers: int, settings: dict[str, str]) -> Workload:
    """Return the workload for this many workers, if it depends on them and none were set.

    `fluctuation` shifts load between homes, which depend on the number of workers of the run.
    """
    if "n_workers" in settings or n_workers < 2 or not hasattr(stream, "n_workers"):
        return stream
    return dataclasses.replace(stream, n_workers=n_workers)  # type: ignore[type-var]


def _speeds(text: str | None, n_workers: int) -> Floats | None:
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


def _require_forwarding(chosen: Sequence[AnyStrategy], *, asked: bool) -> None:
    """Raise ValueError for overlapping windows unless all strategies forward: nothing is merged."""
    without = [one.name for one in chosen if not asked or not hasattr(one, "forwards")]
    if without:
        raise ValueError(
            "--slides: windows can overlap where --timing has merge, or with --forwarding by "
            f"strategies that report what needs merging, not with {', '.join(without)}"
        )


def _report_strategies_without_speeds(chosen: Sequence[AnyStrategy]) -> None:
    """Print which strategies treat all workers alike, although the workers differ in speed."""
    blind = [one.name for one in chosen if not isinstance(one, Rescales)]
    if blind:
        typer.echo(f"--capacities: {', '.join(blind)} treat all workers alike", err=True)


@app.command("simulate")
def simulate_command(
    strategy: Annotated[
        str,
        typer.Option(help=reading.STRATEGIES),
    ],
    workers: Annotated[str, typer.Option(help="Number of workers; several: 16,32.")] = "16",
    sources: Annotated[
        str, typer.Option(help="Number of sources; record i goes to source i mod that number.")
    ] = "1",
    seed: Annotated[int, typer.Option(help="Seed of workload and routing.")] = 0,
    zipf: Annotated[float | None, typer.Option(help="Exponent of the Zipf distribution.")] = None,
    keys: Annotated[str | None, typer.Option(help="Number of keys, e.g. 1e5.")] = None,
    records: Annotated[str | None, typer.Option(help="Number of records, e.g. 1e6.")] = None,
    workload: Annotated[
        str | None, typer.Option(help="A workload by name; see `skewless workloads`.")
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", help="Set a workload parameter: name=value.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="A file: Parquet, CSV, JSON lines, or text, whose words are the records."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The trace's key column(s).")] = None,
    weight: Annotated[
        str | None, typer.Option(help="The trace's column with what a record costs.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(help="Read at most this many records of the trace.")
    ] = None,
    window: Annotated[str, typer.Option(help="Records per window.")] = "10000",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a strategy parameter: name=value.")
    ] = None,
    capacities: Annotated[
        str | None,
        typer.Option(help="Relative speeds, separated by commas; a short list is repeated."),
    ] = None,
    sync: Annotated[
        str,
        typer.Option(
            help="Records between two merges of the sources' states; 0: never. Or "
            "interval=RECORDS[,delay=RECORDS][,work=RECORDS][,adaptive=yes]."
        ),
    ] = "0",
    horizon: Annotated[
        str,
        typer.Option(help="Records over which load is balanced; 0: each window separately."),
    ] = "0",
    sync_delay: Annotated[
        str, typer.Option(help="Records from a merge to its answer, for --sync.")
    ] = "0",
    timing: Annotated[
        list[str] | None,
        typer.Option(help="Give the run a clock: name=value, such as service=1e-4."),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="speed|stop|leave|fail|join@RECORD:worker=NUMBER[,value=X]; for fail, "
            "queued=replayed (if not given) or queued=lost."
        ),
    ] = None,
    slides: Annotated[
        str,
        typer.Option(
            help="Slides per window, for overlapping windows; --window is then one slide."
        ),
    ] = "1",
    forwarding: Annotated[
        bool,
        typer.Option("--forwarding", help="Count which results need no merging (dalton)."),
    ] = False,
    windows: Annotated[
        Path | None,
        typer.Option(help="Write a row per window to this Parquet file; its folder is created."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Route a stream by one or more strategies and measure balance, replicas and cost."""
    with refusing_bad_input():
        chosen = reading.strategies(strategy, reading.pairs(set_ or [], "--set"))
        settings = reading.pairs(with_ or [], "--with")
        source = "trace" if trace is not None else workload or "zipf"
    with refusing_bad_input(), reading.naming_options(source, settings):
        stream = _workload(
            workload,
            trace,
            key,
            settings,
            {
                "z": zipf,
                "n_keys": _optional(keys, "--keys"),
                "n_records": _optional(records, "--records"),
                "limit": _optional(limit, "--limit"),
                "weight": weight,
            },
        )
        n_sources = reading.count(sources, "--sources", least=1, most=MOST_SOURCES)
        seed_number(seed, "--seed")
        records_per_window = reading.count(window, "--window", least=1)
        together = reading.sync(sync, sync_delay, n_sources)
        records_per_interval = reading.count(horizon, "--horizon")
        if records_per_interval and not any(hasattr(one, "begin") for one in chosen):
            raise ValueError("--horizon: none of the chosen strategies balances over intervals")
        if together is not None and not any(isinstance(one, Merges) for one in chosen):
            raise ValueError("--sync: none of the chosen strategies merges what its sources learn")
        if forwarding and not any(hasattr(one, "forwards") for one in chosen):
            raise ValueError(
                "--forwarding: none of the chosen strategies reports what needs merging"
            )
        clock = reading.timing(timing or [])
        n_slides = reading.count(slides, "--slides", least=1, most=1 << 20)
        if n_slides > 1 and (clock is None or not clock.merge):
            _require_forwarding(chosen, asked=forwarding)
        happens = reading.events(event or [])
        cells = []
        for n in reading.counts(workers, "--workers", least=1, most=MOST_WORKERS):
            cells += [_Cell(chosen_one, n, _speeds(capacities, n)) for chosen_one in chosen]
        for cell in cells:  # refuse impossible events before any run
            speeds = np.ones(cell.workers) if cell.speeds is None else cell.speeds
            occurring = require_events(happens, cell.workers, stream.n_records)
            Membership(cell.strategy, speeds, occurring).require_clock(clock)
        if windows is not None:
            reading.file_to_write(windows, "--windows")
        if capacities is not None:
            _report_strategies_without_speeds(chosen)

    def one(cell: _Cell, progress: Callable[[int], None]) -> Run:
        return simulate(
            cell.strategy,
            _for_workers(stream, cell.workers, settings),
            n_workers=cell.workers,
            n_sources=n_sources,
            seed=seed,
            window=records_per_window,
            capacities=cell.speeds,
            sync=together if together is not None and isinstance(cell.strategy, Merges) else 0,
            slides=n_slides,
            forwarding=forwarding and hasattr(cell.strategy, "forwards"),
            timing=clock,
            events=happens,
            keep_loads=windows is not None,
            horizon=records_per_interval,
            progress=progress,
        )

    runs = []
    with progress_bar() as bar:
        for cell in cells:
            name = f"{cell.strategy.name}, {cell.workers} workers"
            task = bar.add_task(name, total=stream.n_records)
            # The content of a trace is only read here.
            with refusing_bad_input(), reading.naming_options(source, settings):
                runs.append(one(cell, lambda done, task=task: bar.update(task, completed=done)))  # type: ignore[misc]
            bar.update(task, visible=False)
            if as_json:
                print_json(runs[-1].summary())
    if windows is not None:
        write_windows(runs, windows)
    if not as_json:
        console().print(comparison_table(runs))


def comparison_table(runs: list[Run]) -> Table:
    """Return the table for people: one row per run, and the limit as the last row."""
    first = runs[0].summary()
    title = (
        f"{first['workload']}: {first['records']:,} records, {first['keys']:,} keys, "
        f"{first['sources']} source(s), windows of {first['window']:,} records"
    )
    if merging := [row for run in runs if "syncs" in (row := run.summary())]:
        title += f", merged {max(row['syncs'] for row in merging):,} times"
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("strategy", no_wrap=True)
    timed = "throughput" in first
    failed = timed and any(run.summary()["lost"] or run.summary()["replayed"] for run in runs)
    for heading in (
        "workers",
        "imbalance",
        "replicas / key",
        "window imbalance",
        "window replicas",
        "makespan",
        "ns / record",
        "state",
        *(("records / s", "latency", "99 %") if timed else ()),
        *(("lost", "replayed") if failed else ()),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in runs:
        row = run.summary()
        times = (
            (
                f"{row['throughput']:,.0f}",
                seconds_text(row["latency_mean"]),
                seconds_text(row["latency_p99"]),
            )
            if timed
            else ()
        )
        table.add_row(
            row["strategy"],
            str(row["workers"]),
            f"{row['imbalance']:.2g}",
            f"{'' if row['replication_exact'] else '≈'}{row['replication']:.4f}",
            f"{row['window_imbalance_mean']:.2g}",
            f"{row['window_replication_mean']:.3f}",
            f"{row['makespan_ratio']:.3f}",
            f"{row['ns_per_record']:.1f}",
            bytes_text(row["state_bytes"]),
            *times,
            *((f"{row['lost']:,}", f"{row['replayed']:,}") if failed else ()),
        )
    for n, limit in sorted({(r.n_workers, r.summary()["replication_limit"]) for r in runs}):
        table.add_row(
            "the limit", str(n), "0", f"{limit:.4f}", "0", "", "1.000", "", "", style="dim"
        )
    return table
