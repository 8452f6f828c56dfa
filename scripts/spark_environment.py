"""Make the environment of a version of Spark in `.venv-versions`, and print its Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

VERSIONS = ("4.1", "4.2", "4.3")
PROJECT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = PROJECT / ".venv-versions"
#: What differs from one version of Spark to the next; all else is as in constraints.txt.
_SPARKS_OWN = re.compile(r"^(pyspark|py4j)==.*\n", re.MULTILINE)


def checked(versions: list[str]) -> list[str]:
    """Return the versions, or end with an error that names the unknown ones."""
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown:
        sys.exit(f"versions of Spark are {', '.join(VERSIONS)}, not {', '.join(unknown)}")
    return versions


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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: spark_environment.py VERSION")
    [chosen] = checked(sys.argv[1:])
    print(environment(chosen))
