"""All figures, and the choice of some of them by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.reproduction.figure import Figure, read_figures
from experiments.reproduction.papers import dalton, fish, mixed, pd_stream, pstream
from skewless import parameters

#: In the order of the document.
PAPERS = [paper.PAPER for paper in (fish, dalton, pstream, pd_stream, mixed)]


def all_figures() -> list[Figure]:
    """Return the figures of all papers, each paper's in its own order."""
    papers = Path(__file__).parent / "papers"
    folders = [(paper, papers / paper.name.replace("-", "_")) for paper in PAPERS]
    return [figure for paper, folder in folders for figure in read_figures(paper, folder)]


def select(names: Sequence[str], figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures that the names mean, in their own order; all, if there are no names.

    A name is a paper, or paper/figure. Upper and lower case are the same, and so are a space and
    a hyphen.
    """
    known: dict[str, set[str]] = {}
    for figure in figures:
        known.setdefault(figure.paper.name, set()).add(figure.name)
        known[figure.name.lower()] = {figure.name}
    wanted: set[str] = set()
    for name in names:
        spelled = "-".join(name.lower().split()).strip("/")
        if spelled not in known:
            paper, slash, _ = spelled.partition("/")
            own = [one for one in known if one.startswith(f"{paper}/")]
            alike = (own or known) if slash else [one for one in known if "/" not in one]
            raise ValueError(parameters.nearest(name, alike, "figure" if slash else "paper"))
        wanted |= known[spelled]
    return [figure for figure in figures if not names or figure.name in wanted]
