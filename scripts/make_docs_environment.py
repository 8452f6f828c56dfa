"""Make `.venv-docs` with what builds the documentation site; the package itself is not installed.

The reference is made from the sources without importing them, so neither Spark nor numba is needed.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv-docs"


def requirements() -> list[str]:
    """Return the extra `docs` of the project."""
    if sys.version_info < (3, 11):  # which has no tomllib
        sys.exit("The documentation needs Python 3.11 or later: `make PYTHON=python3.12 docs`.")
    tomllib = importlib.import_module("tomllib")  # which the types of Python 3.10 do not know

    with (PROJECT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return [str(name) for name in project["optional-dependencies"]["docs"]]


def main() -> None:
    """Make the environment and install into it."""
    wanted = requirements()
    print("Installing what builds the documentation into .venv-docs.", file=sys.stderr, flush=True)
    subprocess.check_call([sys.executable, "-m", "venv", "--clear", str(VENV)])
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    command = [*pip, "-q", "--no-input", "-c", "constraints.txt", *wanted]
    sys.exit(subprocess.call(command, cwd=str(PROJECT)))


if __name__ == "__main__":
    main()
