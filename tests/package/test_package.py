"""The wheel and the source archive: they build, hold the same, and install where nothing is."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import skewless

pytestmark = [pytest.mark.package, pytest.mark.slow]

PROJECT = Path(__file__).parent.parent.parent
_BUILD = """
import sys
from setuptools import build_meta
target, *builds = sys.argv[1:]  # setuptools changes the arguments
for build in builds:
    getattr(build_meta, build)(target)
"""


def pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    # A path of the caller's would make packages of his look installed.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.check_call([*command, "--no-input", *arguments], env=own)


def copy_sources(target: Path) -> Path:
    """Copy the files that git tracks: building leaves folders behind."""
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=PROJECT, text=True)
    for name in filter(None, names.split("\0")):
        if name.startswith("src/") or "/" not in name:
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((PROJECT / name).read_bytes())
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheel, the source archive, and the wheel that is built from that archive."""
    folder = tmp_path_factory.mktemp("built")
    venv.create(folder / "builder", with_pip=True, symlinks=True)
    python = folder / "builder" / "bin" / "python"
    pip(python, "setuptools>=77")
    sources = copy_sources(folder / "sources")

    def build(where: Path, target: Path, *builds: str) -> None:
        target.mkdir()
        command = [str(python), "-c", _BUILD, str(target), *builds]
        subprocess.run(command, cwd=where, check=True, capture_output=True)

    build(sources, folder / "dist", "build_wheel", "build_sdist")
    (archive,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    build(unpacked, folder / "again", "build_wheel")
    (wheel,) = (folder / "dist").glob("*.whl")
    (again,) = (folder / "again").glob("*.whl")
    if "SKEWLESS_DIST" in os.environ:
        shutil.copytree(folder / "dist", os.environ["SKEWLESS_DIST"], dirs_exist_ok=True)
    return {"wheel": wheel, "archive": archive, "again": again}


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    names = set(contents(built["wheel"]))
    top = {name.split("/")[0] for name in names}
    assert top == {"skewless", f"skewless-{skewless.__version__}.dist-info"}
    sources = {
        path.relative_to(PROJECT / "src").as_posix()
        for path in (PROJECT / "src" / "skewless").rglob("*.*")
        if path.suffix in (".py", ".css", ".html", ".js")
    }
    assert sources <= names
    assert "skewless/py.typed" in names


def test_the_source_archive_builds_the_same_wheel(built: dict[str, Path]) -> None:
    assert contents(built["again"]) == contents(built["wheel"])


def test_the_wheel_installs_and_runs_in_an_empty_environment(
    built: dict[str, Path], tmp_path: Path
) -> None:
    venv.create(tmp_path / "empty", with_pip=True, symlinks=True)
    programs = tmp_path / "empty" / "bin"
    pip(programs / "python", "-c", str(PROJECT / "constraints.txt"), str(built["wheel"]))

    def said(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(programs / "skewless"), *arguments],
            cwd=tmp_path,
            env={"PATH": str(programs), "SKEWLESS_CACHE_DIR": str(tmp_path / "kernels")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert said("--version").strip() == f"skewless {skewless.__version__}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "simulate" in said("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.8
    assert "cascade" in said("strategies")
    simulated = said("simulate", "--strategy", "hash", "--zipf", "1.2", "--records", "1e4")
    assert "hash" in simulated
    # Without the extras, one line says what to install.
    refused = said("run", "wordcount", "--generate", "100", code=2)
    assert refused.strip().splitlines() == [
        "skewless: this needs PySpark (pyspark is missing): install skewless with its extra 'spark'"
    ]
