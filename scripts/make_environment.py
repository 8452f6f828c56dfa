"""Make the virtual environment `.venv` with the Python that runs this, and install the project.

Runs under any Python 3, also one that is too old for the project, to be able to say so.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST, NEWEST = (3, 10), (3, 14)
PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
PYTHON = VENV / "bin" / "python"


def say(text: str) -> None:
    """Tell the user on standard error what is happening."""
    print(text, file=sys.stderr, flush=True)


def can_make_environments() -> bool:
    """Return whether this Python has venv and ensurepip, which Debian packages separately."""
    importlib.invalidate_caches()
    return all(importlib.util.find_spec(module) for module in ("venv", "ensurepip"))


def install_venv_package() -> None:
    """Install what Debian leaves out of its Python, or say what to install and exit."""
    package = "python{}.{}-venv".format(*sys.version_info)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"Installing {package}, which this Python needs to make a virtual environment.")
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        install = ["install", "-y", "--no-install-recommends", package]
        for arguments in (["update"], install):
            subprocess.call(["apt-get", "-qq", *arguments], env=environment, stdout=sys.stderr)
    if not can_make_environments():
        say(f"{sys.executable} cannot make a virtual environment: install the package {package}.")
        sys.exit(2)


def environment_fits() -> bool:
    """Return whether there is a `.venv` of the same Python version."""
    program = f"import sys, pip; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    return PYTHON.exists() and subprocess.call([str(PYTHON), "-c", program]) == 0


def main() -> None:
    """Make the environment, or reuse the one that fits, and install into it."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        say(
            "skewless needs Python {}.{} to {}.{}, and {} is {}.{}; "
            "choose another with `make PYTHON=python3.12 ...`.".format(
                *OLDEST, *NEWEST, sys.executable, *sys.version_info[:2]
            )
        )
        sys.exit(2)
    if not environment_fits():
        if not can_make_environments():
            install_venv_package()
        say("Making .venv with Python {}.{}.".format(*sys.version_info))
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", str(VENV)])
    say("Installing skewless and its tools into .venv (a few minutes the first time).")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-input"]
    # Python compiles what is imported, when it is imported; pip would compile everything first.
    command = [*pip, "--no-compile", "-c", "constraints.txt", "-e", ".[dev]"]
    sys.exit(subprocess.call(command, cwd=str(PROJECT)))


if __name__ == "__main__":
    main()
