"""The numbers of claims: what each kind means, and that a typo is an error, never a verdict."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from experiments.reproduction.figure import SIZES, read_figure
from experiments.reproduction.numbers import Numbers
from experiments.reproduction.table import Entry, NotMeasuredError, Table
from fake_paper import DALTON, RAW, result

TINY = SIZES["tiny"]


def entry(strategy: str, workers: int, seed: int, x: float, **axes: Any) -> Entry:
    return Entry({"strategy": strategy, "workers": workers, "seed": seed, **axes}, {"x": x})


#: The mean of A is 2, 4 and 8 by workers, that of B is always 2.
TABLE = Table(
    [
        *(
            entry("A", n, seed, x + seed - 1.5)
            for n, x in ((8, 2), (16, 4), (32, 8))
            for seed in (1, 2)
        ),
        *(entry("B", n, 1, 2.0) for n in (8, 16, 32)),
        entry("A", 8, 1, 100.0, case="other"),
    ],
    {"negative": lambda entry: -float(entry.row["x"])},
)
A, B = {"strategy": "A"}, {"strategy": "B"}


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ({"column": "x", "strategy": "A", "workers": 16}, 4.0),
        ({"column": "negative", "strategy": "A", "workers": 16}, -4.0),
        ({"column": "x", "strategy": "A", "case": "other"}, 100.0),
        ({"column": "x", "strategy": "A", "workers": "@last"}, 8.0),
        ({"column": "x", "strategy": "A", "workers": "@second"}, 4.0),
        ({"column": "x", "strategy": "A", "workers": 8, "seed": "@each", "take": "max"}, 2.5),
        ({"column": "x", "strategy": "A", "workers": 8, "times": -1, "plus": 1}, -1.0),
        ({"column": "x", "strategy": "A", "workers": 8, "at_least": 3.0}, 3.0),
        ({"ratio": [A, B], "column": "x", "workers": "@next-to-last"}, 2.0),
        ({"ratio": [A, B], "column": "x", "workers": "@each", "take": "mean"}, 7 / 3),
        ({"ratio": [A, B], "column": "x", "workers": "@<=16", "take": "max"}, 2.0),
        ({"ratio": [A, B], "column": "x", "workers": ["@first", 32], "take": "median"}, 2.5),
        (
            {
                "ratio_of_counts": [{**A, "plus": -2}, {**B, "plus": -2}],
                "column": "x",
                "workers": 8,
            },
            1,
        ),
        ({"ratio_of_counts": [A, {**B, "plus": -2}], "column": "x", "workers": 8}, 1e6),
        ({"difference": [A, B], "column": "x", "workers": 32}, 6.0),
        ({"is_less": [B, A], "column": "x", "workers": "@each", "take": "mean"}, 2 / 3),
        (
            {"position": [{"workers": 16}, {"workers": 8}, {"workers": 32}], "column": "x", **A},
            1 / 3,
        ),
        ({"apart": [B, A], "column": "x", "workers": 32}, 4.0),
        ({"call": "doubled", "with": {"of": 4}, "strategy": "B"}, 8.0),
        ({"ratio": [{"ratio": [A, B], "workers": 32}, {**A, "workers": 8}], "column": "x"}, 2.0),
    ],
)
def test_every_kind_of_number(spec: dict[str, Any], value: float) -> None:
    calls = {"doubled": lambda table, strategy, of: 2.0 * of}
    assert Numbers(TABLE, calls).number(spec) == pytest.approx(value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"column": "x", "strategy": "C", "workers": 8},
            "no cell has strategy='C'; it has: 'A', 'B'",
        ),
        (
            {"column": "x", "strategy": "A", "workers": 9},
            "no cell has workers=9; it has: 16, 32, 8",
        ),
        ({"column": "x", "strategy": "A", "case": "none"}, "no cell has case='none'"),
        ({"column": "x", "srategy": "A"}, "no cell has srategy='A'; there is no such axis here"),
        ({"column": "y", "strategy": "A", "workers": 8}, "no column is called 'y'"),
        ({"column": "x", "strategy": "A"}, "strategy='A' has several values of workers: 16, 32, 8"),
        ({"column": "x", "strategy": "A", "z": "@last"}, "has an axis 'z'"),
    ],
)
def test_what_was_not_measured_is_an_error(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(NotMeasuredError) as raised:
        Numbers(TABLE).number(spec)
    assert message in str(raised.value)


def test_curves_that_were_measured_at_other_places_are_not_compared() -> None:
    shifted = Table([*TABLE.entries, entry("B", 64, 1, 2.0)])
    with pytest.raises(NotMeasuredError, match="'workers' does not have the same values"):
        Numbers(shifted).number({"ratio": [A, B], "column": "x", "workers": "@last"})


def test_several_numbers_need_a_choice() -> None:
    with pytest.raises(ValueError, match="of 3 numbers, take must say which counts"):
        Numbers(TABLE).number({"column": "x", "strategy": "A", "workers": "@each"})


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """Return the figure's data with one value changed."""
    raw: Any = copy.deepcopy(RAW)
    at = raw
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    found: dict[str, Any] = raw
    return found


FIRST = ("claims", 0, "ours")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            changed(*FIRST, "stategy", to="pkg"),
            "'stategy' is no axis of this figure; it has: case,",
        ),
        (changed(*FIRST, "ratio", 0, "worker", to=8), "'worker' is no axis of this figure"),
        (changed(*FIRST, "rato", to=[]), "'rato' is no axis of this figure"),
        (changed(*FIRST, "seed", to="@lst"), "'@lst' is none of @each, @<=…, @first"),
        (
            changed(*FIRST, "take", to="most"),
            "take must be one of max, min, mean, median, not 'most'",
        ),
        (changed(*FIRST, "ratio", to=[{}]), "ratio takes 2 numbers"),
        (changed(*FIRST, "apart", to=[{}, {}]), "a number has one kind, not ratio and apart"),
        (changed("claims", 1, "ours", to={"call": "none"}), "unknown call 'none'"),
        (
            changed("claims", 0, "expects", to={"abve": 1.0}),
            "expects must have one of value, between",
        ),
        (
            changed("claims", 0, "expects", to={"value": 1, "at_most": 1}),
            "expects must have one of",
        ),
        (changed("claims", 0, "expects", to={}), "expects must have one of"),
        (changed("claims", 0, "expects", to={"above": 1.0}), "a direction needs the least effect"),
        (changed("claims", 0, "expects", to={"between": [1, 2]}), "between needs a because"),
        (changed("claims", 0, "because", to="so it is"), "between needs a because"),
        (changed("claims", 0, "say", to=""), "a claim has no say"),
        (changed("claims", to=[]), "a figure has at least one claim"),
        (changed("titel", to=""), "a figure has no titel"),
        (changed("claims", 0, "each", to=[{"z": 1}]), "nothing is called {z}, which each has"),
        (changed("claims", 0, "each", to=[]), "the rows of each must have the same names"),
        (changed("claims", 0, "each", to=[{"z": 1}, {}]), "the rows of each must have the same"),
        (changed("claims", 0, "says", to="{zz} is less"), "its each has no {zz}"),
        (changed("cells_of", to="9"), "nothing is called '9'"),
        (changed("data", to="{zf}, generated"), "nothing is called 'zf'"),
        (changed("cells", 0, "make", to="simulatd"), "unknown make 'simulatd'; known: simulated"),
        (changed("cells", 0, "take", to=1), "an axis cannot be called take"),
    ],
)
def test_a_typo_in_a_data_file_is_refused_when_it_is_read(
    raw: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        read_figure(DALTON, raw)
    assert "dalton/table II" in str(raised.value) or "claim" in str(raised.value)
    assert message in str(raised.value)


def verdict_of(raw: dict[str, Any], rows: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    known = [{"imbalance": x, "loads": [1.0]} for x in (4.0, 0.5, 0.1)]
    return result(read_figure(DALTON, raw), TINY, rows or known)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (changed(*FIRST, "ratio", 0, "strategy", to="hsh"), "no cell has strategy='hsh'"),
        (changed(*FIRST, "column", to="imbalanc"), "no column is called 'imbalanc'"),
        (changed(*FIRST, "case", to="othr"), "no cell has case='othr'"),
        (changed("evidence", 0, "ours", "strategy", to="cascad"), "no cell has strategy='cascad'"),
        (changed("cells", 0, "strategy", to=["hash", "cascade", "cm"]), "strategy='pkg'"),
        (
            changed("cells", 0, "strategy", to=["hash", "hash", "pkg"]),
            "two cells are strategy=hash",
        ),
    ],
)
def test_a_typo_in_a_label_or_a_column_fails_the_figure_instead_of_missing_it(
    raw: dict[str, Any], message: str
) -> None:
    one = verdict_of(raw)
    assert one["verdict"] == "failed"
    assert message in one["error"]


def test_planted_faults_change_verdicts() -> None:
    # The second claim holds if its number is 0.5, so that a fault can be seen.
    true = changed("claims", 1, "expects", to={"value": 0.5, "above": 0.1})
    assert verdict_of(true)["verdict"] == "reproduced"
    constant = copy.deepcopy(true)
    constant["claims"][1]["expects"]["value"] = 1.5
    assert verdict_of(constant)["verdict"] == "direction only"
    swapped = copy.deepcopy(true)
    swapped["claims"][0]["ours"]["ratio"].reverse()
    assert verdict_of(swapped)["verdict"] == "not reproduced"
    mislabelled = copy.deepcopy(true)
    mislabelled["cells"][0]["strategy"] = ["pkg", "hash", "cascade"]
    assert verdict_of(mislabelled)["verdict"] == "not reproduced"
