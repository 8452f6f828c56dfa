"""The command line: `skewless strategies`, `workloads`, `simulate`, `check`, `demo`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import skewless
from skewless import parameters, registry, workloads
from skewless.arrays import Floats
from skewless.simulator import Run, simulate
from skewless.strategy import AnyStrategy, Merges, Rebalances, Rescales
from skewless.workloads import Workload

app = typer.Typer(
    help="Which worker gets this record? Skew-aware partitioning of keyed streams.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # an error is one plain line, also in a log file
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    app()


@contextlib.contextmanager
def _refusing_bad_input() -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        print(f"skewless: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"skewless {skewless.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which worker gets this record? Skew-aware partitioning of keyed streams."""


# --- what there is -------------------------------------------------------------------------------


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def _describe(cls: type[Any]) -> dict[str, Any]:
    strategy = cls()
    abilities = {"merge": Merges, "rebalance": Rebalances, "rescale": Rescales}
    return {
        "name": cls.name,
        "summary": _first_line(cls),
        "family": strategy.traits.family,
        "fan_out": strategy.traits.fan_out,
        "decides": strategy.traits.decides,
        "abilities": [name for name, kind in abilities.items() if isinstance(strategy, kind)],
        "parameters": parameters.defaults(cls),
    }


def _settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


@app.command()
def strategies(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the strategies with their parameters."""
    rows = [_describe(registry.get(name)) for name in registry.names()]
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table("strategy", "family", "workers per key", "what it does", "parameters", box=None)
    for row in rows:
        fan_out = "up to n" if row["fan_out"] is None else str(row["fan_out"])
        table.add_row(
            row["name"], row["family"], fan_out, row["summary"], _settings_text(row["parameters"])
        )
    _console().print(table)


@app.command("workloads")
def list_workloads(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the workloads with their parameters (set them with --with name=value)."""
    rows: list[dict[str, Any]] = [
        {
            "name": cls.name,
            "summary": _first_line(cls),
            "parameters": parameters.defaults(cls),
        }
        for cls in workloads.ALL
    ]
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    table = Table("workload", "what it is", "parameters", box=None)
    for row in rows:
        table.add_row(row["name"], row["summary"], _settings_text(row["parameters"]))
    _console().print(table)


# --- simulate ------------------------------------------------------------------------------------


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{option} takes name=value, not {text!r}")
        pairs[name.strip()] = value.strip()
    return pairs


def _counts(text: str, option: str) -> list[int]:
    try:
        return [parameters.whole_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes whole numbers with commas, not {text!r}") from None


def _count(text: str | None, option: str) -> int | None:
    return None if text is None else _counts(text, option)[0]


def _strategies(names: str, settings: dict[str, str]) -> list[AnyStrategy]:
    """Return the strategies; a setting goes to all that have a parameter of its name."""
    wanted = registry.names() if names == "all" else [name.strip() for name in names.split(",")]
    classes = [registry.get(name) for name in wanted]
    known = {name for cls in classes for name in parameters.names(cls)}
    for name in settings:
        if name not in known:
            raise ValueError(
                f"{', '.join(wanted)}: {parameters.nearest(name, known, 'parameter')}"
                if known
                else f"{', '.join(wanted)} has no parameters, so {name!r} cannot be set"
            )
    return [
        parameters.make(cls, {k: v for k, v in settings.items() if k in parameters.names(cls)})
        for cls in classes
    ]


def _workload(
    name: str | None,
    trace: Path | None,
    key: str | None,
    settings: dict[str, str],
    options: dict[str, Any],
) -> Workload:
    """Return the workload that the options describe: a trace, a named one, or plain Zipf."""
    given = {k: v for k, v in options.items() if v is not None}
    if trace is not None:
        if name is not None or "z" in given or "n_keys" in given:
            raise ValueError("--trace cannot be combined with --workload, --zipf or --keys")
        if key is None:
            raise ValueError("--trace needs --key COLUMN (several with commas)")
        limit = given.get("limit", given.get("n_records"))
        return workloads.make("trace", path=str(trace), key=key, limit=limit, **settings)
    if key is not None or "limit" in given:
        raise ValueError("--key and --limit go with --trace FILE")
    if name == "trace":
        raise ValueError("give a trace with --trace FILE --key COLUMN")
    if name is None and "z" not in given:
        raise ValueError(
            "say what to route: --zipf Z, --workload NAME, or --trace FILE --key COLUMN"
        )
    return workloads.make(name or "zipf", **given, **settings)


def _speeds(text: str | None, n_workers: int) -> Floats | None:
    if text is None:
        return None
    try:
        pattern = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--capacities takes numbers with commas, not {text!r}") from None
    if any(not 0 < speed < float("inf") for speed in pattern):
        raise ValueError(f"--capacities must be above 0 and finite, not {text!r}")
    if n_workers % len(pattern):
        raise ValueError(
            f"--capacities: {len(pattern)} numbers do not repeat evenly over {n_workers} workers"
        )
    return np.tile(pattern, n_workers // len(pattern))


@app.command("simulate")
def simulate_command(
    strategy: Annotated[
        str,
        typer.Option(help="Names with commas, 'all', or module:Class for one's own."),
    ],
    workers: Annotated[str, typer.Option(help="Number of workers; several with commas.")] = "16",
    sources: Annotated[int, typer.Option(help="Sources; record i goes through i mod S.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of workload and routing.")] = 0,
    zipf: Annotated[float | None, typer.Option(help="Exponent of the Zipf distribution.")] = None,
    keys: Annotated[str | None, typer.Option(help="Keys in the domain, e.g. 1e5.")] = None,
    records: Annotated[str | None, typer.Option(help="Records of the stream, e.g. 1e6.")] = None,
    workload: Annotated[
        str | None, typer.Option(help="A workload by name; see `skewless workloads`.")
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", help="Set a workload parameter: name=value.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="A file of records: Parquet, CSV, JSON lines or text.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The trace's key column(s).")] = None,
    limit: Annotated[str | None, typer.Option(help="At most so many records of the trace.")] = None,
    window: Annotated[str, typer.Option(help="Records per window.")] = "10000",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a strategy parameter: name=value.")
    ] = None,
    capacities: Annotated[
        str | None,
        typer.Option(help="Relative worker speeds with commas; a shorter pattern repeats."),
    ] = None,
    sync: Annotated[
        str,
        typer.Option(help="Records between two merges of what the sources learned; 0: never."),
    ] = "0",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Route a stream by one or more strategies and measure balance, replicas and cost."""
    with _refusing_bad_input():
        chosen = _strategies(strategy, _pairs(set_ or [], "--set"))
        stream = _workload(
            workload,
            trace,
            key,
            _pairs(with_ or [], "--with"),
            {
                "z": zipf,
                "n_keys": _count(keys, "--keys"),
                "n_records": _count(records, "--records"),
                "limit": _count(limit, "--limit"),
            },
        )
        if sources < 1:
            raise ValueError(f"--sources must be at least 1, not {sources}")
        if seed < 0:
            raise ValueError(f"--seed must be at least 0, not {seed}")
        records_per_window = _counts(window, "--window")[0]
        if records_per_window < 1:
            raise ValueError(f"--window must be at least 1, not {window}")
        records_per_sync = _counts(sync, "--sync")[0]
        if records_per_sync < 0:
            raise ValueError(f"--sync must be at least 0, not {sync}")
        if records_per_sync and not any(isinstance(one, Merges) for one in chosen):
            raise ValueError("--sync: none of the chosen strategies merges what its sources learn")
        cells = []
        for n in _counts(workers, "--workers"):
            if n < 1:
                raise ValueError(f"--workers must be at least 1, not {n}")
            cells += [(chosen_one, n, _speeds(capacities, n)) for chosen_one in chosen]

    def one(cell: tuple[AnyStrategy, int, Floats | None], progress: Callable[[int], None]) -> Run:
        return simulate(
            cell[0],
            stream,
            n_workers=cell[1],
            n_sources=sources,
            seed=seed,
            window=records_per_window,
            capacities=cell[2],
            sync=records_per_sync if isinstance(cell[0], Merges) else 0,
            progress=progress,
        )

    runs = []
    with _progress_bar() as bar:
        for cell in cells:
            task = bar.add_task(f"{cell[0].name}, {cell[1]} workers", total=stream.n_records)
            runs.append(one(cell, lambda done, task=task: bar.update(task, completed=done)))  # type: ignore[misc]
            bar.update(task, visible=False)
            if as_json:
                print(json.dumps(runs[-1].summary()), flush=True)
    if not as_json:
        _console().print(comparison_table(runs))


def _console() -> Console:
    """Return standard output; a file or a pipe has no width, so it gets enough."""
    return Console(width=None if sys.stdout.isatty() else 160)


def _progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def comparison_table(runs: list[Run]) -> Table:
    """Return the table that people see: one row per run, and what is reachable as the last."""
    first = runs[0].summary()
    title = (
        f"{first['workload']}: {first['records']:,} records, {first['keys']:,} keys, "
        f"{first['sources']} source(s), windows of {first['window']:,} records"
    )
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("strategy", no_wrap=True)
    for heading in (
        "workers",
        "imbalance",
        "replicas / key",
        "window imbalance",
        "window replicas",
        "makespan",
        "ns / record",
        "state",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in runs:
        row = run.summary()
        table.add_row(
            row["strategy"],
            str(row["workers"]),
            f"{row['imbalance']:.2g}",
            f"{'' if row['replication_exact'] else '≈'}{row['replication']:.4f}",
            f"{row['window_imbalance_mean']:.2g}",
            f"{row['window_replication_mean']:.3f}",
            f"{row['makespan_ratio']:.3f}",
            f"{row['ns_per_record']:.1f}",
            _bytes_text(row["state_bytes"]),
        )
    for n, limit in sorted({(r.n_workers, r.summary()["replication_limit"]) for r in runs}):
        table.add_row(
            "the limit", str(n), "0", f"{limit:.4f}", "0", "", "1.000", "", "", style="dim"
        )
    return table


def _bytes_text(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


# --- check and demo ------------------------------------------------------------------------------


@app.command()
def check(
    strategy: Annotated[str, typer.Argument(help="A name, or module:Class for one's own.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set a parameter: name=value.")
    ] = None,
) -> None:
    """Check a strategy against the contract; exit code 1 when it breaks it."""
    from skewless.checks import CheckFailed, check_strategy

    with _refusing_bad_input():
        (subject,) = _strategies(strategy, _pairs(set_ or [], "--set"))
    try:
        passed = check_strategy(subject)
    except CheckFailed as error:
        print(f"skewless: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    for name in passed:
        print(f"passed  {name.replace('_', ' ')}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the page with the plots goes.")] = Path(
        "out/demo.html"
    ),
    records: Annotated[str, typer.Option(help="Records of the stream.")] = "2e6",
) -> None:
    """Send a skewed stream whose hot keys drift through every strategy: a table and a page."""
    from skewless.dashboard.comparison import write_page

    with _refusing_bad_input():
        n_records = _counts(records, "--records")[0]
        stream = workloads.make(
            "evolving-zipf", z=1.4, n_keys=100_000, n_records=n_records, period=n_records // 4
        )
        out.parent.mkdir(parents=True, exist_ok=True)
    runs = []
    with _progress_bar() as bar:
        for name in registry.names():
            task = bar.add_task(name, total=n_records)
            runs.append(
                simulate(
                    registry.make(name),
                    stream,
                    n_workers=32,
                    n_sources=4,
                    progress=lambda done, task=task: bar.update(task, completed=done),  # type: ignore[misc]
                )
            )
            bar.update(task, visible=False)
    _console().print(comparison_table(runs))
    write_page(runs, out)
    print(f"\nThe plots: {out}")
