"""Time the commands of the README from an empty folder: to the first result, and to an own one."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

import typer

from benchmarks.records import PROJECT, Report, Row, markdown


def steps(readme: str) -> dict[str, str]:
    """Return what a newcomer types, as the README has it, by what it is for."""
    install = re.findall(r"^pip (install '/path/to/.*)$", readme, re.MULTILINE)[0]
    program = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    own = f"own/bin/pip {install.replace('/path/to', '.')}"
    return {
        "`git clone`": f"git clone -q '{PROJECT}' skewless",
        "`make demo`: the first result": "cd skewless && make demo",
        "an own environment, `pip install`": f"'{sys.executable}' -m venv own && {own}",
        "the first example: the first own result": f"own/bin/python - <<'END'\n{program}END",
    }


def measure(folder: str) -> Iterator[Row]:
    """Run every step in one folder, without settings of ours; the first that fails ends it."""
    ours = re.compile("SKEWLESS_|PYSPARK_|PYTHON|VIRTUAL_ENV|MAKE|MFLAGS")
    others = {name: text for name, text in os.environ.items() if not ours.match(name)}
    for step, command in steps((PROJECT / "README.md").read_text(encoding="utf-8")).items():
        before = os.times()
        subprocess.run(["sh", "-ec", command], cwd=folder, env=others, check=True)
        _, _, user, system, elapsed = (b - a for a, b in zip(before, os.times(), strict=True))
        about = {"step": step, "load": os.getloadavg()[0]}
        yield about | {"seconds": elapsed, "cpu_s": user + system}


def table(records: Sequence[Row]) -> str:
    columns = ("seconds", "cpu_s", "load")
    rows = [[row["step"], *(f"{row[name]:.0f}" for name in columns)] for row in records]
    total = sum(row["seconds"] for row in records)
    return markdown(f"step ({total:.0f} s in all) | seconds | seconds of CPU | load", rows)


PLACES = {("docs/guides/platforms.md", "first minutes"): table}
REPORT = Report("first_minutes.jsonl", PLACES, "python -m benchmarks.first_minutes")


def main() -> None:
    """Clone the project as it is committed, and do what the README says, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        REPORT.write(measure(folder))


if __name__ == "__main__":
    typer.run(main)
