"""The command line, as people and scripts use it."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from skewless import registry, workloads
from skewless.cli import app

SMALL = ["--zipf", "1.2", "--keys", "1000", "--records", "2e4", "--workers", "8"]
FIELDS = {
    "strategy",
    "parameters",
    "workers",
    "sources",
    "records",
    "keys",
    "imbalance",
    "replication",
    "replication_limit",
    "window_imbalance_mean",
    "window_imbalance_max",
    "window_replication_mean",
    "makespan_ratio",
    "ns_per_record",
    "state_bytes",
    "loads",
}


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments):
    """Return the one line that says what is wrong."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


def test_strategies_are_listed_for_people_and_for_programs():
    people = run("strategies").stdout
    rows = [json.loads(line) for line in run("strategies", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == registry.names()
    assert all(name in people for name in registry.names())
    assert {"family", "fan_out", "parameters", "summary"} <= set(rows[0])


def test_workloads_are_listed_for_people_and_for_programs():
    people = run("workloads").stdout
    rows = [json.loads(line) for line in run("workloads", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == workloads.names()
    assert all(name in people for name in workloads.names())


def test_simulate_prints_one_json_object_per_strategy_and_number_of_workers():
    result = run(
        *["simulate", "--strategy", "hash,pkg", "--zipf", "1.2", "--keys", "1000"],
        *["--records", "2e4", "--workers", "4,8", "--sources", "3", "--json"],
    )
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["strategy"], row["workers"]) for row in rows] == [
        ("hash", 4),
        ("pkg", 4),
        ("hash", 8),
        ("pkg", 8),
    ]
    for row in rows:
        assert set(row) >= FIELDS
        assert row["records"] == sum(row["loads"]) == 20_000
        assert len(row["loads"]) == row["workers"]
        assert row["sources"] == 3


@pytest.mark.slow
def test_the_same_command_gives_the_same_counts():
    command = ["simulate", "--strategy", "all", *SMALL, "--seed", "5", "--json"]
    first, second = (
        [json.loads(line) for line in run(*command).stdout.splitlines()] for _ in range(2)
    )
    timings = ("ns_per_record", "plan_seconds_mean")
    for a, b in zip(first, second, strict=True):
        assert {**a, **dict.fromkeys(timings)} == {**b, **dict.fromkeys(timings)}


def test_the_table_names_every_strategy_and_the_limit():
    table = run("simulate", "--strategy", "hash,shuffle", *SMALL).stdout
    assert re.search(r"hash\s+8 ", table)
    assert re.search(r"shuffle\s+8 ", table)
    assert "the limit" in table


def test_set_reaches_the_strategies_that_have_the_parameter():
    result = run(
        *["simulate", "--strategy", "hash,w-choices", *SMALL, "--set", "hot_factor=0.5", "--json"]
    )
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert "hot_factor" not in rows[0]["parameters"]
    assert rows[1]["parameters"]["hot_factor"] == 0.5


def test_a_shorter_pattern_of_capacities_repeats():
    rows = run("simulate", "--strategy", "shuffle", *SMALL, "--capacities", "1,3", "--json").stdout
    # Equal loads where 1/4 and 3/4 would be fair: the slow half has twice its share.
    assert json.loads(rows)["imbalance"] == pytest.approx(1.0)


def test_a_trace_is_read_from_a_file(tmp_path):
    path = tmp_path / "orders.parquet"
    pq.write_table(pa.table({"country": ["de", "fr", "de", None] * 50}), path)
    row = json.loads(
        run(
            *["simulate", "--strategy", "hash", "--trace", str(path), "--key", "country"],
            *["--limit", "100", "--workers", "2", "--json"],
        ).stdout
    )
    assert (row["records"], row["keys"]) == (100, 3)


def test_a_workload_takes_its_parameters():
    row = json.loads(
        run(
            *["simulate", "--strategy", "hash", "--workload", "evolving-zipf", "--zipf", "1.1"],
            *["--keys", "100", "--records", "5000", "--with", "period=1000", "--json"],
        ).stdout
    )
    assert row["workload"] == "evolving-zipf"


def test_own_strategies_are_checked_and_simulated_by_module_and_class():
    own = "examples.three_choices:ThreeChoices"
    assert "passed  fan out is kept" in run("check", own).stdout
    assert run("simulate", "--strategy", own, *SMALL, "--json").exit_code == 0


def test_bad_input_is_one_clear_line(tmp_path):
    missing = str(tmp_path / "missing.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "a.parquet")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 this is none")
    simulate = ["simulate", "--strategy"]
    cases = {
        "did you mean 'pkg'": [*simulate, "pgk", *SMALL],
        "--workers must be at least 1, not 0": [*simulate, "pkg", "--zipf", "1", "--workers", "0"],
        "--workers takes whole numbers": [*simulate, "pkg", "--zipf", "1", "--workers", "many"],
        "--sources must be at least 1, not 0": [*simulate, "pkg", *SMALL, "--sources", "0"],
        "--window must be at least 1": [*simulate, "pkg", *SMALL, "--window", "0"],
        "--seed must be at least 0": [*simulate, "pkg", *SMALL, "--seed", "-1"],
        "hot_factor must be above 0, not -1.0": [
            *[*simulate, "w-choices", *SMALL, "--set", "hot_factor=-1"]
        ],
        "unknown parameter 'hot_facto'; did you mean 'hot_factor'?": [
            *[*simulate, "w-choices", *SMALL, "--set", "hot_facto=1"]
        ],
        "--set takes name=value, not 'hot'": [*simulate, "w-choices", *SMALL, "--set", "hot"],
        "shuffle has no parameters": [*simulate, "shuffle", *SMALL, "--set", "x=1"],
        "say what to route": [*simulate, "pkg"],
        "--trace needs --key": [*simulate, "pkg", "--trace", str(tmp_path / "a.parquet")],
        "--key and --limit go with --trace": [*simulate, "pkg", *SMALL, "--key", "a"],
        "missing.parquet": [*simulate, "pkg", "--trace", missing, "--key", "a"],
        "broken.parquet": [*simulate, "pkg", "--trace", str(broken), "--key", "a"],
        "'b'": [*simulate, "pkg", "--trace", str(tmp_path / "a.parquet"), "--key", "b"],
        "did you mean 'zipf'": [*simulate, "pkg", "--workload", "zip"],
        "cannot be combined": [*simulate, "pkg", "--zipf", "1", "--trace", missing, "--key", "a"],
        "do not repeat evenly": [*simulate, "pkg", *SMALL, "--capacities", "1,2,3"],
        "--capacities must be above 0": [*simulate, "pkg", *SMALL, "--capacities", "1,0"],
        "--sync": [*simulate, "hash", *SMALL, "--sync", "100"],
        "cannot import 'no_such_module'": ["check", "no_such_module:Strategy"],
        "has no class 'Nobody'": ["check", "examples.three_choices:Nobody"],
        "is not a strategy: it lacks": ["check", "collections:OrderedDict"],
    }
    for message, command in cases.items():
        assert message in refused(*command), command


@pytest.mark.slow
def test_demo_writes_a_page_that_needs_no_network(tmp_path):
    page = tmp_path / "pages" / "demo.html"
    result = run("demo", "--out", str(page), "--records", "40000")
    assert result.exit_code == 0, result.output
    html = page.read_text()
    assert "Balance against replicas" in html
    assert not re.search(r"<(script|link)[^>]+(src|href)=[\"']https?:", html)
    assert all(name in result.stdout for name in registry.names())


def test_version_is_printed():
    assert re.fullmatch(r"skewless \d+\.\d+\.\d+\n", run("--version").stdout)
