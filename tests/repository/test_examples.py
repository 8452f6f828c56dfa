"""What README.md and CONTRIBUTING.md show runs as it stands, and so do the examples."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from document_blocks import blocks
from skewless.checks import check_strategy

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "three_choices.py"
N_WORKERS = 8


@pytest.fixture
def three_choices(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("three_choices", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "three_choices", module)
    spec.loader.exec_module(module)
    return module


def route(three_choices: ModuleType, keys: np.ndarray) -> np.ndarray:
    strategy = three_choices.ThreeChoices()
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, strategy.start(N_WORKERS, seed=1), out)
    return out


def test_a_key_has_at_most_three_workers(three_choices: ModuleType) -> None:
    keys = np.random.default_rng(7).integers(0, 50, 5_000).astype(np.uint64)
    workers = route(three_choices, keys)
    assert workers.min() >= 0
    assert workers.max() < N_WORKERS
    fan_outs = [np.unique(workers[keys == key]).size for key in np.unique(keys)]
    assert max(fan_outs) == 3 == three_choices.ThreeChoices().traits.fan_out


def test_a_lone_hot_key_is_shared_evenly_by_its_workers(three_choices: ModuleType) -> None:
    loads = np.bincount(route(three_choices, np.zeros(3_000, np.uint64)))
    used = loads[loads > 0]
    assert used.size > 1
    assert used.max() - used.min() <= 1  # each record goes to the least loaded of them


def test_it_passes_the_checks_that_our_own_strategies_pass(three_choices: ModuleType) -> None:
    assert "fan_out_is_kept" in check_strategy(three_choices.ThreeChoices())


def test_contributing_quotes_the_example_as_it_is() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") in (PROJECT / "CONTRIBUTING.md").read_text(
        encoding="utf-8"
    )


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len((PROJECT / "README.md").read_text(encoding="utf-8")) <= 10_000


def test_the_python_of_the_readme_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("README.md")[-1].program, {})
    assert capsys.readouterr().out == "[1250 1250 1250 1250]\n"


@pytest.mark.spark
def test_the_readme_on_spark_prints_what_it_shows(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The session of the tests is the one that the example gets, with its settings left alone.
    monkeypatch.setattr("skewless.spark.session", lambda name, master: spark)
    names: dict[str, Any] = {}
    first, ask_first, _ = blocks("README.md")
    exec(first.program, names)
    before, after = (int(line.split()[1]) for line in capsys.readouterr().out.splitlines())
    assert before >= 50_000  # the orders of customer 0
    assert after <= 1.1 * 100_000 / 8  # a plan may leave a worker a few percent above the others
    exec(ask_first.program, names)
    assert re.fullmatch(r"True [a-z0-9-]+\n", capsys.readouterr().out)


#: What each job must print; the times differ.
JOBS = {
    "model_per_customer": "hash: 100000 scores in .* s\nroute: 100000 scores in .* s",
    "skewed_join": "(?s).*busiest task / mean: Spark .*, skewless 1.*\nthe same rows: True",
    "partitioned_write": r"(?s)repartition\(n, key\): 100000 rows in .*route: 100000 rows in .*",
    "sessions_with_state": "(?s).* sessions ended, the state holds .*",
    "own_strategy": "(?s).*three-choices .*cascade-ahead .*ideal .*",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_job_to_copy_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    if name != "own_strategy":
        pytest.importorskip("pyspark")
    done = subprocess.run(
        [sys.executable, str(PROJECT / "examples" / f"{name}.py")],
        cwd=tmp_path,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    assert re.fullmatch(JOBS[name], done.stdout.strip())
