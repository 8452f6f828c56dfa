import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skewless import _jit
from skewless.kernels.hashing import mix

pytestmark = pytest.mark.skipif(_jit.JIT_OFF, reason="compilation is off")

PROGRAM = """
import numpy as np
from skewless.strategies import w_choices
strategy = w_choices.WChoices()
out = np.full(1000, -1, np.int32)
strategy.route(np.arange(1000, dtype=np.uint64) % 7, strategy.start(8, 1), out)
print(out.sum(), sum(w_choices._route.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_many_processes_may_fill_the_cache_at_once(tmp_path):
    environment = {**os.environ, "SKEWLESS_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = [process.communicate()[0].split() for process in crowd]
    assert {process.returncode for process in crowd} == {0}
    assert len({answer for answer, _ in answers}) == 1
    # One process compiled, the others waited and loaded.
    assert sorted(misses for _, misses in answers) == ["0", "0", "0", "1"]


MODULE = """
from typing import NamedTuple
import numpy as np
from skewless import kernel

class State(NamedTuple):
    loads: np.ndarray

@kernel
def first(state):
    return state.loads[0]
"""


@pytest.mark.slow
def test_a_file_may_be_imported_under_two_names(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "own.py").write_text(MODULE)
    for folder, name in ((tmp_path / "package", "own"), (tmp_path, "package.own")):
        program = f"import numpy as np, {name} as own; print(own.first(own.State(np.arange(3))))"
        assert _printed(program, folder, tmp_path / "cache") == "0\n"


@pytest.mark.slow
def test_a_state_class_may_be_renamed(tmp_path):
    for name in ("State", "Loads"):
        (tmp_path / "own.py").write_text(MODULE.replace("State", name))
        program = f"import numpy as np, own; print(own.first(own.{name}(np.arange(3))))"
        assert _printed(program, tmp_path, tmp_path / "cache") == "0\n"


def _printed(program: str, folder: Path, cache: Path) -> str:
    """Return what a process of its own prints, with its kernels in `cache`."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "SKEWLESS_CACHE_DIR": str(cache)},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout


def test_the_cache_folder_follows_the_sources(monkeypatch, tmp_path):
    monkeypatch.setenv("SKEWLESS_CACHE_DIR", str(tmp_path))
    _jit.cache_folder.cache_clear()
    try:
        first = _jit.cache_folder()
        assert first.parent == tmp_path
        _jit.cache_folder.cache_clear()
        monkeypatch.setattr(_jit, "__file__", str(_copied_package(tmp_path) / "_jit.py"))
        assert _jit.cache_folder() != first
    finally:
        _jit.cache_folder.cache_clear()


def _copied_package(folder: Path) -> Path:
    package = folder / "package"
    package.mkdir()
    (package / "one.py").write_text("@kernel\ndef one(): ...\n")
    return package


def test_no_folder_that_can_be_written_is_said_clearly(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SKEWLESS_CACHE_DIR", str(blocked))
    _jit.cache_folder.cache_clear()
    try:
        with pytest.raises(OSError, match="Set SKEWLESS_CACHE_DIR to a folder that can"):
            _jit.cache_folder()
    finally:
        _jit.cache_folder.cache_clear()


def test_a_kernel_that_allocates_is_refused():
    @_jit.kernel
    def allocates(n):
        return np.zeros(n)

    with pytest.raises(Exception, match=r"NRT|allocat|returning"):
        allocates(3)


def test_compiled_and_plain_agree():
    with np.errstate(over="ignore"):
        for x in (0, 1, 2**63, 2**64 - 1):
            assert int(mix(np.uint64(x))) == int(mix.py_func(np.uint64(x)))
