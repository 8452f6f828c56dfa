"""The first minutes: the steps are those of the README, and their times add up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import first_minutes
from benchmarks.records import PROJECT
from document_blocks import blocks


def test_the_steps_are_those_of_the_readme() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    clone, demo, install, example = first_minutes.steps(readme).values()
    assert clone.startswith("git clone")
    assert demo == "cd skewless && make demo"
    assert install.endswith(" -m venv own && own/bin/pip install './skewless[spark,dashboard]'")
    assert blocks("README.md")[0].program in example


def test_a_step_that_fails_ends_the_measurement(tmp_path: Path) -> None:
    (tmp_path / "skewless").write_text("in the way of the clone", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError, match="git clone"):
        next(first_minutes.measure(str(tmp_path)))


def test_times_are_added_up() -> None:
    records = [
        {"step": "one", "seconds": 2.0, "cpu_s": 1.0, "load": 3.0},
        {"step": "two", "seconds": 60.4, "cpu_s": 50.6, "load": 2.2},
    ]
    heading, _, *lines = first_minutes.table(records).splitlines()
    assert heading.startswith("| step (62 s in all) |")
    assert lines == ["| one | 2 | 1 | 3 |", "| two | 60 | 51 | 2 |"]
