"""Make environments of versions of Spark in `.venv-versions`, and run the smoke suite in them.

`environment VERSION` makes one if need be, and prints its Python. `test [VERSIONS]` runs the suite
on each version, with classic sessions and with Connect. How each part ended goes to the raw records
from which `make docs-tables` writes the table of docs/guides/platforms.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

VERSIONS = ("4.1", "4.2", "4.3")
MODES = ("classic", "connect")
PROJECT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = PROJECT / ".venv-versions"
RECORDS = PROJECT / "benchmarks" / "results" / "spark_versions.jsonl"
#: What differs from one version of Spark to the next; all else is as in constraints.txt.
_SPARKS_OWN = re.compile(r"^(pyspark|py4j)==.*\n", re.MULTILINE)


def environment(version: str) -> Path:
    """Return the Python of the environment with a version of Spark, which is made if need be."""
    folder = ENVIRONMENTS / version
    python = folder / "bin" / "python"
    ready = folder / "ready"
    constraints = (PROJECT / "constraints.txt").read_text(encoding="utf-8")
    wanted = _SPARKS_OWN.sub("", constraints)
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return python
    print(f"Making .venv-versions/{version} (a few minutes).", file=sys.stderr, flush=True)
    subprocess.check_call([sys.executable, "-m", "venv", "--clear", str(folder)])
    pins = folder / "constraints.txt"
    pins.write_text(wanted, encoding="utf-8")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-input"]
    packages = [f"pyspark[connect]~={version}.0", "pytest", "hypothesis"]
    command = [*pip, "-c", str(pins), "-e", ".[spark]", *packages]
    subprocess.check_call(command, cwd=PROJECT, stdout=sys.stderr)
    ready.write_text(wanted, encoding="utf-8")
    return python


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


def main(what: str, *named: str) -> None:
    """Print the Python of a version, or run the suite on the versions that are named, or on all."""
    versions = named or VERSIONS
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown:
        sys.exit(f"versions of Spark are {', '.join(VERSIONS)}, not {', '.join(unknown)}")
    if what == "environment":
        print(environment(*versions))
        return
    failed = []
    for version in versions:
        python = environment(version)
        failed += [f"{version} {mode}" for mode in MODES if not passes(python, version, mode)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    if sys.argv[1:2] != ["test"] and (sys.argv[1:2] != ["environment"] or len(sys.argv) != 3):
        sys.exit("usage: spark_versions.py environment VERSION | test [VERSION…]")
    main(*sys.argv[1:])
