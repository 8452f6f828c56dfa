"""PStream's figures: all of them run at the tiny size, and what is clear there comes out."""

from __future__ import annotations

import json
import math

import pytest

from skewless.experiments.reproduction.figure import QUICK, TINY, Figure
from skewless.experiments.reproduction.papers.pstream import FIGURES
from skewless.experiments.reproduction.papers.pstream.rivals import KINDS
from skewless.experiments.reproduction.verdicts import judge, judge_figure

BY_NAME = {figure.name: figure for figure in FIGURES}

#: Figures whose every claim has the right direction even with 20,000 records and 32 workers.
CLEAR = ("2b", "3", "5", "6", "table-1", "table-2", "15", "35", "36")


@pytest.fixture(scope="module")
def measured():
    """Measure each cell once, as a runner does."""
    rows = {}

    def results(figure: Figure):
        found = {}
        for label, cell in figure.cells(TINY).items():
            if repr(cell) not in rows:
                rows[repr(cell)] = cell.run()
            found[label] = rows[repr(cell)]
        return found

    return results


def test_all_figures_are_there_in_the_order_of_the_paper():
    numbers = [figure.number for figure in FIGURES]
    before = ["2a", "2b", "3", "4", "5", "6", "table 1", "table 2"]
    after = [str(n) for n in (*range(13, 18), *range(28, 37))]
    assert numbers == [*before, *after, "predictors"]
    assert len(BY_NAME) == len(FIGURES)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_figure_says_what_it_is_about(name):
    figure = BY_NAME[name]
    assert figure.claims
    assert figure.plots
    assert figure.data
    assert any("cascade" in label for label in figure.cells(TINY)) or name == "pstream/table-2"


@pytest.mark.slow
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


@pytest.mark.parametrize("number", CLEAR)
def test_directions_that_are_clear_come_out_in_a_tiny_run(number, measured):
    figure = BY_NAME[f"pstream/{number}"]
    verdicts = {one.claim.says: one.verdict for one in judge_figure(figure, measured(figure))}
    assert "not reproduced" not in verdicts.values(), verdicts


@pytest.mark.parametrize("name", BY_NAME)
def test_the_same_size_gives_the_same_cells_with_different_labels_for_different_ones(name):
    cells = BY_NAME[name].cells(QUICK)
    again = BY_NAME[name].cells(QUICK)
    assert {label: repr(cell) for label, cell in cells.items()} == {
        label: repr(cell) for label, cell in again.items()
    }
    assert all(cell.n_workers <= QUICK.workers for cell in cells.values() if is_sized(cell))


def is_sized(cell):
    return hasattr(cell, "n_workers")


def test_figures_share_cells():
    cells = [repr(cell) for figure in FIGURES for cell in figure.cells(QUICK).values()]
    assert len(set(cells)) < 0.75 * len(cells)


def test_all_predictors_are_measured_on_all_streams(measured):
    results = measured(BY_NAME["pstream/predictors"])
    names = {label.rsplit(", ", 1)[0] for label in results}
    assert set(KINDS) < names
    assert len(names) == len(KINDS) + 4  # four have a size that is chosen
    assert len(results) == 3 * len(names)
    assert all(0.0 <= row["key_recall"] <= 1.0 for row in results.values())
