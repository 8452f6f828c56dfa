"""Print the JAVA_HOME of a Java that Spark can run on; fetch one where there is none.

Looks at JAVA_HOME, PATH, the system's folders of Java installations and the project's own `.java`
folder, in this order. Where none serves, tries Debian's packages (as root), then the package
`install-jdk`, which unpacks a Java into `.java`. Only the answer goes to standard output.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

OLDEST = 17
PROJECT = Path(__file__).resolve().parent.parent
SYSTEM_FOLDERS = [Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines")]
DEBIAN_PACKAGES = ["openjdk-17-jre-headless", "default-jre-headless"]
#: Spark's launcher demands it, and some cut-down runtimes lack it.
MODULE = "jdk.incubator.vector"
#: Put before a program given to `python -c`: an error is its message, not a stack.
_ONE_LINE_ERRORS = "import sys; sys.excepthook = lambda kind, e, at: print(e, file=sys.stderr)"
NOT_FOUND = (
    f"No Java {OLDEST} or later was found: install one (on Debian and Ubuntu: "
    "`apt install default-jre-headless`), or set JAVA_HOME to it."
)


class Java(NamedTuple):
    """One Java installation."""

    version: int
    home: Path


def major_version(text: str) -> int | None:
    """Return the major version that `java -version` names in `text`, or None.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_402"')
    8
    """
    found = re.search(r'^\S+ version "(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found.group(1)) if found else None


def _ask(executable: Path, *arguments: str) -> str | None:
    """Return what `java` says, or None when it does not run."""
    command = [str(executable), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def examine(executable: Path) -> Java | None:
    """Return the Java behind `executable` if Spark can run on it, else None."""
    said = _ask(executable, "-XshowSettings:properties", "-version") or ""
    version = major_version(said)
    if version is None or version < OLDEST:
        return None
    if _ask(executable, f"--add-modules={MODULE}", "-version") is None:
        return None
    # The executable on PATH may be a wrapper that lies elsewhere, so Java's own word comes first.
    named = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    home = Path(named.group(1).strip()) if named else executable.resolve().parent.parent
    return Java(version, home)


def _first(executables: list[Path]) -> Java | None:
    return next(filter(None, map(examine, executables)), None)


def _inside(folder: Path) -> list[Path]:
    """Return the `java` executables of the installations in `folder`, on Linux and on macOS."""
    patterns = ["*/bin/java", "*/Contents/Home/bin/java"]
    return sorted(java for pattern in patterns for java in folder.glob(pattern))


def find(folders: list[Path]) -> Java | None:
    """Return the first Java that serves; inside `folders`, the lowest version.

    The lowest, because Spark is tested longest with it.
    """
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    chosen = [Path(named) / "bin" / "java"] if named else []
    chosen += [Path(on_path)] if on_path else []
    found = _first(chosen)
    if found:
        return found
    for folder in folders:
        inside = [java for java in map(examine, _inside(folder)) if java]
        if inside:
            return min(inside)
    return None


def _run(*command: str) -> bool:
    """Run a command with its output on standard error; return whether it succeeded."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return (
            subprocess.run(command, stdout=sys.stderr, env=environment, check=False).returncode == 0
        )
    except OSError:
        return False


def install_with_apt(folders: list[Path]) -> Java | None:
    """Install Debian's Java, if this is root on a system with apt."""
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    print("No Java found: installing Debian's package.", file=sys.stderr)
    _run("apt-get", "-qq", "update")
    for package in DEBIAN_PACKAGES:
        _run("apt-get", "-qq", "install", "-y", "--no-install-recommends", package)
        found = find(folders)
        if found:
            return found
    return None


def install_with_pip(folders: list[Path]) -> Java | None:
    """Unpack a Java into the project's `.java`, with install-jdk from this virtual environment."""
    if sys.prefix == sys.base_prefix:
        return None  # nothing is installed outside a virtual environment
    print("No Java found: unpacking one into .java with install-jdk.", file=sys.stderr)
    constraints = str(PROJECT / "constraints.txt")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-input", "-c", constraints]
    if not _run(*pip, "install-jdk"):
        return None
    target = PROJECT / ".java"
    target.mkdir(exist_ok=True)
    # The whole JDK: which modules a vendor leaves out of its JRE differs.
    program = f"import sys, jdk; jdk.install('{OLDEST}', path=sys.argv[1])"
    if not _run(sys.executable, "-c", f"{_ONE_LINE_ERRORS}; {program}", str(target)):
        return None
    return find([*folders, target])


def _ways(options: argparse.Namespace) -> Iterator[Callable[[list[Path]], Java | None]]:
    yield find
    if options.apt:
        yield install_with_apt
    if options.install_jdk:
        yield install_with_pip


def main(arguments: list[str] | None = None) -> int:
    """Print JAVA_HOME and return 0, or say what to install and return 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-apt", dest="apt", action="store_false", help="install no package")
    parser.add_argument(
        "--no-install-jdk", dest="install_jdk", action="store_false", help="download no Java"
    )
    parser.add_argument(
        "--folder",
        dest="folders",
        action="append",
        type=Path,
        help="look for installations in this folder instead of the usual ones (repeatable)",
    )
    options = parser.parse_args(arguments)
    folders = options.folders or [*SYSTEM_FOLDERS, PROJECT / ".java"]
    for way in _ways(options):
        java = way(folders)
        if java:
            print(java.home)
            return 0
    print(NOT_FOUND, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
