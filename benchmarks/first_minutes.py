"""Time the commands of the README from an empty folder: to the first result, and to an own one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import typer

from benchmarks.records import PROJECT, Report, Row, markdown

#: What the shell of a newcomer has not.
OURS = re.compile("SKEWLESS_|PYSPARK_|PYTHON|VIRTUAL_ENV|MAKE|MFLAGS")


def steps(readme: str) -> dict[str, str]:
    """Return what a newcomer types, as the README has it, by what it is for."""
    (demo,) = re.findall(r"^(make demo)\b", readme, re.MULTILINE)
    (install,) = re.findall(r"^pip (install '/path/to/.*)$", readme, re.MULTILINE)
    program, *_ = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    own = f"own/bin/pip {install.replace('/path/to', '.')}"
    return {
        "`git clone`": f"git clone -q '{PROJECT}' skewless",
        f"`{demo}`: the first result": f"cd skewless && {demo}",
        "an own environment, `pip install`": f"'{sys.executable}' -m venv own && {own}",
        "the first example: the first own result": f"own/bin/python - <<'END'\n{program}END",
    }


def measure(folder: Path) -> Iterator[Row]:
    """Run every step in one folder; the first that fails ends it."""
    surroundings = {name: text for name, text in os.environ.items() if not OURS.match(name)}
    for step, command in steps((PROJECT / "README.md").read_text(encoding="utf-8")).items():
        before, begin = os.times(), perf_counter()
        subprocess.run(["sh", "-ec", command], cwd=folder, env=surroundings, check=True)
        seconds, after = perf_counter() - begin, os.times()
        cpu_s = sum(after[2:4]) - sum(before[2:4])  # of children
        yield {"step": step, "seconds": seconds, "cpu_s": cpu_s, "load": os.getloadavg()[0]}


def table(records: Sequence[Row]) -> str:
    """Return a row per step, with the time since the first one began."""
    rows, total = [], 0.0
    for record in records:
        total += record["seconds"]
        numbers = (record["seconds"], total, record["cpu_s"], record["load"])
        rows.append([record["step"], *(f"{number:.0f}" for number in numbers)])
    return markdown("step | seconds | since the start | seconds of CPU | load after it", rows)


REPORT = Report(
    "first_minutes.jsonl",
    {("docs/guides/platforms.md", "first minutes"): table},
    command="python -m benchmarks.first_minutes",
)


def main() -> None:
    """Clone the project as it is committed, and do what the README says, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        REPORT.write(measure(Path(folder)))


if __name__ == "__main__":
    typer.run(main)
