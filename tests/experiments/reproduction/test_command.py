"""`python -m experiments.reproduction`, as people and scripts use it."""

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
import typer
from typer.testing import CliRunner

import experiments.reproduction.__main__ as command
from experiments.reproduction.figure import read_figures
from fake_paper import DALTON, SIMULATED, Bad, environment, figure, large

APP = typer.Typer()
APP.command()(command.main)
FAKES = [figure("9", {"a": Bad()}, [large("a")]), SIMULATED]


@pytest.fixture(autouse=True)
def little_paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "all_figures", lambda: list(FAKES))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(APP, arguments)


def refused(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.strip()]
    return str(line)


def test_a_second_run_prints_the_same_from_the_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = ["dalton", "--size", "tiny"]
    first = run(*arguments).stdout
    assert re.search(r"dalton/table-II +not reproduced +1 reproduced, 1 not reproduced", first)
    assert len(list((tmp_path / "out" / "reproduction" / "raw" / "tiny").rglob("*.json"))) == 3

    def no_run(self: object) -> None:
        raise AssertionError("it was measured before")

    monkeypatch.setattr("experiments.reproduction.cells.Simulation.run", no_run)
    assert run(*arguments).stdout == first


def test_all_figures_can_be_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "all_figures", lambda: [SIMULATED])
    monkeypatch.setattr(command, "RECORDS", tmp_path / "records.jsonl")
    written: list[Any] = []
    monkeypatch.setattr(command, "write_document", written.extend)
    assert run("--size", "tiny", "--record").exit_code == 0
    (one,) = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert one.keys() == {"name", "size", "numbers"}
    assert one["numbers"][1]["number"] == SIMULATED.claims[1].ours
    assert [result["name"] for result in written] == ["dalton/table-II"]
    assert [claim["verdict"] for claim in written[0]["claims"]] == ["reproduced", "not reproduced"]


def test_a_record_keeps_what_other_runs_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    records = tmp_path / "records.jsonl"
    other = {"name": "fish/9", "paper": "fish", "size": "published"}
    gone = {"name": "fish/77", "paper": "fish", "size": "quick"}
    records.write_text("".join(json.dumps(one) + "\n" for one in (other, gone)))
    monkeypatch.setattr(command, "RECORDS", records)
    monkeypatch.setattr(command, "write_document", lambda results: None)
    assert run("dalton", "--size", "tiny", "--record").exit_code == 0
    found = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(one["name"], one["size"]) for one in found] == [
        ("fish/9", "published"), ("dalton/table-II", "tiny")
    ]  # fmt: skip


def test_a_failed_figure_makes_exit_code_1_and_the_others_are_shown() -> None:
    done = run("--size", "tiny")
    assert done.exit_code == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("skewless")]
    assert line == (
        "skewless: 1 of 2 figures failed; fish/9: cell 'label=a seed=1': "
        "ZeroDivisionError: there is nothing to divide by"
    )
    assert re.search(r"dalton/table-II +not reproduced", done.stdout)
    assert (
        "2 figures and tables: 1 not reproduced, 1 failed. 0 % hold, at least in direction."
        in done.stdout
    )


def test_figures_are_listed_without_being_measured(tmp_path: Path) -> None:
    assert [line.split()[0] for line in run("--list").stdout.splitlines()] == [
        figure.name for figure in FAKES
    ]
    (line,) = run("--list", "DALTON/table II").stdout.splitlines()
    assert line.split(maxsplit=1) == ["dalton/table-II", "imbalance of three strategies"]
    assert not (tmp_path / "out").exists()


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cases = {
        "unknown paper 'fsh'; did you mean 'fish'?": ["fsh"],
        "unknown figure 'dalton/table-I'; did you mean 'dalton/table-ii'?": ["dalton/table-I"],
        "unknown figure 'fish/77'; did you mean 'fish/9'?": ["fish/77"],
        "unknown figure 'fsh/9'; did you mean 'fish/9'?": ["fsh/9"],
        "--size: unknown size 'quik'; did you mean 'quick'?": ["--size", "quik"],
        "--out must be the path of a folder, and 'file' is a file": ["--out", "file"],
    }
    for message, arguments in cases.items():
        assert message in refused(*arguments), arguments


STOPPED = """
import signal

# As in a terminal: a shell that starts the tests in the background lets them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
import typer
import experiments.reproduction.__main__ as command
from fake_paper import Counted, Slow, figure, large

if __name__ == "__main__":
    cells = {"quick": Counted("quick", "log"), "slow": Slow(1)}
    command.all_figures = lambda: [figure("1", cells, [large("slow")])]
    typer.run(command.main)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_says_in_one_line_how_to_go_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STOPPED)
    command = [sys.executable, str(program), "--size", "tiny"]
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
        "skewless: stopped: what was measured is kept in out/reproduction; "
        "the same command resumes from there"
    ]


def test_two_figures_of_one_name_are_refused(tmp_path: Path) -> None:
    figure = '[[figure]]\nnumber = "1"\ntitle = ""\nclaims = [{says = "", ours = {column = "x"}, '
    (tmp_path / "texts.toml").write_text("")
    (tmp_path / "some.toml").write_text(2 * (figure + "expects = {above = 2}}]\n"))
    with pytest.raises(ValueError, match="two figures have the same name: dalton/1"):
        read_figures(DALTON, tmp_path)
