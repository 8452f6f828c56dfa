"""The command line under random options: it works, or it says in one line what is wrong."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fuzz.cases import NUMBERS, TEXTS, cases, no_hang, report, told
from skewless import registry
from skewless.cli import app
from skewless.simulator import simulate

WORDS = (
    [told(number) for number in NUMBERS]
    + TEXTS
    + [
        *(
            "1",
            "2",
            "3",
            "10",
            "0.5",
            "1,2",
            "1,,2",
            "2,x",
            "=",
            "x=",
            "=1",
            "choices=3",
            "tolerance=nan",
        ),
        *(
            "hash",
            "pkg,hash",
            "all",
            "hash,",
            "zipf",
            "trace",
            "burst",
            "parquet",
            "local[0]",
            "local[x]",
        ),
        *("z=1", "n_records=-1", "n_keys=1e3", "period=0", "hot_factor=1e-300", "capacity=1e30"),
    ]
)
SIMULATE = {"--strategy": "pkg", "--zipf": "1", "--records": "1e3", "--workers": "3"}
OPTIONS = {
    "simulate": [
        *("--strategy", "--workers", "--sources", "--seed", "--zipf", "--keys", "--records"),
        *("--workload", "--with", "--trace", "--key", "--weight", "--limit", "--window", "--set"),
        *(
            "--capacities",
            "--sync",
            "--horizon",
            "--timing",
            "--event",
            "--windows",
        ),
        *("--json", "--nonsense"),
    ],
    "demo": [
        "--strategy",
        "--workers",
        "--records",
        "--batches",
        "--work-us",
        "--load-us",
        "--seed",
    ],
    "diagnose columns": ["--workers", "--limit", "--format", "--delimiter", "--json", "--key"],
    "diagnose key": [
        *("--workers", "--limit", "--window", "--delimiter", "--slots", "--per-record"),
        *("--per-pair", "--page", "--json", "--slow"),
    ],
    "diagnose log": [
        *("--slow", "--slots", "--page", "--json", "--workers"),
    ],
    "check": ["--set"],
    "dashboard": ["--port", "--once", "--no-browser"],
    "strategies": ["--json", "--x"],
}
#: Options with which each command reads the table of the test.
READING = {
    "diagnose columns": {},
    "diagnose key": {"--key": "k"},
}
FLAGS = ("--json", "--no-browser")


def small_only(strategy: Any, workload: Any, **arguments: Any) -> Any:
    """Simulate what is small; end well, without work, where a machine would be busy for hours."""
    n_records = workload.n_records
    if n_records is not None and n_records > 10_000:
        raise typer.Exit(0)
    if arguments["n_workers"] * arguments["n_sources"] > 10_000:
        raise typer.Exit(0)
    return simulate(strategy, workload, **arguments)


def stop(*_: Any, **__: Any) -> Any:
    raise typer.Exit(0)


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.csv").write_text("k,v\na,1\nb,x\n")
    monkeypatch.setattr("skewless.simulator.simulate", small_only)
    monkeypatch.setattr("skewless.checks.check_strategy", stop)
    monkeypatch.setattr(
        registry, "_BY_NAME", {n: registry.get(n) for n in ("hash", "pkg", "shuffle")}
    )
    try:
        session = importlib.import_module("skewless.spark.configuring")
        monkeypatch.setattr(session, "find_java", lambda: tmp_path)
        monkeypatch.setattr("skewless.cli.demo.spark_session", stop)
        monkeypatch.setattr("skewless.apps.drifting_words.write_words", stop)
    except ModuleNotFoundError:  # without pyspark one line says so
        pass
    return tmp_path


def command(rng: random.Random) -> list[str]:
    name = rng.choice(["simulate", "simulate", "diagnose key", *OPTIONS])
    arguments = name.split()
    options: dict[str, str | None] = {}
    if name == "simulate":
        options = dict(rng.sample(sorted(SIMULATE.items()), rng.choice([3, 4, 4, 4])))
    elif name in READING:
        options = {"--input": "words.csv", **READING[name]}
    elif name == "check":
        arguments.append(rng.choice(["pkg", *WORDS]))
    elif name in ("dashboard", "diagnose log"):
        arguments.append(rng.choice([".", "words.csv", "ledger", *WORDS]))
    for option in rng.sample(OPTIONS[name], min(len(OPTIONS[name]), rng.choice([1, 1, 2, 3]))):
        options[option] = None if option in FLAGS else rng.choice(WORDS)
    for option, value in options.items():
        arguments += [option] if value is None else [option, value]
    return arguments


def wrong_with_command(arguments: list[str]) -> str | None:
    with no_hang():
        result = CliRunner().invoke(app, arguments)
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        return f"{type(error).__name__}: {error}"[:200]
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    if result.exit_code == 2 and len(lines) == 1 and lines[0].startswith("skewless: "):
        return None
    return None if result.exit_code == 0 else f"exit code {result.exit_code}, {lines[:3]}"


def test_commands_work_or_say_in_one_line_what_is_wrong(little_work: Path) -> None:
    found = []
    for number, rng in cases("commands", 80):
        arguments = command(rng)
        wrong = wrong_with_command(arguments)
        if wrong is not None:
            found.append((number, " ".join(told(argument) for argument in arguments), wrong))
    assert not found, report("commands", found)


@pytest.mark.parametrize("value", ["99999999999999999999", "-1", "nan", "1.5", "many", "9" * 5000])
@pytest.mark.parametrize("option", ["--sources", "--seed", "--workers", "--records", "--window"])
def test_a_bad_number_is_refused_with_its_option(option: str, value: str) -> None:
    arguments = [part for pair in {**SIMULATE, option: value}.items() for part in pair]
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert option in line
    assert len(line) < 300
