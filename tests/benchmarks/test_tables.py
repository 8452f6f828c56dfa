import pytest

from benchmarks import grouping_cost, overview
from benchmarks.records import (
    Report,
    markdown,
    read_records,
    replace_table,
    write_records,
    write_table,
)
from skewless import registry
from skewless.strategy import Merges
from skewless.workloads import EvolvingZipf, Zipf


def test_records_come_back_as_they_were(tmp_path):
    records = [{"strategy": "hash", "loads": [1, 2]}, {"strategy": "ünïcode", "x": None}]
    write_records(tmp_path / "results" / "raw.jsonl", records)
    assert read_records(tmp_path / "results" / "raw.jsonl") == records


def test_only_the_named_table_is_replaced(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("1 <!-- table: a -->x<!-- end --> 2 <!-- table: b -->y<!-- end --> 3")
    assert write_table(document, "b", r"new \1")
    assert document.read_text() == (
        "1 <!-- table: a -->x<!-- end --> 2 <!-- table: b -->\nnew \\1\n<!-- end --> 3"
    )
    assert not write_table(document, "b", r"new \1")


def test_a_table_without_rows_names_what_measures_it():
    def table(records):
        return markdown("a | b", [[r["a"], r["b"]] for r in records if r["a"]])

    report = Report("x.jsonl", {("page.md", "x"): table}, command="make x")
    nothing = "There are no figures yet: `make x` measures them."
    assert report.content(table, []) == nothing
    assert report.content(table, [{"a": 0, "b": 1}]) == nothing
    assert report.content(table, [{"a": 2, "b": 1}]).endswith("| 2 | 1 |")


def test_a_missing_marker_is_an_error():
    with pytest.raises(ValueError, match="no marker <!-- table: x -->"):
        replace_table("nothing here", "x", "new")


def test_ratios_are_medians_over_repetitions_of_ratios_inside_one():
    def record(strategy, repetition, ns):
        cell = {"strategy": strategy, "workers": 8, "z": 1.4, "repetition": repetition}
        return {**cell, "ns_per_record": ns}

    records = [
        *(record("hash", 0, 2.0), record("pkg", 0, 8.0)),
        *(record("hash", 1, 10.0), record("pkg", 1, 30.0)),
        *(record("hash", 2, 1.0), record("pkg", 2, 3.5)),
    ]
    ratios = grouping_cost.median_ratios(records)
    assert ratios["pkg", 8, 1.4] == 3.5
    assert ratios["hash", 8, 1.4] == 1.0
    assert "| pkg | 3.5 |" in grouping_cost.table(records, 1.4)
    assert "| pkg | 1.0 |" in grouping_cost.table_to_pkg(records, 8)


def test_cost_is_measured_for_every_cell():
    settings = {"n_records": 2_000, "n_keys": 100, "workers": (4, 8), "exponents": (0.8, 1.4)}
    records = list(grouping_cost.measure(["hash", "pkg"], repetitions=2, **settings))
    assert len(records) == 2 * 2 * 2 * 2
    assert all(record["ns_per_record"] > 0 for record in records)


@pytest.mark.slow
def test_overview_has_a_row_per_strategy_and_the_limit():
    streams = {
        "skewed": Zipf(z=1.2, n_keys=100, n_records=20_000),
        "drifting": EvolvingZipf(z=1.2, n_keys=100, n_records=20_000, period=5_000),
    }
    table = overview.table(list(overview.measure(registry.names(), streams)))
    lines = table.splitlines()
    merging = [name for name in registry.names() if isinstance(registry.make(name), Merges)]
    assert len(lines) == 2 + len(registry.names()) + len(merging) + 1
    assert sum(", merged |" in line for line in lines) == len(merging)
    assert lines[-1].startswith("| the limit |")
