"""Run the smoke suite on each supported version of Spark, with classic sessions and with Connect.

Each version has an environment of its own in `.venv-versions`, made when it is first needed. How
each part ended goes to the raw records from which `make docs-tables` writes the README's table.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spark_environment import PROJECT, VERSIONS, checked, environment

MODES = ("classic", "connect")
RECORDS = PROJECT / "benchmarks" / "results" / "spark_versions.jsonl"


def passes(python: Path, version: str, mode: str) -> bool:
    """Run the suite in an environment; return whether all of it passed."""
    print(f"Spark {version}, {mode}", file=sys.stderr, flush=True)
    surroundings = {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "SKEWLESS_SPARK_MODE": mode,
        "SKEWLESS_VERSIONS_RECORDS": str(RECORDS),
    }
    # Of another Spark, or of this one in another place.
    for name in ("SPARK_HOME", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        surroundings.pop(name, None)
    # What other versions of Spark warn of is not ours to mend.
    options = ["-q", "-m", "versions", "-o", "filterwarnings=default", "-p", "no:cacheprovider"]
    command = [str(python), "-m", "pytest", *options, "tests/versions"]
    return subprocess.call(command, cwd=PROJECT, env=surroundings) == 0


def main() -> None:
    """Run the suite on the versions that are named, or on all."""
    versions = checked(sys.argv[1:] or list(VERSIONS))
    failed = []
    for version in versions:
        python = environment(version)
        failed += [f"{version} {mode}" for mode in MODES if not passes(python, version, mode)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
