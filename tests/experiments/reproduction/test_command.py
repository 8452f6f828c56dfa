"""`skewless reproduce`, as people and scripts use it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.reproduction.fake_paper import (
    SIMULATED,
    Bad,
    environment,
    figure,
    value_claim,
)
from skewless.cli import app
from skewless.experiments.reproduction.figure import Figure

FAKES = [figure("9", {"a": Bad()}, [value_claim("a")]), SIMULATED]


@pytest.fixture(autouse=True)
def little_paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skewless.cli.reproducing.all_figures", lambda: list(FAKES))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["reproduce", *arguments])


def refused(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    return str(line)


def test_one_json_object_per_figure(tmp_path: Path) -> None:
    done = run("dalton", "--size", "tiny", "--jobs", "1", "--json")
    assert done.exit_code == 0, done.output
    (one,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (one["paper"], one["figure"], one["size"]) == ("dalton", "table II", "tiny")
    assert one["verdict"] == "not reproduced"
    assert one["published"] == [None, 1e-9]
    assert one["ours"] == [claim["ours"] for claim in one["claims"]]
    assert [claim["verdict"] for claim in one["claims"]] == ["reproduced", "not reproduced"]
    assert set(one["claims"][0]) >= {"says", "place", "ours", "published", "counts", "verdict"}
    assert one["why"] == SIMULATED.why
    assert one["evidence"][0]["verdict"] == "reproduced"
    assert len(list((tmp_path / "out" / "reproduction" / "raw" / "tiny").rglob("*.json"))) == 3


def test_a_second_run_prints_the_same_from_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["dalton", "--size", "tiny", "--jobs", "1", "--json"]
    first = run(*command).stdout

    def no_run(self: object) -> None:
        raise AssertionError("it was measured before")

    monkeypatch.setattr("skewless.experiments.reproduction.cells.Simulation.run", no_run)
    assert run(*command).stdout == first


def test_a_failed_figure_makes_exit_code_1_and_the_others_are_shown() -> None:
    done = run("--size", "tiny", "--jobs", "1")
    assert done.exit_code == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("skewless")]
    assert line == (
        "skewless: 1 of 2 figures failed; fish/9: cell 'a': "
        "ZeroDivisionError: there is nothing to divide by"
    )
    assert re.search(r"dalton/table-II +not reproduced", done.stdout)
    assert (
        "2 figures and tables: 1 not reproduced, 1 failed. 0 % hold, at least in direction."
        in done.stdout
    )


def test_figures_are_listed_without_being_measured(tmp_path: Path) -> None:
    assert re.search(r"fish/9 +what 9 shows", run("--list").stdout)
    rows = [
        json.loads(line) for line in run("--list", "--json", "DALTON/table II").stdout.splitlines()
    ]
    assert rows == [{"name": "dalton/table-II", "title": "imbalance of three strategies"}]
    assert not (tmp_path / "out").exists()


def test_the_page_is_written(tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")
    done = run("dalton", "--size", "tiny", "--jobs", "1", "--page", "pages/figures.html")
    assert done.exit_code == 0, done.output
    assert "The plots: pages/figures.html" in done.stdout
    assert "imbalance of three strategies" in (tmp_path / "pages" / "figures.html").read_text()


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cases = {
        "unknown paper 'fsh'; did you mean 'fish'?": ["fsh"],
        "unknown figure 'dalton/table-I'; did you mean 'dalton/table-ii'?": ["dalton/table-I"],
        "unknown figure 'fish/77'; did you mean 'fish/9'?": ["fish/77"],
        "unknown figure 'fsh/9'; did you mean 'fish/9'?": ["fsh/9"],
        "--size: unknown size 'quik'; did you mean 'quick'?": ["--size", "quik"],
        "--quick cannot be combined with --size tiny": ["--quick", "--size", "tiny"],
        "--jobs must be 1 … 1,024, not 0": ["--jobs", "0"],
        "--jobs takes a whole number, not 'many'": ["--jobs", "many"],
        "--out must be the path of a folder, and 'file' is a file": ["--out", "file"],
        "--page must be the path of a file, and '.' is a folder": ["--page", "."],
    }
    for message, arguments in cases.items():
        assert message in refused(*arguments), arguments


def test_without_names_all_figures_are_meant() -> None:
    names = [json.loads(line)["name"] for line in run("--list", "--json").stdout.splitlines()]
    assert names == [figure.name for figure in FAKES]


STOPPED = """
import signal

# As in a terminal: a shell that starts the tests in the background lets them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
import skewless.cli.reproducing as reproducing
from experiments.reproduction.fake_paper import Counted, Slow, figure, value_claim
from skewless.cli import main

if __name__ == "__main__":
    cells = {"slow": Slow(1), "quick": Counted("quick", "log", 10**9)}
    reproducing.all_figures = lambda: [figure("1", cells, [value_claim("slow")])]
    main()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_says_in_one_line_how_to_go_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STOPPED)
    command = [sys.executable, str(program), "reproduce", "--size", "tiny", "--jobs", "1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    lines = [line for line in err.splitlines() if line.strip() and "measuring" not in line]
    assert lines == [
        "skewless: stopped: 1 of 2 cells are kept in out/reproduction; "
        "the same command resumes from there"
    ]


def test_two_figures_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from skewless.experiments.reproduction import catalogue

    twice: tuple[Figure, ...] = (FAKES[0], FAKES[0])
    monkeypatch.setattr(catalogue, "_COLLECTIONS", (twice,))
    with pytest.raises(ValueError, match="two figures have the same name: fish/9"):
        catalogue.all_figures()
