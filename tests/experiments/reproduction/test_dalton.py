"""Dalton's figures in their tiny form: cells, claims, and the directions that are clear there."""

import math

import pytest

from skewless import registry, workloads
from skewless.experiments.reproduction.figure import FULL, QUICK, TINY
from skewless.experiments.reproduction.papers.dalton import FIGURES
from skewless.experiments.reproduction.verdicts import judge, judge_figure
from skewless.simulator.timed.timing import Timing

#: The panels of Figures 1 and 7 to 15.
NUMBERS = (
    "1 7a 7b 7c 8a 8b 8c 9a 9b 9c 9d 10a 10b 10c 11 12 13a 13b 14a 14b 15".split()  # noqa: SIM905
)
_RESULTS = {}


def results_of(figure):
    """Return the tiny results of a figure; cells that figures share are measured once."""
    cells = figure.cells(TINY)
    for cell in cells.values():
        if repr(cell) not in _RESULTS:
            _RESULTS[repr(cell)] = cell.run()
    return {label: _RESULTS[repr(cell)] for label, cell in cells.items()}


def claim_of(number, words):
    """Return the claim or evidence of a figure that has these words."""
    figure = next(f for f in FIGURES if f.number == number)
    (claim,) = [c for c in (*figure.claims, *figure.evidence) if words in c.says]
    return judge(claim, results_of(figure))


def test_every_figure_of_the_paper_is_there_once_and_in_order():
    assert [figure.number for figure in FIGURES] == NUMBERS
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    assert {figure.paper for figure in FIGURES} == {"dalton"}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.number)
def test_a_figure_says_what_it_measures(figure):
    assert figure.claims
    assert figure.title
    assert figure.data
    assert all(claim.place for claim in figure.claims)
    # What is not reproduced has a reason, and a reason has an experiment.
    assert bool(figure.why) == bool(figure.evidence)
    labels = " ".join(figure.cells(QUICK))
    assert "cascade" in labels
    assert "dalton" in labels or figure.number in ("10a", "10b")


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.number)
def test_a_tiny_run_gives_numbers_and_curves(figure):
    results = results_of(figure)
    judged = [*judge_figure(figure, results), *(judge(e, results) for e in figure.evidence)]
    assert all(math.isfinite(one.ours) for one in judged), [
        (one.claim.says, one.ours) for one in judged
    ]
    for plot in figure.plots:
        curves = plot.curves(results)
        assert any("cascade" in name for name in curves) or figure.number.startswith(("10", "13"))
        assert all(points for points in curves.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("1", "static strategies cannot handle the skew"),
        ("7a", "split all keys are below hashing"),
        ("7c", "hashing does not use more workers"),
        ("8a", "differ less"),
        ("10a", "costs more with longer windows"),
        ("10b", "longer windows matter less"),
        ("10c", "values compared"),
        ("11", "key forwarding brings most on T4SA"),
        ("12", "more workers matter less at low rates"),
        ("13b", "DAGreedy outperforms hashing"),
        ("14b", "10 seconds at first"),
        ("14b", "twice as long"),
        ("14b", "four times as long"),
        ("14b", "delays are gone"),
    ],
)
def test_what_is_clear_even_in_a_tiny_run(number, words):
    assert claim_of(number, words).verdict == "reproduced"


@pytest.mark.parametrize("size", [TINY, QUICK, FULL], ids=lambda size: size.name)
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.number)
def test_the_parameters_of_every_size_are_allowed(figure, size):
    """What a run of the full size would refuse only after minutes."""
    for cell in figure.cells(size).values():
        if hasattr(cell, "settings"):
            registry.make(cell.strategy, **cell.settings)
            workloads.make(cell.workload, **cell.of)
        if hasattr(cell, "timing"):
            Timing(**cell.timing)


def test_a_cell_gives_the_same_row_again():
    figure = next(f for f in FIGURES if f.number == "13a")
    cell = figure.cells(TINY)["dalton #1"]
    assert cell.run() == cell.run()
