"""Print the JAVA_HOME of a Java that Spark can run on; fetch one where there is none.

Looks at JAVA_HOME, PATH, the system's folders of Java installations and the project's own `.java`
folder, in this order. Where none serves, tries Debian's packages (as root), then the package
`install-jdk`, which unpacks a Java into `.java`. Only the answer goes to standard output.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

PROJECT = Path(__file__).resolve().parent.parent


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from skewless.spark import finding_java
else:
    # By its path: importing the package takes seconds, and fails where pyspark is not installed.
    finding_java = _load(PROJECT / "src" / "skewless" / "spark" / "finding_java.py")

Java = finding_java.Java
major_version = finding_java.major_version
search = finding_java.search
DEBIAN_PACKAGES = ["openjdk-17-jre-headless", "default-jre-headless"]
#: Put before a program given to `python -c`: an error is its message, not a stack.
_ONE_LINE_ERRORS = "import sys; sys.excepthook = lambda kind, e, at: print(e, file=sys.stderr)"


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
        found = search(folders)
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
    program = f"import sys, jdk; jdk.install('{finding_java.OLDEST}', path=sys.argv[1])"
    if not _run(sys.executable, "-c", f"{_ONE_LINE_ERRORS}; {program}", str(target)):
        return None
    return search([*folders, target])


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
    folders = options.folders or [*finding_java.SYSTEM_FOLDERS, PROJECT / ".java"]
    ways = {search: True, install_with_apt: options.apt, install_with_pip: options.install_jdk}
    for way, allowed in ways.items():
        java = way(folders) if allowed else None
        if java:
            print(java.home)
            return 0
    print(f"{finding_java.NOT_FOUND}.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
