"""The command line, as people and scripts use it."""

import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from command_line import let_java_be_found, refused, run
from skewless import registry, workloads
from skewless.cli import app, reading
from skewless.plumbing import new_process

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


def test_strategies_are_listed_for_people_and_for_programs():
    people = run("strategies").stdout
    rows = [json.loads(line) for line in run("strategies", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == registry.names()
    assert all(name in people for name in registry.names())
    assert {"family", "fan_out", "parameters", "summary"} <= set(rows[0])
    methods = {name: name for name in ("merge", "rebalance", "rescale")} | {
        "weigh": "route_weighted"
    }
    for row in rows:
        cls = registry.get(row["name"])
        able = [name for name, method in methods.items() if hasattr(cls, method)]
        assert row["abilities"] == able


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
    timings = ("ns_per_record", "plan_seconds_mean", "planned_plan_seconds_mean")
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


def test_a_column_of_the_trace_says_what_records_cost(tmp_path):
    path = tmp_path / "orders.parquet"
    pq.write_table(pa.table({"country": ["de", "fr"] * 50, "bytes": [1, 3] * 50}), path)
    rows = run(
        *["simulate", "--strategy", "hash,cascade", "--trace", str(path), "--key", "country"],
        *["--weight", "bytes", "--limit", "60", "--workers", "2", "--json"],
    ).stdout
    assert [sum(json.loads(row)["loads"]) for row in rows.splitlines()] == [120.0, 120.0]


def test_a_workload_that_shifts_load_between_workers_has_those_of_the_run():
    options = ["simulate", "--strategy", "mixed", "--workload", "fluctuation", "--records", "4e3"]
    options += ["--keys", "1e3", "--with", "interval=1e3", "--window", "1000", "--json"]
    told = run(*options, "--workers", "4", "--with", "n_workers=4")
    other = run(*options, "--workers", "4", "--with", "n_workers=9")
    both = run(*options, "--workers", "9,4").stdout.splitlines()
    loads = [json.loads(line)["loads"] for line in (told.stdout, other.stdout, both[1])]
    assert loads[2] == loads[0] != loads[1]


def test_a_workload_takes_its_parameters():
    row = json.loads(
        run(
            *["simulate", "--strategy", "hash", "--workload", "evolving-zipf", "--zipf", "1.1"],
            *["--keys", "100", "--records", "5000", "--with", "period=1000", "--json"],
        ).stdout
    )
    assert row["workload"] == "evolving-zipf"


def test_a_simulation_can_have_a_clock():
    clock = ["--timing", "service=1e-3", "--timing", "queue=8"]
    slow = ["--event", "speed@1000:worker=1,value=1e-3"]
    command = ["simulate", "--strategy", "hash,mixed", *SMALL, *clock, *slow]
    result = run(*command, "--window", "500", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(row["latency_max"] > 0.9 and row["throughput"] > 0 for row in rows)
    people = run(*command).stdout
    assert "records / s" in people
    assert "99 %" in people


def test_own_strategies_are_checked_and_simulated_by_module_and_class():
    own = "examples.three_choices:ThreeChoices"
    assert "passed  fan out is kept" in run("check", own).stdout
    assert run("simulate", "--strategy", own, *SMALL, "--json").exit_code == 0


def test_own_strategies_stand_beside_the_others():
    own = "examples.three_choices:ThreeChoices"
    command = ("simulate", *SMALL, "--json", "--strategy")
    shown = run(*command, f"hash, {own},pkg,hash")
    assert shown.exit_code == 0, shown.output
    named = [json.loads(line)["strategy"] for line in shown.stdout.splitlines()]
    assert named == ["hash", "three-choices", "pkg"]
    assert "unknown strategy 'hsah'" in refused(*command, "hsah")
    everyone = [one.name for one in reading.strategies(f"all,{own},hash", {})]
    assert everyone == [*registry.names(), "three-choices"]


def test_bad_input_is_one_clear_line(tmp_path):
    missing = str(tmp_path / "missing.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "a.parquet")
    columns = {"a": ["x"] * 3, "below": [1, -3, 2], "missing": [1.5, 2.0, None]}
    pq.write_table(pa.table(columns), tmp_path / "costs.parquet")
    costs = ["--trace", str(tmp_path / "costs.parquet"), "--key", "a"]
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 this is none")
    simulate = ["simulate", "--strategy"]
    cases = {
        "did you mean 'pkg'": [*simulate, "pgk", *SMALL],
        "--workers must be 1 … 16,777,215, not 0": [
            *simulate,
            "pkg",
            "--zipf",
            "1",
            "--workers",
            "0",
        ],
        "--workers takes whole numbers": [*simulate, "pkg", "--zipf", "1", "--workers", "many"],
        "--sources must be 1 … 1,048,576, not 0": [*simulate, "pkg", *SMALL, "--sources", "0"],
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
        "--timing: service must be above 0": [*simulate, "pkg", *SMALL, "--timing", "service=0"],
        "did you mean 'service'": [*simulate, "pkg", *SMALL, "--timing", "servise=1"],
        "--event takes KIND@RECORD": [*simulate, "pkg", *SMALL, "--event", "at=1,worker=2"],
        "three-choices has a fixed number": [
            *(*simulate, "examples.three_choices:ThreeChoices"),
            *(*SMALL, "--event", "leave@1:worker=2"),
        ],
        "--trace needs --key": [*simulate, "pkg", "--trace", str(tmp_path / "a.parquet")],
        "--key, --weight and --limit go with --trace": [*simulate, "pkg", *SMALL, "--key", "a"],
        "go with --trace FILE": [*simulate, "pkg", *SMALL, "--weight", "a"],
        "that of record 1 is -3.0": [*simulate, "pkg", *costs, "--weight", "below"],
        "that of record 2 is nan": [*simulate, "pkg", *costs, "--weight", "missing"],
        "column 'a' of": [*simulate, "pkg", *costs, "--weight", "a"],
        "has no column 'c'": [*simulate, "pkg", *costs, "--weight", "c"],
        "missing.parquet": [*simulate, "pkg", "--trace", missing, "--key", "a"],
        "broken.parquet": [*simulate, "pkg", "--trace", str(broken), "--key", "a"],
        "has no column 'b'": [
            *simulate,
            "pkg",
            "--trace",
            str(tmp_path / "a.parquet"),
            "--key",
            "b",
        ],
        "did you mean 'zipf'": [*simulate, "pkg", "--workload", "zip"],
        "cannot be combined": [*simulate, "pkg", "--zipf", "1", "--trace", missing, "--key", "a"],
        "do not repeat evenly": [*simulate, "pkg", *SMALL, "--capacities", "1,2,3"],
        "--capacities must be above 0": [*simulate, "pkg", *SMALL, "--capacities", "1,0"],
        "--sync": [*simulate, "hash", *SMALL, "--sync", "100"],
        "--horizon: none of the chosen": [*simulate, "hash", *SMALL, "--horizon", "100"],
        "--horizon must be": [*simulate, "cascade-ahead", *SMALL, "--horizon", "-1"],
        "cannot import 'no_such_module'": ["check", "no_such_module:Strategy"],
        "has no class 'Nobody'": ["check", "examples.three_choices:Nobody"],
        "is not a strategy: it lacks": ["check", "collections:OrderedDict"],
        "STRATEGY takes one strategy, not 'hash,pkg'": ["check", "hash,pkg"],
        "FOLDER must be a folder that can be made": ["compile", str(broken), "--strategy", "hash"],
    }
    for message, command in cases.items():
        assert message in refused(*command), command


def test_without_java_one_line_says_what_to_install(monkeypatch):
    pytest.importorskip("pyspark", reason="without pyspark that is what is said")

    def no_java():
        raise RuntimeError("Spark needs Java 17 or later and none was found")

    let_java_be_found(monkeypatch, no_java)
    assert "needs Java 17" in refused("demo")


def test_without_pyspark_one_line_says_what_to_install():
    program = "import sys; sys.modules['pyspark'] = None; import skewless.cli; skewless.cli.main()"
    done = subprocess.run([sys.executable, "-c", program, "demo"], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch(r"skewless: this needs PySpark .*extra 'spark'.*\n", done.stderr)


def test_the_command_line_starts_without_pyspark_and_bokeh():
    program = "import sys, skewless.cli; print({'pyspark', 'bokeh'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_version_is_printed():
    assert re.fullmatch(r"skewless \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"), [("skewless sim", "simulate"), ("skewless diagnose c", "columns")]
)
def test_shells_can_complete_commands(words, completed):
    asked = {"_SKEWLESS_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(words.count(" "))
    program = "import sys; sys.argv = ['skewless']; from skewless.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert done.stdout.split() == [completed], done.stderr


def test_simulate_says_which_strategies_ignore_speeds():
    small = [*SMALL, "--capacities", "1,2"]
    told = run("simulate", "--strategy", "pkg,cascade", *small)
    assert told.exit_code == 0
    assert "--capacities: pkg treat all workers alike" in told.stderr
    assert "cascade treat" not in told.stderr


def every_command(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_tells_programs_what_it_tells_people():
    without = [
        " ".join(path)
        for path, command in every_command(typer.main.get_command(app))
        if not any("--json" in option.opts for option in command.params)
    ]
    assert not without


def test_check_prints_one_json_object_per_line():
    checked = run("check", "hash", "--json")
    assert checked.exit_code == 0, checked.output
    lines = [json.loads(line) for line in checked.stdout.splitlines()]
    assert len(lines) > 3
    assert all(line["passed"] for line in lines)


def test_a_setting_that_is_given_twice_is_refused():
    command = ("simulate", "--strategy", "cascade", "--zipf", "1.2", "--sources", "2")
    assert "--sync sets 'interval' twice" in refused(*command, "--sync", "interval=10,interval=20")
    assert "--set sets 'seed' twice" in refused(*command, "--set", "seed=1", "--set", "seed=2")


def test_the_table_says_how_often_sources_merged():
    command = ("simulate", "--strategy", "cascade", "--zipf", "1.2", "--records", "20000")
    merged = run(*command, "--sources", "2", "--sync", "5000").output
    assert "merged 3 times" in merged or "merged 4 times" in merged
    assert "merged" not in run(*command).output


@pytest.mark.parametrize(
    "command", ["strategies", "workloads", "check hash", "simulate --strategy hash --zipf 1"]
)
def test_a_cache_folder_that_cannot_be_used_is_one_clear_line(tmp_path, command):
    (tmp_path / "file").touch()
    environment = {**os.environ, "SKEWLESS_CACHE_DIR": str(tmp_path / "file")}
    done = subprocess.run(
        [sys.executable, "-m", "skewless", *command.split()],
        env=environment | {"NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"skewless: SKEWLESS_CACHE_DIR={tmp_path / 'file'} cannot hold")
    assert len(done.stderr.splitlines()) == 1


def test_another_process_takes_no_package_from_the_working_folder(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('not numpy')")
    (tmp_path / "mine.py").touch()
    for program in ("import numpy, mine", "import runpy; import mine"):
        subprocess.run(new_process.python(program), cwd=tmp_path, check=True)


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "skewless", "--version"], capture_output=True, text=True
    )
    assert done.stdout == run("--version").stdout
