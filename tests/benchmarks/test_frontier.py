from __future__ import annotations

import importlib

import pyarrow as pa
import pyarrow.parquet
import pytest

from benchmarks import records
from benchmarks.frontier import cells as frontier
from skewless import registry
from skewless.simulator import simulate
from skewless.strategy import Rescales
from skewless.workloads import Zipf

# --- cells


def of_group(names, group):
    return [cell for cell in frontier.cells(names) if cell.group == group]


def test_every_strategy_is_in_every_cell_of_the_grid_and_of_the_real_streams():
    found = frontier.cells(registry.names(), traces=["words"])
    exponents = (*frontier.HIGH_SKEW, *frontier.LOW_SKEW)
    expected = {
        ("grid", "zipf", z, n, 1, 1, name)
        for z in exponents
        for n in (16, 32, 64, 128)
        for name in registry.names()
    } | {
        ("real", stream, z, n, 4, 1, name)
        for stream, z in (("evolving-zipf", 1.4), ("words", None))
        for n in (16, 64, 128)
        for name in registry.names()
    }
    assert len(set(found)) == len(found)
    assert {frontier.Cell(*cell) for cell in expected} <= set(found)


def test_only_strategies_that_can_be_told_about_speeds_are_in_those_cells():
    found = {cell.strategy for cell in of_group(registry.names(), "speeds")}
    assert found == {n for n in registry.names() if isinstance(registry.make(n), Rescales)}


def test_slow_strategies_come_last_and_get_fewer_records():
    found = of_group(["readj", "hash"], "grid")
    slow = [cell.strategy == "readj" for cell in found]
    assert slow == sorted(slow)
    assert {cell.workers for cell in found[:18]} == {128, 32}
    assert found[0].workload() == Zipf(z=1.2, n_keys=10_000_000, n_records=10_000_000)
    limit = frontier.SHORTER["readj"]["grid"]
    assert found[-1].workload().n_records == limit < 10_000_000


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown strategy 'hsah'"):
        frontier.cells(["hsah"])


def test_a_trace_needs_its_folder():
    cell = frontier.Cell("real", "words", None, 16, 4, 1, "hash")
    with pytest.raises(ValueError, match=r"data must be the folder of words\.parquet, not None"):
        cell.workload()


# --- measuring


@pytest.fixture
def short(monkeypatch):
    """Make all streams short."""
    monkeypatch.setattr(frontier, "N_RECORDS", 3_000)
    monkeypatch.setattr(frontier, "N_RECORDS_SPEEDS", 3_000)
    monkeypatch.setattr(frontier, "N_KEYS", 500)
    monkeypatch.setattr(frontier, "HIGH_SKEW", (1.4, 2.0))
    monkeypatch.setattr(frontier, "LOW_SKEW", (0.5,))
    monkeypatch.setattr(frontier, "GRID_WORKERS", (128, 32))
    monkeypatch.setattr(
        frontier, "DRIFTING", frontier.replace(frontier.DRIFTING, n_records=3_000, period=1_000)
    )


@pytest.mark.usefixtures("short")
def test_records_are_those_of_single_runs_and_name_their_cell():
    todo = of_group(["hash", "pkg"], "grid")
    measured = list(frontier.measure(todo))
    assert [frontier.cell_of(r) for r in measured] == todo
    for cell, found in zip(todo, measured, strict=True):
        run = simulate(
            registry.make(cell.strategy), cell.workload(), n_workers=cell.workers, seed=cell.seed
        )
        assert found["loads"] == run.loads.tolist()
        assert found["replication"] == run.summary()["replication"]
        assert found["workload"] == "zipf"


@pytest.mark.usefixtures("short")
def test_half_of_the_workers_are_twice_as_fast():
    (found,) = frontier.measure([frontier.Cell("speeds", "zipf", 1.0, 4, 1, 1, "fish")])
    slow, fast = sum(found["loads"][0::2]), sum(found["loads"][1::2])
    assert fast / slow == pytest.approx(2.0, rel=0.1)  # chance and a rest: 3,000 records


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return the program, writing into a folder of this test."""
    module = importlib.import_module("benchmarks.frontier.__main__")
    page = "docs/results/frontier.md"
    (tmp_path / page).parent.mkdir(parents=True)
    (tmp_path / page).write_bytes((records.PROJECT / page).read_bytes())
    monkeypatch.setattr(records, "PROJECT", tmp_path)
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results")
    return module


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_run_goes_on_where_it_was_and_replaces_only_what_it_is_asked_to(script, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    words = pa.table({"key": ["a", "b", "a", "c"] * 500})
    pa.parquet.write_table(words, data / "words.parquet")
    names = "hash,shuffle,pkg,fish,cascade"
    script.main(data=data, only=names, again=False)
    first = script.REPORT.path.read_text(encoding="utf-8")
    expected = frontier.cells(names.split(","), traces=["words"])
    assert set(map(frontier.cell_of, script.REPORT.read())) == set(expected)

    script.main(data=data, only=names, again=False)  # nothing is left to do
    assert script.REPORT.path.read_text(encoding="utf-8") == first

    half = first.splitlines(keepends=True)[::2]  # as if it had been interrupted
    script.REPORT.path.write_text("".join(half), encoding="utf-8")
    script.main(data=data, only=names, again=False)
    after = script.REPORT.path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert after[::2] == half
    assert len(after) == len(first.splitlines())

    script.main(data=None, only="cascade", again=True)  # without the folder: its records stay
    again = script.REPORT.path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(again) == len(after)
    for old, new, at in zip(after, again, script.REPORT.read(), strict=True):
        if at["strategy"] != "cascade" or at["stream"] == "words":
            assert new == old
