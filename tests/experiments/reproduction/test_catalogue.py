"""All figures of all papers fit what surrounds them: names, cells, pictures."""

from __future__ import annotations

import json

import pytest

from skewless.experiments.reproduction import raw
from skewless.experiments.reproduction.catalogue import all_figures, select
from skewless.experiments.reproduction.figure import PAPERS, SIZES, Figure

FIGURES = all_figures()
#: Properties of a test or of a stream: no record is routed, so there is no place for a strategy.
WITHOUT_STRATEGIES = (
    "pstream/table-2",
    "pd-stream/table-II",
    "pd-stream/table-III",
    "pd-stream/table-IV",
)


def test_all_papers_have_figures_and_stand_in_their_order() -> None:
    papers = [figure.paper for figure in FIGURES]
    assert tuple(dict.fromkeys(papers)) == PAPERS
    assert len(FIGURES) >= 60


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_figure_is_found_by_its_name_and_says_what_it_is(figure: Figure) -> None:
    assert select([figure.name], FIGURES) == [figure]
    assert figure.title
    assert figure.data
    assert figure.claims
    assert figure.plots
    for plot in figure.plots:
        assert plot.x
        assert plot.y


@pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_cells_can_be_told_apart_and_stored(figure: Figure, size: object) -> None:
    cells = figure.cells(size)  # type: ignore[arg-type]
    assert cells
    known = {label: raw.identity(cell) for label, cell in cells.items()}
    again = {label: raw.identity(cell) for label, cell in figure.cells(size).items()}  # type: ignore[arg-type]
    assert known == again
    for one in known.values():
        assert json.loads(one.parameters)
        assert len(one.path.name) < 200


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_cascade_is_in_every_figure(figure: Figure) -> None:
    cells = figure.cells(SIZES["quick"])
    named = " ".join([*cells, *(" ".join(raw.identity(cell)) for cell in cells.values())])
    assert ("cascade" in named.lower()) == (figure.name not in WITHOUT_STRATEGIES)
