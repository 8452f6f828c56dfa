from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import registry
from skewless.experiments import frontier
from skewless.experiments.tables import read_records, replace_table
from skewless.simulator import simulate
from skewless.strategy import Rescales
from skewless.workloads import Zipf

PROJECT = Path(__file__).parent.parent.parent


def record(strategy, imbalance, replication, **others):
    """Return a record of the grid, with these things changed."""
    return {
        **{"group": "grid", "stream": "zipf", "z": 1.4, "workers": 32, "sources": 1, "seed": 1},
        **{"strategy": strategy, "imbalance": imbalance, "replication": replication},
        **{"replication_limit": 1.001, "records": 1000, "keys": 10, "shorter": False},
        **{"window_imbalance_mean": imbalance, "window_replication_mean": replication},
        **{"makespan_ratio": 1.0 + imbalance},
        **others,
    }


# --- cells


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
    identities = [cell.identity for cell in found]
    assert len(set(identities)) == len(identities)
    assert expected <= set(identities)


def test_only_strategies_that_can_be_told_about_speeds_are_in_those_cells():
    found = {cell.strategy for cell in frontier.cells(registry.names(), ["speeds"])}
    assert found == {n for n in registry.names() if isinstance(registry.make(n), Rescales)}


def test_slow_strategies_come_last_and_get_fewer_records():
    found = frontier.cells(["readj", "hash"], ["grid"])
    slow = [cell.strategy == "readj" for cell in found]
    assert slow == sorted(slow)
    assert {cell.workers for cell in found[:18]} == {128, 32}
    assert found[0].workload() == Zipf(z=1.2, n_keys=10_000_000, n_records=10_000_000)
    limit = frontier.SHORTER["readj"]["grid"]
    assert found[-1].workload().n_records == limit < 10_000_000


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown strategy 'hsah'"):
        frontier.cells(["hsah"])
    with pytest.raises(ValueError, match=r"cells must be some of grid, .*, not 'gird'"):
        frontier.cells(["hash"], ["gird"])


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
    todo = frontier.cells(["hash", "pkg"], ["grid"])
    records = list(frontier.measure(todo))
    assert [frontier.identity(r) for r in records] == [cell.identity for cell in todo]
    for cell, found in zip(todo, records, strict=True):
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
    """Return benchmarks/frontier.py, writing into a folder of this test."""
    spec = importlib.util.spec_from_file_location(
        "benchmark_frontier", PROJECT / "benchmarks" / "frontier.py"
    )
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    page = tmp_path / "frontier.md"
    page.write_text(
        (PROJECT / "docs" / "frontier.md").read_text(encoding="utf-8"), encoding="utf-8"
    )
    monkeypatch.setattr(module, "PROJECT", tmp_path)
    monkeypatch.setattr(module, "RECORDS", tmp_path / "results" / "frontier.jsonl")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "PICTURES", tmp_path / "pictures")
    return module


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_run_goes_on_where_it_was_and_replaces_only_what_it_is_asked_to(script, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib draws the pictures of the documents")
    data = tmp_path / "data"
    data.mkdir()
    words = pa.table({"key": ["a", "b", "a", "c"] * 500})
    pa.parquet.write_table(words, data / "words.parquet")
    names = "hash,shuffle,pkg,fish,cascade"
    script.main(data=data, only=names)
    first = script.RECORDS.read_text(encoding="utf-8")
    records = read_records(script.RECORDS)
    expected = frontier.cells(names.split(","), traces=["words"])
    assert {frontier.identity(r) for r in records} == {cell.identity for cell in expected}
    assert {p.name for p in script.PICTURES.iterdir()} == {
        "frontier-grid.svg",
        "frontier-real.svg",
        "load-per-worker.svg",
    }

    script.main(data=data, only=names)  # nothing is left to do
    assert script.RECORDS.read_text(encoding="utf-8") == first

    half = first.splitlines(keepends=True)[::2]  # as if it had been interrupted
    script.RECORDS.write_text("".join(half), encoding="utf-8")
    script.main(data=data, only=names)
    after = script.RECORDS.read_text(encoding="utf-8").splitlines(keepends=True)
    assert after[::2] == half
    assert len(after) == len(first.splitlines())

    script.main(only="cascade", again=True)  # without the folder: its records stay
    again = script.RECORDS.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(again) == len(after)
    for old, new, at in zip(after, again, read_records(script.RECORDS), strict=True):
        if at["strategy"] != "cascade" or at["stream"] == "words":
            assert new == old


# --- tables


VALUES = st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12))
def test_the_front_is_what_nobody_dominates(pairs):
    records = [record("hash", x, 1.0 + y) for x, y in pairs]
    best = frontier.front(records)
    assert best
    for one in best:
        assert not any(frontier.dominates(other, one) for other in best)
    for one in records:
        if not any(one is kept for kept in best):
            assert any(frontier.dominates(kept, one) for kept in best)


def test_equals_do_not_dominate_each_other():
    assert not frontier.dominates(record("a", 0.1, 1.1), record("b", 0.1, 1.1))
    assert frontier.dominates(record("a", 0.1, 1.1), record("b", 0.1, 1.2))
    assert not frontier.dominates(record("a", 0.0, 1.3), record("b", 0.1, 1.2))


def test_drifting_streams_are_judged_by_window():
    drifting = record("pkg", 0.1, 1.1, group="real", window_imbalance_mean=0.7)
    assert frontier.balance_and_replicas(drifting) == (0.7, 1.1)


def test_the_budget_needs_balance_and_few_replicas_with_every_seed():
    # limit 1.001, so the budget is 1 + 3 * 0.001 + 0.005 = 1.008
    good = record("cascade", 1e-4, 1.0079)
    assert frontier.meets_budget(good)
    assert not frontier.meets_budget(record("cascade", 1.1e-4, 1.0))
    assert not frontier.meets_budget(record("cascade", 0.0, 1.0081))
    other = record("fish", 1e-5, 1.2)
    unbalanced = record("pkg", 1.0, 1.01)
    table = frontier.budget_table([good, other, unbalanced])
    assert "Met in 1 of 1 cells." in table
    assert "| 1.4 | 32 | 0.0001 | 1.0079 | 1.0010 | 1.0080 | yes | fish 1.2000 |" in table
    table = frontier.budget_table([good, {**good, "seed": 2, "replication": 1.01}])
    assert "Met in 0 of 1 cells." in table
    assert "| 1.0100 | 1.0010 | 1.0080 | 1 of 2 seeds | nobody |" in table


def test_low_skew_is_met_unless_someone_as_balanced_has_fewer_replicas():
    own = record("cascade", 1e-3, 1.05, z=0.5)
    worse = record("hash", 0.1, 1.0, z=0.5)
    costly = record("shuffle", 0.0, 1.5, z=0.5)
    cheaper = record("pkg", 1e-3, 1.04, z=0.5)
    met = frontier.low_skew_table([own, worse, costly])
    assert "| 0.5 | 32 | 0.001 | 1.0500 | yes | shuffle 1.5000 |" in met
    missed = frontier.low_skew_table([own, worse, costly, cheaper])
    assert "| no | pkg 1.0400, shuffle 1.5000 |" in missed


def test_many_sources_are_compared_with_one():
    one = record("cascade", 1e-4, 1.02, workers=128)
    many = {**one, "group": "sources", "sources": 32, "imbalance": 1e-3, "replication": 1.071}
    assert "| 0.0001 | 0.001 | 1.0200 | 1.0710 | 1.050 |" in frontier.sources_table([one, many])


def test_who_is_better_in_both_is_marked_and_listed():
    cell = {"group": "real", "stream": "words", "z": None, "sources": 4}
    records = [
        record("cascade", 0.1, 1.1, **cell),
        record("pkg", 0.05, 1.05, **cell),
        record("hash", 2.0, 1.0, **cell),
        record("shuffle", 0.0, 3.0, **cell),
        record("cm", 2.0, 2.0, **cell, shorter=True),
    ]
    page = frontier.real_tables(records)
    assert "### words" in page
    assert "| pkg | 0.05 | 1.0500 ◀ |" in page
    assert "| **cascade** | **0.1** | **1.1000** |" in page
    assert "| cm† | 2 | 2.0000 |" in page
    assert frontier.dominated_list(records) == (
        "- words, n = 32: pkg (0.05, 1.0500); cascade (0.1, 1.1000)"
    )
    assert "| words, n = 32 | shuffle | hash | pkg |" in frontier.front_table(records)
    rivals = frontier.rivals_table(records)
    assert "| hash | 0 | 0 | 1 | 0 |" in rivals
    assert "| shuffle | 0 | 1 | 0 | 0 |" in rivals
    assert "| pkg | 0 | 0 | 0 | 1 |" in rivals
    assert "| cm | 1 | 0 | 0 | 0 |" in rivals
    assert frontier.dominated_list(records[:1] + records[2:]) == "None."


def test_what_was_not_measured_is_said():
    grid = [record(name, 0.1, 1.1, workers=n) for name in registry.names() for n in (16, 32)]
    assert frontier.missing_list(grid) == "None."
    assert frontier.missing_list(grid[1:]) == "- grid: hash in 1 of 2 cells"
    assert frontier.missing_list(grid[2:]) == "- grid: hash in 2 of 2 cells"


def test_who_gets_fewer_records_is_said():
    short = record("readj", 0.1, 1.1, records=100_000, shorter=True)
    assert frontier.shorter_list([record("hash", 0.1, 1.1), short]) == "- grid: readj 100,000"


def test_who_decides_by_batch_is_marked():
    own = record("cascade", 1e-4, 1.2)
    assert "ideal* 1.0500" in frontier.budget_table([own, record("ideal", 0.0, 1.05)])


def test_speeds_are_makespans():
    records = [record("fish", 0.02, 1.0, group="speeds", z=z) for z in (1.0, 1.4)]
    assert "| fish | 1.020 | 1.020 |" in frontier.speeds_table(records)


def test_other_seeds_are_not_in_the_comparison():
    own = record("cascade", 0.1, 1.1)
    assert len(frontier.points([own, {**own, "seed": 2}], "grid", 32)) == 1


# --- the page


def page_and_records():
    path = PROJECT / "benchmarks" / "results" / "frontier.jsonl"
    page = (PROJECT / "docs" / "frontier.md").read_text(encoding="utf-8")
    return page, read_records(path)


def test_the_page_says_what_the_records_say():
    page, records = page_and_records()
    assert set(re.findall("<!-- table: (.*?) -->", page)) == set(frontier.PARTS)
    for name, part in frontier.PARTS.items():
        assert replace_table(page, name, part(records)) == page, f"run make frontier: {name}"


def test_no_cell_was_measured_twice():
    _, records = page_and_records()
    assert len({frontier.identity(r) for r in records}) == len(records)
