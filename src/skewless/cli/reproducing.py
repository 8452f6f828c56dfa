"""`skewless reproduce`: tables and figures of the papers, ours beside theirs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from skewless import parameters
from skewless.arguments import path_text
from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input, stopped
from skewless.cli.needs import needing_bokeh
from skewless.cli.screen import AsJson, console, print_json, progress_bar
from skewless.experiments.reproduction.catalogue import all_figures, select
from skewless.experiments.reproduction.document import about_size
from skewless.experiments.reproduction.figure import QUICK, SIZES, Figure, Size
from skewless.experiments.reproduction.results import (
    FAILED,
    PAPER_NAMES,
    Result,
    result,
    summary,
    without_plots,
    without_reason,
)
from skewless.experiments.reproduction.runner import measure

_MOST_JOBS = 1024


def _size(quick: bool, size: str | None) -> Size:
    if size is None:
        return QUICK if quick else SIZES["full"]
    if size not in SIZES:
        raise ValueError(f"--size: {parameters.nearest(size, SIZES, 'size')}")
    if quick and size != QUICK.name:
        raise ValueError(f"--quick cannot be combined with --size {size}")
    return SIZES[size]


def cores() -> int:
    """Return how many cores this process may use, which can be fewer than the machine has."""
    may = getattr(os, "sched_getaffinity", None)
    return min(_MOST_JOBS, len(may(0)) if may else os.cpu_count() or 1)


def _folder(out: Path) -> Path:
    path_text(out, "--out", "the path of a folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be the path of a folder, and {str(out)!r} is a file")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _list(figures: Sequence[Figure], as_json: bool) -> None:
    if as_json:
        for figure in figures:
            print_json({"name": figure.name, "title": figure.title})
        return
    table = Table("figure", "what it shows", box=None)
    for figure in figures:
        table.add_row(figure.name, figure.title)
    console().print(table)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER[/FIGURE]", help="What to reproduce; all by default."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The same as --size quick.")] = False,
    size: Annotated[
        str | None,
        typer.Option(
            help="tiny, quick, or full (the default): as published, as far as one machine can."
        ),
    ] = None,
    jobs: Annotated[
        str | None, typer.Option(help="Number of processes; one per core by default.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The folder of the raw records; a stopped run resumes from it.")
    ] = Path("out/reproduction"),
    page: Annotated[
        Path | None, typer.Option(help="Write a page with all plots to this file.")
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the figures, and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure tables and figures of the papers, and say which of their claims hold."""
    with refusing_bad_input():
        figures = select(names or [], all_figures())
        chosen = _size(quick, size)
        text = str(cores()) if jobs is None else jobs
        n_jobs = reading.count(text, "--jobs", least=1, most=_MOST_JOBS)
        if only_list:
            _list(figures, as_json)
            return
        if page is not None:
            with needing_bokeh():
                from skewless.dashboard.reproduction import write_reproduction
            reading.file_to_write(page, "--page")
        folder = _folder(out)
    results = measure_on_screen(figures, chosen, folder, n_jobs)
    if page is not None:
        with refusing_bad_input():
            about = f"{about_size(chosen.name)} {summary(results)}"
            write_reproduction(results, PAPER_NAMES, about, page)
    if as_json:
        for one in results:
            print_json(without_plots(one))
    else:
        _show(results, page)
    failed = [one for one in results if one["verdict"] == FAILED]
    if failed:
        first = f"{failed[0]['name']}: {failed[0]['error']}"
        raise stopped(f"{len(failed)} of {len(results)} figures failed; {first}", 1)


def measure_on_screen(
    figures: Sequence[Figure], size: Size, folder: Path, n_jobs: int
) -> list[Result]:
    """Measure the missing cells, with a progress bar; Ctrl-C ends the command with one line."""
    seen = (0, 0)
    with progress_bar() as bar:
        task = bar.add_task(f"measuring, {n_jobs} at a time", total=None)

        def progress(done: int, total: int) -> None:
            nonlocal seen
            seen = done, total
            bar.update(task, completed=done, total=total)

        try:
            outcomes = measure(figures, size, folder, jobs=n_jobs, progress=progress)
        except OSError as error:  # a full disk, a folder without permission
            raise stopped(str(error), 2) from None
        except KeyboardInterrupt:
            outcomes = None
    if outcomes is None:
        kept = f"{seen[0]} of {seen[1]} cells are kept in {folder}"
        raise stopped(f"stopped: {kept}; the same command resumes from there", 130)
    return [result(figure, size, got) for figure, got in zip(figures, outcomes, strict=True)]


def _show(results: Sequence[Result], page: Path | None) -> None:
    table = Table("figure", "verdict", "claims", "what it shows", box=None)
    for one in results:
        verdicts = Counter(claim["verdict"] for claim in one["claims"])
        claims = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        table.add_row(one["name"], one["verdict"], claims or one.get("error", ""), one["title"])
    console().print(table)
    print(f"\n{summary(results)}")
    unexplained = without_reason(results)
    if unexplained:
        print(f"Missed without an experiment that shows why: {', '.join(unexplained)}")
    if page is not None:
        print(f"The plots: {page}")
