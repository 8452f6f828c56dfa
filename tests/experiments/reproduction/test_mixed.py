"""The figures of Mixed: all of them run at the smallest size, and clear directions can be seen."""

from __future__ import annotations

import json
import math

import pytest

from skewless.experiments.reproduction.figure import FULL, QUICK, TINY, Figure, Results
from skewless.experiments.reproduction.papers.mixed import FIGURES
from skewless.experiments.reproduction.papers.mixed.fitting import fitted_z, same_head
from skewless.experiments.reproduction.verdicts import judge
from skewless.workloads.zipf import zipf_probabilities

NUMBERS = ["7", "8", "9", "10", "11", "12", "13", "14", "15", "17", "18", "19", "20", "21"]

#: By figure, claims (counted from 0) that even the smallest size must not contradict.
CLEAR = {
    "7": [0],
    "8": [2],
    "9": [0, 3, 5],
    "11": [0, 2],
    "12": [0],
    "13": [0],
    "14": [2],
    "15": [0, 1, 2],
    "17": [0, 1, 2],
    "18": [0],
    "19": [0, 1],
    "20": [0, 1],
}

_measured: dict[str, Results] = {}


def measured(figure: Figure) -> Results:
    """Return what the cells measure at the smallest size; they are run once."""
    if figure.number not in _measured:
        cells = figure.cells(TINY)
        _measured[figure.number] = {label: cell.run() for label, cell in cells.items()}
    return _measured[figure.number]


def test_all_figures_are_there_in_the_order_of_the_paper() -> None:
    assert [figure.number for figure in FIGURES] == NUMBERS
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.number)
def test_a_figure_says_what_it_claims_and_on_which_data(figure: Figure) -> None:
    assert figure.paper == "mixed"
    assert figure.claims
    assert figure.plots
    assert figure.data
    for size in (TINY, QUICK, FULL):
        cells = figure.cells(size)
        assert any("cascade" in label for label in cells)
        for cell in cells.values():
            json.dumps(vars(cell))  # plain values only


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.number)
def test_the_smallest_size_gives_numbers_for_all_claims_and_plots(figure: Figure) -> None:
    results = measured(figure)
    # Raw records are files of JSON: what is read back must do.
    results = json.loads(json.dumps(results))
    for claim in [*figure.claims, *figure.evidence]:
        assert math.isfinite(claim.ours(results)), claim.says
    for plot in figure.plots:
        points = plot.curves(results)
        assert points
        assert all(math.isfinite(y) for curve in points.values() for _, y in curve)


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.number)
def test_clear_directions_are_seen_at_the_smallest_size(figure: Figure) -> None:
    results = measured(figure)
    for number in CLEAR.get(figure.number, []):
        judged = judge(figure.claims[number], results)
        assert judged.verdict != "not reproduced", (judged.claim.says, judged.ours)


@pytest.mark.parametrize("number", ["8", "11", "13"])
def test_a_cell_measures_the_same_twice(number: str) -> None:
    figure = next(figure for figure in FIGURES if figure.number == number)
    label, cell = next(iter(figure.cells(TINY).items()))
    assert json.dumps(cell.run()) == json.dumps(measured(figure)[label])


@pytest.mark.parametrize(("share", "n_keys"), [(0.021, 1_000), (0.04, 1_036), (0.3, 50)])
def test_a_fitted_exponent_gives_the_hottest_key_its_share(share: float, n_keys: int) -> None:
    # Four digits of z: the share is right to about as many.
    hottest = zipf_probabilities(fitted_z(share, n_keys), n_keys)[0]
    assert hottest == pytest.approx(share, rel=1e-3)


def test_fewer_keys_keep_the_head_of_the_distribution() -> None:
    published = zipf_probabilities(0.85, 100_000)[0]
    assert zipf_probabilities(same_head(0.85, 100_000, 500), 500)[0] == pytest.approx(
        published, rel=1e-3
    )
