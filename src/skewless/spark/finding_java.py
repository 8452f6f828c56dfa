"""The search for a Java that Spark can run on, which needs no pyspark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

OLDEST = 17
SYSTEM_FOLDERS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))
NOT_FOUND = (
    f"Spark needs Java {OLDEST} or later and none was found: install one (on Debian and Ubuntu: "
    "`apt install default-jre-headless`), or set JAVA_HOME to it"
)


class Java(NamedTuple):
    """One Java installation."""

    version: int
    home: Path


def find_java() -> Path:
    """Return the home of a Java that Spark can use, or say what to install.

    Looks at JAVA_HOME, then for `java` on the PATH, then where systems put their installations.
    """
    java = search(SYSTEM_FOLDERS)
    if java is None:
        raise RuntimeError(NOT_FOUND)
    return java.home


def search(folders: Sequence[Path]) -> Java | None:
    """Return the Java of JAVA_HOME or of the PATH, or else one inside `folders`, or None.

    Of several in one folder, it takes the lowest version that works: Spark was tested longest with
    it.
    """
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    groups = [[Path(named) / "bin" / "java"] if named else [], [Path(on_path)] if on_path else []]
    groups += [  # as Linux and as macOS have it
        [*folder.glob("*/bin/java"), *folder.glob("*/Contents/Home/bin/java")] for folder in folders
    ]
    for group in groups:
        found = [java for java in map(examine, group) if java]
        if found:
            return min(found)
    return None


def examine(executable: Path) -> Java | None:
    """Return the Java behind `executable` if Spark can run on it, else None."""
    said = _ask(executable, "-XshowSettings:properties", "-version") or ""
    version = major_version(said)
    if version is None or version < OLDEST:
        return None
    # Spark's launcher demands this module, and some cut-down runtimes lack it.
    if _ask(executable, "--add-modules=jdk.incubator.vector", "-version") is None:
        return None
    # The executable on PATH may be a wrapper in another folder, so ask Java for its home first.
    named = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    home = Path(named.group(1).strip()) if named else executable.resolve().parent.parent
    return Java(version, home)


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
    command = [str(executable), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None
