"""PStream's figures: all of them run at the tiny size, and what is clear there comes out."""

from __future__ import annotations

import json
import math

import pytest

from skewless.experiments.reproduction.figure import QUICK, TINY, Figure
from skewless.experiments.reproduction.papers.pstream import FIGURES
from skewless.experiments.reproduction.verdicts import judge, judge_figure

BY_NAME = {figure.name: figure for figure in FIGURES}


@pytest.fixture(scope="module")
def measured():
    """Measure each cell once, as the runner does."""
    rows = {}

    def results(figure: Figure):
        found = {}
        for label, cell in figure.cells(TINY).items():
            if repr(cell) not in rows:
                rows[repr(cell)] = cell.run()
            found[label] = rows[repr(cell)]
        return found

    return results


def test_names_are_unique_and_every_figure_claims_something():
    assert len(BY_NAME) == len(FIGURES)
    for figure in FIGURES:
        assert figure.claims
        assert figure.plots
        assert figure.data


@pytest.mark.parametrize("name", BY_NAME)
def test_a_tiny_run_gives_a_number_for_every_claim(name, measured):
    figure = BY_NAME[name]
    results = measured(figure)
    json.dumps(results, allow_nan=False)  # plain values only
    judged = [*judge_figure(figure, results), *(judge(claim, results) for claim in figure.evidence)]
    assert all(math.isfinite(one.ours) for one in judged)
    for plot in figure.plots:
        for points in plot.curves(results).values():
            assert len(points) > 0
            assert all(math.isfinite(y) for _, y in points)


@pytest.mark.parametrize("name", BY_NAME)
def test_quick_cells_are_plain_values(name):
    for cell in BY_NAME[name].cells(QUICK).values():
        assert hash(repr(cell))
        assert eval(repr(cell), vars_of(cell)) == cell


def vars_of(cell):
    return {type(cell).__name__: type(cell)}
