"""Kernels that `skewless compile` made work in another folder, even if it is read-only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import refused
from skewless.plumbing.compiling import JIT_OFF
from skewless.plumbing.private_files import private_folder, read_only

pytestmark = pytest.mark.skipif(JIT_OFF, reason="compilation is off")

#: Prints how many kernels were compiled and loaded; it works with a copy of the sources.
PROGRAM = """
import numpy as np
from numba.core.event import install_recorder
with install_recorder("numba:compile") as compiled:
    from skewless.strategies import d_choices
    from skewless.keys import hash_keys
    strategy = d_choices.WChoices()
    out = np.empty(1000, np.int32)
    strategy.route(hash_keys(np.arange(1000)), strategy.start(8, 1), out)
stats = d_choices._route_w.stats
print(len(compiled.buffer), sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
print(d_choices.__file__)
"""


def _run(cache: Path, *command: str, **settings: str) -> str:
    environment = {**os.environ, "SKEWLESS_CACHE_DIR": str(cache), "NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, *command],
        env=environment | settings,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["host", "generic"])
def test_compiled_kernels_may_be_moved_with_their_source_and_need_no_writing(tmp_path, cpu):
    command = ("compile", str(tmp_path / "made"), "--strategy", "w-choices", "--cpu", cpu)
    said = _run(tmp_path / "unused", "-m", "skewless", *command)
    assert f"To use it: SKEWLESS_CACHE_DIR={tmp_path / 'made'}" in said
    moved = Path(shutil.move(tmp_path / "made", tmp_path / "moved"))
    for path in sorted(moved.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(moved.rglob("*"))
    sources = tmp_path / "elsewhere" / "skewless"
    shutil.copytree(Path(__file__).parents[2] / "src" / "skewless", sources)  # with new times
    settings = {"NUMBA_CPU_NAME": "generic"} if cpu == "generic" else {}
    numbers, file = _run(
        moved, "-c", PROGRAM, PYTHONPATH=str(sources.parent), **settings
    ).splitlines()
    assert numbers == "0 0 1"
    assert Path(file).is_relative_to(sources)
    assert sorted(moved.rglob("*")) == before


def test_another_cpu_than_host_or_generic_is_refused(tmp_path):
    assert "--cpu must be host or generic" in refused("compile", str(tmp_path), "--cpu", "z80")


def test_nothing_is_compiled_into_a_read_only_folder(tmp_path):
    """It would be compiled into the user's cache, and the folder would still lack it."""
    packed = tmp_path / "packed"
    (packed / "kernels").mkdir(parents=True)
    for folder in (packed / "kernels", packed):
        folder.chmod(0o555)
        assert f"{folder} is read-only" in refused("compile", str(packed), "--strategy", "hash")
        folder.chmod(0o755)


def test_a_folder_that_others_write_to_is_refused_in_one_line(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    command = [sys.executable, "-m", "skewless", "compile", str(shared / "own")]
    done = subprocess.run(command, check=False, text=True, capture_output=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"chmod go-w {shared}" in done.stderr


def test_a_read_only_folder_is_taken_unless_others_could_have_written_a_file(tmp_path):
    folder = private_folder(tmp_path / "packed")
    (folder / "one.nbi").write_bytes(b"")
    (folder / "one.nbi").chmod(0o444)
    folder.chmod(0o555)
    assert read_only(folder)
    assert private_folder(folder) == folder
    assert folder.stat().st_mode & 0o777 == 0o555
    (folder / "one.nbi").chmod(0o666)
    with pytest.raises(PermissionError, match=r"one.nbi belongs to .* mode 0666"):
        private_folder(folder)
