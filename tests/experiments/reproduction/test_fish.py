"""FISH's figures as data: all are there, all run, and clear directions show in the tiny form."""

from __future__ import annotations

import math
from functools import cache

import pytest

from skewless.experiments.reproduction.figure import FULL, QUICK, TINY, Cell, Figure, Results, Size
from skewless.experiments.reproduction.papers.fish import FIGURES, streams, systems
from skewless.experiments.reproduction.verdicts import judge
from skewless.experiments.tables import Row
from skewless.workloads.zipf import zipf_probabilities

_BY_NUMBER = {figure.number: figure for figure in FIGURES}
# What a stream of 20,000 records and 32 workers shows: the number of a figure, and its claims.
_CLEAR = {
    "2": ["FG's 99th percentile", "With 100 counted keys, the latency of W-C"],
    "3": ["SG needs 23.16", "W-C with 100", "SG's memory grows"],
    "9": ["FISH takes 1.07", "PKG takes 8.32", "PKG takes 7.31"],
    "10": ["FISH takes 1.32", "D-C takes up to", "PKG is the worst", "PKG becomes worse"],
    "11": ["SG needs 15.52", "SG needs 88.32", "FISH needs far less"],
    "12": ["With α = 0, the execution time", "With α = 0, it needs"],
    "13": ["Only θ = 2/n", "θ = 1/(8n) takes", "θ = 1/(8n) needs"],
    "15": ["CHK saves up to 45.34", "It saves more"],
    "16": ["By numbers of records, it takes longer"],
    "17": ["When a worker joins, nearly", "When worker 2 leaves, nearly"],
    "19": ["PKG has a higher"],
    "20": ["FISH needs less than 16 %"],
}


@cache
def _run(cell: str) -> Row:
    """Measure a cell once, however many figures have it."""
    return _CELLS[cell].run()


_CELLS: dict[str, Cell] = {}


def _measured(figure: Figure) -> Results:
    cells = figure.cells(TINY)
    _CELLS.update({repr(cell): cell for cell in cells.values()})
    return {label: _run(repr(cell)) for label, cell in cells.items()}


def test_every_figure_of_the_evaluation_is_there_once_and_in_order() -> None:
    numbers = ["2", "3", "4", *(str(number) for number in range(9, 21))]
    assert [figure.number for figure in FIGURES] == numbers
    assert {figure.paper for figure in FIGURES} == {"fish"}
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
@pytest.mark.parametrize("size", [TINY, QUICK, FULL], ids=lambda size: size.name)
def test_every_figure_has_cells_with_cascade_claims_and_data(figure: Figure, size: Size) -> None:
    cells = figure.cells(size)
    assert any(getattr(cell, "strategy", "") == "cascade" for cell in cells.values())
    assert figure.claims
    assert all(claim.place and claim.says for claim in (*figure.claims, *figure.evidence))
    assert all((figure.title, figure.data, figure.plots))


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_tiny_run_gives_a_number_for_every_claim_and_points_for_every_curve(
    figure: Figure,
) -> None:
    results = _measured(figure)
    for claim in (*figure.claims, *figure.evidence):
        assert math.isfinite(judge(claim, results).ours), claim.says
    for plot in figure.plots:
        curves = plot.curves(results)
        assert curves
        assert all(curves.values())
        assert all(math.isfinite(y) for points in curves.values() for _, y in points)


@pytest.mark.parametrize("number", _CLEAR)
def test_clear_directions_show_in_a_tiny_run(number: str) -> None:
    figure = _BY_NUMBER[number]
    results = _measured(figure)
    for begin in _CLEAR[number]:
        (claim,) = [claim for claim in figure.claims if claim.says.startswith(begin)]
        judged = judge(claim, results)
        assert judged.verdict != "not reproduced", (claim.says, judged.ours)


def test_the_same_cell_gives_the_same_record() -> None:
    cell = next(iter(_BY_NUMBER["9"].cells(TINY).values()))
    assert cell.run() == cell.run()


def test_worker_2_leaves_in_figure_17() -> None:
    cells = _BY_NUMBER["17"].cells(TINY)
    leaving = cells["FISH w/o CH (b), z 1.0, 16 workers, seed 1"]
    assert leaving.events == ({"at": 10_000, "worker": 2, "kind": "leave"},)


def test_alpha_0_forgets_all_counts_in_figure_12() -> None:
    cells = _BY_NUMBER["12"].cells(TINY)
    assert cells["FISH α 0, z 1.0, 16 workers, seed 1"].settings["alpha"] == 0.0


@pytest.mark.parametrize(("top", "n_keys"), [(0.13, 3_170), (0.114, 250_000), (0.5, 100)])
def test_the_fitted_exponent_gives_the_share_of_the_hottest_key(top: float, n_keys: int) -> None:
    z = streams.fitted_z(top, n_keys)
    assert zipf_probabilities(z, n_keys)[0] == pytest.approx(top, rel=2e-3)


def test_streams_have_the_published_size_where_the_size_allows_it() -> None:
    huge = FULL._replace(records=10**9)
    assert streams.zf(huge, 1.0).of == {
        "z": 1.0,
        "n_keys": 100_000,
        "n_records": 50_000_000,
        "period": 5_000_000,
    }
    assert streams.am(huge).of["n_keys"] == 250_000
    assert streams.mt(huge).n_records == 49_210_000


def test_an_unknown_curve_is_named() -> None:
    with pytest.raises(KeyError, match="FISH, z 9, 16 workers"):
        systems.mean({}, "replication", "FISH", "z 9", 16)
