"""Print the JAVA_HOME of a Java that Spark can run on; fetch one where there is none.

Looks at JAVA_HOME, PATH, the system's folders of Java installations and the project's own `.java`
folder, in this order. Where none serves, tries Debian's packages (as root), then the package
`install-jdk`, which unpacks a Java into `.java`. Only the answer goes to standard output.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from skewless.spark.finding_java import NOT_FOUND, OLDEST, SYSTEM_FOLDERS, Java, search

PROJECT = Path(__file__).resolve().parent.parent
DEBIAN_PACKAGES = ["openjdk-17-jre-headless", "default-jre-headless"]
#: Put before a program given to `python -c`: an error is its message, not a stack.
_ONE_LINE_ERRORS = "import sys; sys.excepthook = lambda kind, e, at: print(e, file=sys.stderr)"


def _run(*command: str) -> bool:
    """Run a command with its output on standard error; return whether it succeeded."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.call(command, stdout=sys.stderr, env=environment) == 0
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
    program = f"import sys, jdk; jdk.install('{OLDEST}', path=sys.argv[1])"
    if not _run(sys.executable, "-c", f"{_ONE_LINE_ERRORS}; {program}", str(target)):
        return None
    return search(folders)


def main() -> int:
    """Print JAVA_HOME and return 0, or say what to install and return 2."""
    folders = [*SYSTEM_FOLDERS, PROJECT / ".java"]
    java = search(folders) or install_with_apt(folders) or install_with_pip(folders)
    if java:
        print(java.home)
        return 0
    print(f"{NOT_FOUND}.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
