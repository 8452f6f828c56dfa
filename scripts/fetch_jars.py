"""Fetch the jars of a list in `scripts/jars` into `.jars`, and check that they are the ones meant.

Apache Ivy, which comes with PySpark, fetches them from the repository that it knows. Nothing is
resolved: the list names all jars. Files that are there already, and right, are left alone.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

PROJECT = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent / "jars"
TARGET = PROJECT / ".jars"


class Jar(NamedTuple):
    """A line of a list."""

    folder: str
    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where it is put."""
        return TARGET / self.folder / f"{self.name}-{self.version}.jar"

    @property
    def here(self) -> bool:
        """Whether the file is there, and is the one meant."""
        path = self.path
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256


def read_list(name: str) -> list[Jar]:
    """Return the jars of a list."""
    path = LISTS / f"{name}.txt"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in LISTS.glob("*.txt")))
        raise SystemExit(f"there is no list of jars called {name!r}; there are: {known}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Jar(*line.split()) for line in lines if line and not line.startswith("#")]


def ivy_file(jars: list[Jar]) -> str:
    """Write the list for Ivy: each jar by itself, in the configuration of its folder."""
    folders = sorted({jar.folder for jar in jars})
    confs = "".join(f"<conf name={quoteattr(folder)}/>" for folder in folders)
    wanted = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} "
        f'rev={quoteattr(jar.version)} conf="{jar.folder}->master" transitive="false"/>\n'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="skewless" module="jars"/>\n'
        f"<configurations>{confs}</configurations>\n<dependencies>\n{wanted}</dependencies>"
        "</ivy-module>\n"
    )


def fetch(jars: list[Jar], java_home: str) -> int:
    """Run Ivy; return its exit code."""
    import pyspark

    [ivy] = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ivy.xml"
        file.write_text(ivy_file(jars), encoding="utf-8")
        command = [f"{java_home}/bin/java", "-cp", str(ivy), "org.apache.ivy.Main", "-warn"]
        command += ["-cache", str(TARGET / "cache"), "-ivy", str(file)]
        command += ["-retrieve", f"{TARGET}/[conf]/[artifact]-[revision].[ext]"]
        return subprocess.call(command, stdout=sys.stderr)


def main(name: str, java_home: str) -> None:
    """Fetch what is missing, and end with an error if a file is not the one meant."""
    jars = read_list(name)
    missing = [jar for jar in jars if not jar.here]
    if not missing:
        return
    print(f"Fetching {len(missing)} jars into .jars (some minutes).", file=sys.stderr, flush=True)
    for jar in missing:
        jar.path.unlink(missing_ok=True)
    code = fetch(missing, java_home)
    wrong = [jar.path.name for jar in missing if not jar.here]
    if wrong:
        sys.exit(f"these jars are missing or are not the ones listed: {', '.join(wrong)}")
    sys.exit(code)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: fetch_jars.py LIST JAVA_HOME")
    main(*sys.argv[1:])
