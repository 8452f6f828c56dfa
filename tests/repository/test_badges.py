"""The badges of the README say what pyproject.toml says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from repository.test_site import script

PROJECT = Path(__file__).parents[2]
BADGES = PROJECT / "docs" / "pictures" / "badges"


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    toml = pytest.importorskip("tomllib", reason="Python 3.10 has none")
    found: dict[str, Any] = toml.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    return found["project"]  # type: ignore[no-any-return]


def badge(name: str) -> str:
    text = (BADGES / f"{name}.svg").read_text(encoding="utf-8")
    title, *shown = re.findall(r"<(?:title|text)[^>]*>([^<]*)<", text)
    assert title == ": ".join(shown)
    return title


def below(bound: str, text: str) -> tuple[str, int]:
    """Return the lowest version of a range, and the last part of the highest one below `bound`."""
    lowest, beyond = re.search(rf">=(\d+\.\d+),<{bound}\.(\d+)", text).groups()  # type: ignore[union-attr]
    return lowest, int(beyond) - 1


def test_the_badge_of_python_has_the_versions_that_install(project: dict[str, Any]) -> None:
    lowest, highest = below("3", project["requires-python"])
    assert badge("python") == f"Python: {lowest} – 3.{highest}"
    named = [one.split()[-1] for one in project["classifiers"] if "Python :: 3." in one]
    assert named == [f"3.{n}" for n in range(int(lowest.split(".")[1]), highest + 1)]
    make = script("make_environment")
    assert [tuple(map(int, lowest.split("."))), (3, highest)] == [make.OLDEST, make.NEWEST]


def test_the_badge_of_pyspark_has_the_versions_that_install(project: dict[str, Any]) -> None:
    (wanted,) = (one for one in project["optional-dependencies"]["spark"] if "pyspark" in one)
    lowest, highest = below("4", wanted)
    assert badge("pyspark") == f"PySpark: {lowest} – 4.{highest}"


def test_the_badge_of_the_licence_has_the_licence(project: dict[str, Any]) -> None:
    assert badge("licence") == f"licence: {project['license']}"
    licence = (PROJECT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0" in licence


def test_the_readme_shows_these_badges_and_fetches_none() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme)
    assert not [one for one in pictures if "://" in one]
    shown = {Path(one).name for one in pictures if "/badges/" in one}
    assert shown == {path.name for path in BADGES.iterdir()}
