"""Cells are measured once, kept, and measured again only where that is needed."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import pytest

from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import SIZES, Figure
from experiments.reproduction.runner import Failure, identity, measure
from fake_paper import Bad, Counted, figure, large, result

QUICK, TINY = SIZES["quick"], SIZES["tiny"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def measured(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def two_figures(log: Path) -> list[Figure]:
    shared = Counted("shared", str(log))
    one = figure("1", {"a": shared, "b": Counted("own", str(log))}, [large("a")])
    return [one, figure("2", {"other": Counted("shared", str(log))}, [large("other")])]


def records(out: Path) -> list[Path]:
    return sorted((out / "raw" / "tiny").rglob("*.json"))


def test_a_shared_cell_is_measured_once_and_a_second_run_measures_nothing(
    tmp_path: Path, log: Path
) -> None:
    seen: list[tuple[int, int]] = []
    first = measure(two_figures(log), TINY, tmp_path, progress=lambda *done: seen.append(done))
    assert sorted(measured(log)) == ["own", "shared"]
    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert first[1] == [{"value": 10.0, "series": [1.0, 2.0]}]
    assert measure(two_figures(log), TINY, tmp_path) == first
    assert len(measured(log)) == 2


def test_the_path_of_a_record_is_made_from_the_parameters(tmp_path: Path, log: Path) -> None:
    cell = Counted("a b/c", str(log), n_records=7)
    measure([figure("1", {"x": cell}, [large("x")])], TINY, tmp_path)
    (path,) = records(tmp_path)
    assert path.parent == tmp_path / "raw" / "tiny" / "Counted"
    assert path.name.startswith("a_b_c-")
    record = json.loads(path.read_text())
    assert record["parameters"] == {"label": "a b/c", "log": str(log), "n_records": 7, "of": {}}
    assert record["cell"].endswith("fake_paper:Counted")
    assert record["row"]["value"] == 7.0
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {p.suffix for p in tmp_path.rglob("*") if p.is_file()} == {".json", ""}  # no leftovers


def test_the_order_of_names_and_the_kind_of_sequence_are_no_difference() -> None:
    one = Simulation("hash", "zipf", of={"z": 1.0, "n_keys": 10}, capacities=(1.0, 2.0))
    other = Simulation("hash", "zipf", of={"n_keys": 10, "z": 1.0}, capacities=[1.0, 2.0])
    assert identity(one) == identity(other)
    for field, value in {"seed": 2, "settings": {"ring": True}, "timing": {}}.items():
        changed = dataclasses.replace(one, **{field: value})
        assert identity(changed).path != identity(one).path


def test_fields_that_are_no_plain_values_are_refused_by_name() -> None:
    cell = Simulation("hash", "zipf", of={"z": {1, 2}})
    with pytest.raises(ValueError, match=r"Simulation\.of\.z must be a plain value, not \{1, 2\}"):
        identity(cell)


def spoil_half(path: Path) -> None:
    text = path.read_text()
    path.write_text(text[: len(text) // 2])


def spoil_bytes(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_half,
        spoil_bytes,
        lambda path: path.write_text(""),
        lambda path: path.write_text("[1]"),
        lambda path: change(path, row=None),
        lambda path: change(path, sources="of yesterday"),
        lambda path: change(path, cell="other:Counted"),
        lambda path: change(path, parameters={"label": "another"}),
    ],
)
def test_a_record_that_is_damaged_old_or_of_another_cell_is_measured_again(
    tmp_path: Path, log: Path, spoil: object
) -> None:
    figures = [figure("1", {"x": Counted("x", str(log))}, [large("x")])]
    first = measure(figures, TINY, tmp_path)
    (path,) = records(tmp_path)
    whole = path.read_bytes()
    spoil(path)  # type: ignore[operator]
    assert measure(figures, TINY, tmp_path) == first
    assert measured(log) == ["x", "x"]
    assert path.read_bytes() == whole


def test_a_size_has_its_own_records(tmp_path: Path, log: Path) -> None:
    figures = [figure("1", {"x": Counted("x", str(log))}, [large("x")])]
    measure(figures, TINY, tmp_path)
    measure(figures, QUICK, tmp_path)
    assert measured(log) == ["x", "x"]


def test_a_cell_that_raises_fails_its_own_figures_alone(tmp_path: Path, log: Path) -> None:
    good = Counted("good", str(log))
    figures = [
        figure("1", {"a": good, "b": Bad()}, [large("a")]),
        figure("2", {"a": good}, [large("a")]),
        figure("3", {"a": Bad("row")}, [large("a")]),
        figure("4", lambda label: Counted(str(1 / 0), ""), [large("a")]),
        figure("5", {"a": good}, [large("missing")]),
    ]
    outcomes = measure(figures, TINY, tmp_path)
    assert outcomes[0] == Failure(
        "cell 'label=b seed=1': ZeroDivisionError: there is nothing to divide by"
    )
    assert isinstance(outcomes[1], list)
    objects = [result(*both) for both in zip(figures, [TINY] * 5, outcomes, strict=True)]
    assert [one["verdict"] for one in objects] == ["failed", "reproduced"] + ["failed"] * 3
    assert "row.value must be a plain value" in objects[2]["error"]
    assert objects[3]["error"] == "ZeroDivisionError: division by zero"
    assert "no cell has label='missing'" in objects[4]["error"]
    assert len(records(tmp_path)) == 1  # a failure is not kept
