"""Scripts that the Python of this environment runs, each with a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import skewless

SOURCES = Path(skewless.__file__).parent.parent
QUIET = """
import os, sys, warnings
sys.path.insert(0, {sources!r})
from pyspark.sql import SparkSession, functions as F
from skewless.spark import configure, route

builder = configure(SparkSession.builder, daemon={daemon}).master({master!r})
for name, value in {{
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
}}.items():
    builder = builder.config(name, value)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    spark = builder.getOrCreate()
print("warned", [str(one.message) for one in told if "skewless" in str(one.message)], sep="=")
python = F.udf(lambda _: __import__("sys").executable, "string", useArrow=False)
if "NO_FUNCTION" not in os.environ:
    print("python", spark.range(1).select(python("id")).collect()[0][0], sep="=")
"""
REFUSED = """
try:
    route(spark.range(100), "id", workers=4, strategy="cascade-ahead")
except RuntimeError as error:
    print("refused", error, sep="=")
print("after", spark.range(1).select(python("id")).collect()[0][0], sep="=")
"""


def said_by(
    program: str,
    folder: Path,
    *,
    master: str = "local[2]",
    daemon: bool | None = None,
    **variables: str | None,
) -> dict[str, str]:
    """Run a script by the Python of this environment; return its output."""
    script = folder / "scripts" / "script.py"
    script.parent.mkdir(exist_ok=True)
    begin = QUIET.format(sources=str(SOURCES), master=master, daemon=daemon)
    script.write_text(begin + program + "spark.stop()\n")
    changed = {**os.environ, "SPARK_LOCAL_DIRS": str(folder), "SKEWLESS_WARM": "", **variables}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={name: value for name, value in changed.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
