"""All figures of all papers: their data is whole, and what is clear in a tiny run comes out."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from experiments.reproduction.catalogue import PAPERS, all_figures, select
from experiments.reproduction.figure import SIZES, Cell, Claim, Figure, Measurement, Size
from experiments.reproduction.numbers import Numbers
from experiments.reproduction.papers import fish
from experiments.reproduction.results import judge
from experiments.reproduction.runner import identity
from experiments.reproduction.table import Entry, Table
from fake_paper import result
from lanes import slow
from skewless import registry, workloads
from skewless.simulator.timed.timing import Timing

FIGURES = all_figures()
BY_NAME = {figure.name: figure for figure in FIGURES}
TINY = SIZES["tiny"]
#: The figures of each paper, in its order.
NUMBERS = {
    "fish": "2 3 4 9 10 11 12 13 14 15 16 17 18 19 20",
    "dalton": "1 7a 7b 7c 8a 8b 8c 9a 9b 9c 9d 10a 10b 10c 11 12 13a 13b 14a 14b 15",
    "pstream": "2a 2b 3 4 5 6 9 10 11 table-1 table-2 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 "
    "28 29 30 31 32 33 34 35 36 predictors",
    "pd-stream": "table-II table-III table-IV 4 5 6 7 8 9 10 11 12 13",
    "mixed": "7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
}
#: Properties of a stream, or of what counts keys: no record is routed, so there is no place for a
#: strategy.
WITHOUT_STRATEGIES = {
    *(
        f"pstream/{n}"
        for n in ["9", "10", "11", "table-1", "table-2", "34", "35", "36", "predictors"]
    ),
    *(f"pd-stream/table-{n}" for n in ("II", "III", "IV")),
    *("dalton/10a", "dalton/10b"),
}
#: Words of claims that 20,000 records and 32 workers must not contradict; "" for all claims.
CLEAR = {
    "fish/3": ["SG needs 23.16", "W-C with 100", "SG's memory grows"],
    "fish/9": ["FISH takes 1.07", "PKG takes 8.32", "PKG takes 7.31"],
    "fish/11": ["SG needs 15.52", "SG needs 88.32", "FISH needs far less"],
    "fish/20": ["FISH needs less than 16 %"],
    **{f"pstream/{n}": [""] for n in ("2b", "5", "6", "table-1", "table-2")},
    **{f"pd-stream/table-{n}": [""] for n in ("II", "III", "IV")},
}
CLEAR_BUT_SLOW = {
    "fish/2": ["FG's 99th percentile", "With 100 counted keys, the latency of W-C"],
    "fish/10": ["FISH takes 1.32", "D-C takes up to", "PKG is the worst", "PKG becomes worse"],
    "fish/12": ["With α = 0, the execution time", "With α = 0, it needs"],
    "fish/13": ["Only θ = 2/n", "θ = 1/(8n) takes", "θ = 1/(8n) needs"],
    "fish/15": ["CHK saves up to 45.34", "It saves more"],
    "fish/16": ["By numbers of records, it takes longer"],
    "fish/17": ["When a worker joins, nearly", "When worker 2 leaves, nearly"],
    "fish/19": ["PKG has a higher"],
    **{f"pstream/{n}": [""] for n in ("3", "15")},
    "dalton/1": ["static strategies cannot handle the skew"],
    "dalton/7a": ["split all keys are below hashing"],
    "dalton/7c": ["hashing does not use more workers"],
    "dalton/8a": ["differ less"],
    "dalton/10c": ["values compared"],
    "dalton/11": ["key forwarding brings most on T4SA"],
    "dalton/12": ["more workers matter less at low rates"],
    "dalton/13b": ["DAGreedy outperforms hashing"],
    "dalton/14b": ["the interval settles"],
    "pd-stream/4": ["From 16 to 128 workers", "DAGreedy"],
    "pd-stream/5": ["DAGreedy", "PKG"],
    "pd-stream/6": ["DAGreedy"],
    "pd-stream/7": ["less stable"],
    "pd-stream/8": ["Pd-Stream balances", "falls as skew grows"],
    "pd-stream/9": ["Pd-Stream is far below"],
    "pd-stream/10": ["Pd-Stream"],
    "pd-stream/11": ["Pd-Stream"],
    "pd-stream/12": ["w-choices needs more"],
    "mixed/7": ["Skewness grows"],
    "mixed/8": ["a smaller share of the state with w = 5"],
    "mixed/9": ["A smaller tolerance moves more"],
    "mixed/11": ["The error of the loads grows"],
    "mixed/12": ["takes far more than one of Mixed"],
    "mixed/13": ["has the best throughput"],
    "mixed/14": ["twice the throughput of Storm"],
    "mixed/15": ["with the new worker much sooner", "with the new worker sooner", "5 minutes"],
    # Not "mixed/17": our Mixed keeps a bound that is too small, and the paper's exceeds it.
    "mixed/18": ["grow faster"],
    "mixed/19": [""],
    "mixed/20": [""],
}


@cache
def measured(kind: type[Cell], text: str) -> Any:
    """Measure a cell once, however many figures have it, and read it back as a raw record."""
    return json.loads(json.dumps(CELLS[kind, text].run(), allow_nan=False))


CELLS: dict[tuple[type[Cell], str], Cell] = {}


def numbers_of(figure: Figure) -> Numbers:
    cells = [placed.cell for placed in figure.cells(TINY)]
    CELLS.update({(type(cell), repr(cell)): cell for cell in cells})
    return figure.numbers([measured(type(cell), repr(cell)) for cell in cells], TINY)


class Anything(dict[str, Any]):
    """A row that has every column."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return random.uniform(1.0, 2.0)  # no two of them are alike


def by_name(names: Mapping[str, Any] | list[str]) -> Any:
    return pytest.mark.parametrize("name", names)


sizes = pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)


def test_every_figure_is_there_once_in_the_order_of_its_paper() -> None:
    assert [paper.name for paper in PAPERS] == list(NUMBERS)
    wanted = [f"{paper}/{number}" for paper in NUMBERS for number in NUMBERS[paper].split()]
    assert [figure.name for figure in FIGURES] == wanted
    assert all(select([name], FIGURES) == [BY_NAME[name]] for name in wanted)


@by_name(BY_NAME)
def test_a_figure_says_what_it_is(name: str) -> None:
    figure = BY_NAME[name]
    assert all((figure.title, figure.data, figure.claims))
    for claim in (*figure.claims, *figure.evidence):
        assert claim.says
        assert claim.place
    assert len({claim.says for claim in figure.claims}) == len(figure.claims)
    assert "{" not in figure.data + figure.why


@sizes
@by_name(BY_NAME)
def test_cells_can_be_told_apart_stored_and_made(name: str, size: Size) -> None:
    """What a run of the full size would refuse only after minutes."""
    cells = [placed.cell for placed in BY_NAME[name].cells(size)]
    known = [identity(cell) for cell in cells]
    assert known == [identity(placed.cell) for placed in BY_NAME[name].cells(size)]
    assert ("cascade" in str(known).lower()) == (name not in WITHOUT_STRATEGIES)
    assert all(len(one.path.name) < 200 for one in known)
    for cell in {repr(cell): cell for cell in cells}.values():
        fields = cell.arguments if isinstance(cell, Measurement) else vars(cell)
        # Dalton has 64 workers in every size; one may join.
        assert fields.get("n_workers", 0) <= max(size.workers + 1, 64)
        if "settings" in fields:
            registry.make(fields["strategy"], **fields["settings"])
        if "workload" in fields:
            workloads.make(fields["workload"], **fields["of"])
        if fields.get("timing"):
            Timing(**fields["timing"])


@sizes
@by_name(BY_NAME)
def test_every_label_of_a_claim_is_measured_in_every_size(name: str, size: Size) -> None:
    figure = BY_NAME[name]
    table = Table([Entry(placed.axes, Anything()) for placed in figure.cells(size)])
    numbers = Numbers(table, {name: lambda table, **axes: 1.0 for name in figure.paper.calls})
    for claim in (*figure.claims, *figure.evidence):
        numbers.number(claim.ours)


def test_figures_share_cells() -> None:
    cells = [repr(one.cell) for figure in FIGURES for one in figure.cells(SIZES["quick"])]
    assert len(set(cells)) < 0.75 * len(cells)


def is_contradicted(claim: Claim, ours: float) -> bool:
    """Return whether a tiny run shows the opposite; it shows directions, and no sizes."""
    above, below = claim.expects.get("above", -math.inf), claim.expects.get("below", math.inf)
    if claim.rule == "direction" or (above, below) == (-math.inf, math.inf):
        return judge(claim, ours) == "not reproduced"
    return not above < ours < below


def check_clear(name: str, words: list[str]) -> None:
    figure = BY_NAME[name]
    numbers = numbers_of(figure)
    for word in words:
        claims = [claim for claim in figure.claims if word in claim.says]
        assert claims, word
        for claim in claims:
            ours = numbers.number(claim.ours)
            assert not is_contradicted(claim, ours), (claim.says, ours)


@by_name(CLEAR)
def test_clear_directions_show_in_a_tiny_run(name: str) -> None:
    check_clear(name, CLEAR[name])


@pytest.mark.slow
@by_name(CLEAR_BUT_SLOW)
def test_more_clear_directions_show_in_a_tiny_run(name: str) -> None:
    check_clear(name, CLEAR_BUT_SLOW[name])


@pytest.mark.slow
@by_name(BY_NAME)
def test_a_tiny_run_gives_numbers_for_all_claims(name: str) -> None:
    figure = BY_NAME[name]
    numbers = numbers_of(figure)
    for claim in (*figure.claims, *figure.evidence):
        assert math.isfinite(numbers.number(claim.ours)), claim.says


@by_name(["fish/9", "mixed/13", *slow(["dalton/13a", "mixed/8"])])
def test_a_cell_gives_the_same_row_again(name: str) -> None:
    cell = BY_NAME[name].cells(TINY)[0].cell
    assert json.dumps(cell.run()) == json.dumps(cell.run())


@by_name(BY_NAME)
def test_no_tolerance_admits_the_opposite_of_a_claim(name: str) -> None:
    figure = BY_NAME[name]
    for claim in (*figure.claims, *figure.evidence):
        for limit in ("above", "below"):
            if limit in claim.expects:
                assert judge(claim, claim.expects[limit]) == "not reproduced", claim.says


@pytest.mark.parametrize(
    ("expects", "verdicts"),
    [
        # (no effect, a tenth, a quarter, 0.6, all, and twice the published effect)
        ({"value": 2.0, "above": 1.0}, "MMDDRD"),
        ({"value": 1.04, "above": 1.0}, "MMDRRR"),
        ({"value": 0.5, "below": 1.0}, "MMDDRD"),
        ({"at_least": 2.0, "above": 1.0}, "MMDDRR"),
        ({"at_most": 2.0}, "RRRRRM"),
        ({"value": 2.0}, "MMMMRM"),
        ({"above": 1.05}, "MRRRRR"),
        ({"between": [1.9, 2.1], "above": 1.0}, "MMDDRD"),
    ],
)
def test_a_verdict_needs_the_size_and_a_direction_needs_an_effect(
    expects: dict[str, Any], verdicts: str
) -> None:
    because = "a range" if "between" in expects else ""
    claim = Claim("", "", {}, expects, because)
    limit = expects.get("above", expects.get("below", 1.0))
    published = expects.get("value", 2.0)
    step = published - (1.0 if limit == 1.05 else limit)
    numbers = [published - step + part * step for part in (0.0, 0.1, 0.25, 0.6, 1.0, 2.0)]
    assert "".join(judge(claim, ours)[0].upper() for ours in numbers) == verdicts.replace("M", "N")


def verdicts_of(figure: Figure, rows: list[Any]) -> dict[str, str]:
    return {claim["says"]: claim["verdict"] for claim in result(figure, TINY, rows)["claims"]}


def test_a_strategy_with_a_wrong_constant_changes_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = BY_NAME["fish/3"]
    says = "W-C with 100 counted keys needs about the memory of SG"

    def verdict() -> str:
        return verdicts_of(figure, [placed.cell.run() for placed in figure.cells(TINY)])[says]

    assert verdict() == "reproduced"
    monkeypatch.setitem(fish.CURVES, "W-C100", {"strategy": "w-choices", "capacity": 100_000})
    assert verdict() == "not reproduced"


def test_a_mislabelled_axis_changes_a_verdict() -> None:
    figure = BY_NAME["fish/3"]
    rows = [placed.cell.run() for placed in figure.cells(TINY)]
    says = "SG's memory grows with the workers"
    assert verdicts_of(figure, rows)[says] == "reproduced"
    # The rows of 16 and 32 workers, which follow each other, change places.
    swapped = [row for pair in zip(rows[1::2], rows[::2], strict=True) for row in pair]
    assert verdicts_of(figure, swapped)[says] == "not reproduced"


def test_worker_2_leaves_in_figure_17_of_fish() -> None:
    cells = {placed.label: placed.cell for placed in BY_NAME["fish/17"].cells(TINY)}
    leaving = cells["curve=FISH w/o CH stream=ZF z=1.0 workers=16 event=leave seed=1"]
    assert vars(leaving)["events"] == ({"at": 10_000, "worker": 2, "kind": "leave"},)


def test_streams_of_fish_have_the_published_size_where_the_size_allows_it() -> None:
    keys, records, period = 100_000, 50_000_000, 5_000_000
    assert fish.stream_of("ZF", 10**9, z=1.0) == {
        "z": 1.0, "n_keys": keys, "n_records": records, "period": period
    }  # fmt: skip
    assert fish.stream_of("AM", 10**9)["n_keys"] == 250_000
    assert fish.stream_of("MT", 10**9)["n_records"] == 49_210_000
