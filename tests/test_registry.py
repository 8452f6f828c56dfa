"""Strategies of one's own in the working folder, which must not hide what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skewless import registry

OWN = "from skewless.strategies.hash import Hash\n\nclass Own(Hash):\n    name = 'own'\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the working folder, in which Python does not look by itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("own"):
            del sys.modules[name]


def test_a_strategy_of_the_working_folder_is_found_and_the_path_stays(here: Path) -> None:
    (here / "own_strategies.py").write_text("import own_friend\n" + OWN)
    (here / "own_friend.py").write_text("")
    before = list(sys.path)
    assert registry.make("own_strategies:Own").name == "own"
    assert sys.path == before


def test_a_folder_without_init_is_found(here: Path) -> None:
    (here / "own_folder").mkdir()
    (here / "own_folder" / "inner.py").write_text(OWN)
    assert registry.get("own_folder.inner:Own").name == "own"


def test_the_path_stays_after_an_error(here: Path) -> None:
    (here / "own_broken.py").write_text("import no_such_module_at_all\n")
    before = list(sys.path)
    with pytest.raises(ValueError, match=r"cannot import 'own_broken' .*no_such_module_at_all"):
        registry.get("own_broken:Own")
    assert sys.path == before


def test_files_of_the_working_folder_hide_no_installed_module(tmp_path: Path) -> None:
    """What is imported later, by the strategy or by anybody, is the installed one as well."""
    for name in ("numpy", "json", "colorsys", "wave"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hidden by the working folder')")
    (tmp_path / "own.py").write_text("import numpy, json, colorsys\n" + OWN)
    program = (
        "import sys; sys.path = [p for p in sys.path if p]; from skewless import registry; "
        "print(registry.make('own:Own').name); import wave"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=dict(os.environ, NUMBA_DISABLE_JIT="1", PYTHONSAFEPATH="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("own\n", 0), done.stderr


@pytest.mark.parametrize("name", [":Own", "own:", ".own:Own", "a..b:Own", "own.py:Own:Own"])
def test_what_is_not_a_module_and_a_class_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not module:Class"):
        registry.get(name)
