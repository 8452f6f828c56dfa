"""docs/results/reproduction.md is written from results alone, between its markers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from experiments.reproduction import results as of_figures
from experiments.reproduction.document import recorded_results, write_document
from experiments.reproduction.figure import SIZES
from experiments.reproduction.results import recorded, without_reason
from experiments.reproduction.runner import Failure
from fake_paper import SIMULATED, Bad, figure, large, result

PROJECT = Path(__file__).parents[3]
QUICK, TINY = SIZES["quick"], SIZES["tiny"]
ROWS = [{"imbalance": imbalance, "loads": [1]} for imbalance in (4.0, 0.123456, 0.0)]
ONE = {"a": Bad()}


def results() -> list[dict[str, Any]]:
    good = figure("9", ONE, [large("a", value=2.0), large("a", above=1.5)])
    return [
        result(good, QUICK, [{"value": 2.1}]),
        result(SIMULATED, QUICK, ROWS),
        result(figure("10", ONE, [large("a")]), QUICK, Failure("ZeroDivisionError: x")),
    ]


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "reproduction.md"
    path.write_text((PROJECT / "docs" / "results" / "reproduction.md").read_text(encoding="utf-8"))
    return path


def test_the_document_has_all_claims_the_totals_and_the_misses(document: Path) -> None:
    assert write_document(results(), document)
    text = document.read_text(encoding="utf-8")
    assert "| FISH | 2 | 1 | 0 | 0 | 1 | 0 | 2 | 2 |" in text
    assert "| all | 3 | 1 | 0 | 1 | 1 | 0 | 4 | 3 |" in text
    assert "at most 400,000 records per stream" in text
    assert "| 9 | a is large (section 1, read from the text) | 2 | 2.1 | reproduced |" in text
    assert "| 9 | a is large (section 1, read from the text) | > 1.5 | 2.1 | reproduced |" in text
    assert "| table II | pkg \\| two choices (fig. 1) | 1e-09 | 0.123 | not reproduced |" in text
    assert "| imbalance of three strategies | Zipf with z = 1.4 | quick | not reproduced |" in text
    _, _, missed = text.partition("### Dalton, table II: imbalance of three strategies")
    assert "It was invented for a test." in missed
    assert "| cascade is even | < 0.5 | 0 | yes |" in missed
    assert "It failed: `ZeroDivisionError: x`" in text


def test_writing_twice_changes_nothing_and_the_introduction_stays(document: Path) -> None:
    before = document.read_text(encoding="utf-8")
    write_document(results(), document)
    once = document.read_text(encoding="utf-8")
    assert not write_document(results(), document)
    assert document.read_text(encoding="utf-8") == once
    tables = re.compile(r"(<!-- table: .*? -->).*?<!-- end -->", re.DOTALL)
    assert tables.sub(r"\1", once) == tables.sub(r"\1", before)


def test_numbers_that_are_not_finite_are_none_and_missed() -> None:
    one = result(figure("1", ONE, [large("a")]), TINY, [{"value": float("nan")}])
    assert one["claims"][0]["ours"] is None
    assert one["verdict"] == "not reproduced"
    assert without_reason([one]) == ["fish/1"]
    assert without_reason(results()) == []


def test_why_is_told_wherever_something_is_not_fully_reproduced(document: Path) -> None:
    figure_1 = figure("1", ONE, [large("a", value=2.0, above=0.0)], why="It is short.")
    assert "why" not in result(figure_1, TINY, [{"value": 2.0}])
    partly = result(figure_1, TINY, [{"value": 1.0}])
    assert partly["verdict"] == "direction only"
    assert without_reason([partly]) == ["fish/1"]  # nothing shows that it is so
    write_document([partly], document)
    _, _, section = document.read_text(encoding="utf-8").partition("### FISH, figure 1:")
    assert "2 expected, 1 measured, direction only." in section
    assert "It is short." in section


def test_texts_and_rules_are_the_catalogues_and_only_numbers_are_recorded() -> None:
    record = recorded(figure("1", ONE, [large("a", value=2.0)]), TINY, [{"value": 1.0}])
    other = figure("1", ONE, [large("a", value=1.0) | {"says": "a is 1"}])
    (claim,) = of_figures.result(other, record)["claims"]
    assert (claim["says"], claim["verdict"]) == ("a is 1", "reproduced")
    changed = of_figures.result(figure("1", ONE, [large("b")]), record)
    assert changed["error"] == "no number is recorded for 'b is large'; measure it again"


def test_every_claim_that_is_not_reproduced_has_a_reason_and_evidence_that_holds() -> None:
    there = recorded_results()
    assert [one["error"] for one in there if "error" in one] == []
    assert without_reason(there) == []
    assert {claim["verdict"] for one in there for claim in one["evidence"]} == {"reproduced"}


def test_a_fitted_setting_is_part_of_the_verdict(document: Path) -> None:
    one = figure("1", ONE, [large("a")], fitted="the rate is chosen so")
    write_document([result(one, TINY, [{"value": 1.0}])], document)
    text = document.read_text(encoding="utf-8")
    assert "| tiny | reproduced; fitted: the rate is chosen so |" in text
    assert "| FISH | 1 | 1 | 0 | 0 | 0 | 1 | 1 | 1 |" in text


def test_a_range_in_place_of_words_is_shown_with_its_reason(document: Path) -> None:
    claim = large("a", between=[1.0, 3.0]) | {"because": "slightly: by less than that"}
    write_document([result(figure("1", ONE, [claim]), TINY, [{"value": 2.0}])], document)
    line = "read from the text; slightly: by less than that) | 1 to 3 | 2 | reproduced |"
    assert line in document.read_text(encoding="utf-8")
