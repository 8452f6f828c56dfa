"""`python -m experiments.reproduction`: measure figures, and say which of their claims hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.records import Row, read_records, write_records
from experiments.reproduction.catalogue import all_figures, select
from experiments.reproduction.document import RECORDS, write_document
from experiments.reproduction.figure import SIZES, Figure, Size
from experiments.reproduction.results import Result, recorded, result, summary, without_reason
from experiments.reproduction.runner import measure
from skewless import parameters
from skewless.cli.application import refusing_bad_input, stopped
from skewless.cli.option import option
from skewless.cli.screen import progress_bar


def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER[/FIGURE]", help="What to reproduce; all by default."),
    ] = None,
    size: str = option("quick", f"One of {', '.join(SIZES)}."),
    out: Path = option(
        Path("out/reproduction"), "The folder of the raw records; a stopped run resumes from it."
    ),
    record: bool = option(
        False, "Write the document; other figures keep their record.", "--record"
    ),
    only_list: bool = option(False, "List the figures, and exit.", "--list"),
) -> None:
    """Measure the tables and figures of the papers, and say which of their claims hold."""
    with refusing_bad_input():
        figures = select(names or [], all_figures())
        if size not in SIZES:
            raise ValueError(f"--size: {parameters.nearest(size, SIZES, 'size')}")
        if only_list:
            for figure in figures:
                print(f"{figure.name:20} {figure.title}")
            return
        if out.exists() and not out.is_dir():
            raise ValueError(f"--out must be the path of a folder, and {str(out)!r} is a file")
    records = _measured(figures, SIZES[size], out)
    results = [result(*both) for both in zip(figures, records, strict=True)]
    if record:
        known = {one["name"]: one for one in (read_records(RECORDS) if RECORDS.exists() else ())}
        known |= {one["name"]: one for one in records}
        kept = [figure for figure in all_figures() if figure.name in known]
        write_records(RECORDS, (known[figure.name] for figure in kept))
        write_document([result(figure, known[figure.name]) for figure in kept])
    _show(results)
    failed = [one for one in results if "error" in one]
    if failed:
        first = f"{failed[0]['name']}: {failed[0]['error']}"
        raise stopped(f"{len(failed)} of {len(results)} figures failed; {first}", 1)


def _measured(figures: Sequence[Figure], size: Size, out: Path) -> list[Row]:
    """Measure the missing cells, with a progress bar; Ctrl-C ends the command with one line."""
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=None)
        try:
            outcomes = measure(
                figures, size, out, lambda done, n: bar.update(task, completed=done, total=n)
            )
        except OSError as error:  # a full disk, a folder without permission
            raise stopped(str(error), 2) from None
        except KeyboardInterrupt:
            kept = f"what was measured is kept in {out}"
            raise stopped(f"stopped: {kept}; the same command resumes from there", 130) from None
    return [recorded(figure, size, got) for figure, got in zip(figures, outcomes, strict=True)]


def _show(results: Sequence[Result]) -> None:
    for one in results:
        verdicts = Counter(claim["verdict"] for claim in one["claims"])
        claims = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        print(f"{one['name']:20} {one['verdict']:15} {claims or one['error']}")
    print(f"\n{summary(results)}")
    if unexplained := without_reason(results):
        print(f"Missed without an experiment that shows why: {', '.join(unexplained)}")


if __name__ == "__main__":
    typer.run(main)
