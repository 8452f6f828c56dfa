"""All figures, and the choice of some of them by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from skewless import parameters
from skewless.experiments.reproduction.figure import PAPERS, Figure
from skewless.experiments.reproduction.papers import dalton, fish, mixed, pd_stream, pstream

#: The figures of each paper, in the order of `PAPERS`.
_COLLECTIONS: tuple[tuple[Figure, ...], ...] = (
    fish.FIGURES,
    dalton.FIGURES,
    pstream.FIGURES,
    pd_stream.FIGURES,
    mixed.FIGURES,
)


def all_figures() -> list[Figure]:
    """Return the figures of all papers, each paper's in its own order."""
    figures = [figure for collection in _COLLECTIONS for figure in collection]
    twice = [name for name, count in Counter(f.name for f in figures).items() if count > 1]
    if twice:
        raise ValueError(f"two figures have the same name: {', '.join(twice)}")
    return figures


def select(names: Sequence[str], figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures that the names mean, in their own order; all, if there are no names.

    A name is a paper, or paper/figure. Upper and lower case are the same, and so are a space and
    a hyphen.
    """
    papers: set[str] = {
        paper for paper in PAPERS if any(figure.paper == paper for figure in figures)
    }
    by_name = {_spelled(figure.name): figure.name for figure in figures}
    wanted: set[str] = set()
    for name in names:
        spelled = _spelled(name)
        if spelled in papers:
            wanted |= {figure.name for figure in figures if figure.paper == spelled}
        elif spelled in by_name:
            wanted.add(by_name[spelled])
        else:
            raise ValueError(_unknown(name, papers, by_name))
    return [figure for figure in figures if not names or figure.name in wanted]


def _spelled(name: str) -> str:
    return "-".join(name.lower().split()).strip("/")


def _unknown(name: str, papers: set[str], by_name: dict[str, str]) -> str:
    """Return the line about an unknown name; among the figures of its paper, if that is known."""
    paper, slash, _ = _spelled(name).partition("/")
    if not slash:
        return parameters.nearest(name, papers, "paper")
    if paper not in papers:
        return parameters.nearest(name, {*papers, *by_name}, "figure")
    own = [spelled for spelled in by_name if spelled.startswith(f"{paper}/")]
    return parameters.nearest(name, own, "figure")
