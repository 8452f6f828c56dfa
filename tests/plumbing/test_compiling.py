import errno
import logging
import os
import pickle
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skewless.kernels.hashing import mix
from skewless.plumbing import compiling

pytestmark = pytest.mark.skipif(compiling.JIT_OFF, reason="compilation is off")

PROGRAM = """
import numpy as np
from skewless.strategies import d_choices
strategy = d_choices.WChoices()
out = np.full(1000, -1, np.int32)
strategy.route(np.arange(1000, dtype=np.uint64) % 7, strategy.start(8, 1), out)
print(out.sum(), sum(d_choices._route_w.stats.cache_misses.values()))
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


@pytest.mark.slow
def test_compiling_is_reported_on_standard_error_and_loading_is_not(tmp_path):
    (tmp_path / "own.py").write_text(MODULE)
    program = "import numpy as np, own; print(own.first(own.State(np.arange(3))))"
    environment = {**os.environ, "SKEWLESS_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**environment, "NUMBA_DISABLE_JIT": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    assert [done.stdout for done in said] == ["0\n", "0\n"]
    first, second = (done.stderr.splitlines() for done in said)
    assert len(first) == 1
    assert first[0].startswith("skewless: compiling kernels")
    assert second == []


def test_compiling_is_told_once_and_not_for_other_libraries(capsys):
    notice = compiling._Notice()
    notice.ours.add("ours")
    notice.on_start(SimpleNamespace(data={"dispatcher": "theirs"}))
    assert capsys.readouterr().err == ""
    for _ in range(2):
        notice.on_start(SimpleNamespace(data={"dispatcher": "ours"}))
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("skewless: compiling kernels")


def _printed(program: str, folder: Path, cache: Path) -> str:
    """Run a process of its own, with its kernels in `cache`; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "SKEWLESS_CACHE_DIR": str(cache)},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let the cache folder be looked for anew, by the environment of this test."""
    monkeypatch.delenv("SKEWLESS_CACHE_DIR", raising=False)
    look_anew()
    yield monkeypatch
    look_anew()


def look_anew() -> None:
    compiling.cache_folder.cache_clear()
    compiling._own_folder.cache_clear()


OUTER = """
from {import_}
from skewless.plumbing.compiling import kernel

@kernel
def outer(x):
    return inner(x) + 1
"""


INNER = """
from skewless.plumbing.compiling import kernel

@kernel
def inner(x):
    return x + {added}
"""


@pytest.mark.slow
@pytest.mark.parametrize("import_", ["parts.inner import inner", ".inner import inner"])
def test_a_kernel_follows_the_files_it_imports(tmp_path, import_):
    package = tmp_path / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "outer.py").write_text(OUTER.format(import_=import_))
    program = """
from parts.outer import outer
print(outer(1), sum(outer.stats.cache_misses.values()))
"""
    for added, misses in ((1, 1), (1, 0), (20, 1), (1, 0)):
        inner = "from skewless.plumbing.compiling import kernel\n\n@kernel\ndef inner(x):\n"
        inner += f"    return x + {added}\n"
        (package / "inner.py").write_text(inner)
        (package / "other.py").write_text(f"# not imported: {added}")
        printed = _printed(program, tmp_path, tmp_path / "cache")
        assert printed.split() == [str(added + 2), str(misses)]


@pytest.mark.slow
@pytest.mark.parametrize("other", ["inner", "parts.inner"])
def test_a_script_and_a_module_follow_the_files_beside_them(tmp_path, other):
    (tmp_path / "parts").mkdir()
    inner = tmp_path / f"{other.replace('.', '/')}.py"
    (tmp_path / "outer.py").write_text(OUTER.format(import_=f"{other} import inner"))
    script = tmp_path / "script.py"
    script.write_text((tmp_path / "outer.py").read_text() + "\nprint(outer(1))\n")
    for added in (1000, 2000):
        inner.write_text(INNER.format(added=added))
        runs = (
            "from outer import outer; print(outer(1))",
            f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')",
        )
        for program in runs:
            assert _printed(program, tmp_path, tmp_path / "cache") == f"{added + 2}\n"


@pytest.mark.slow
def test_a_module_that_is_loaded_again_has_new_kernels(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.format(added=1000))
    program = """
import importlib, pathlib, sys
sys.dont_write_bytecode = True
import inner
print(inner.inner(1))
file = pathlib.Path("inner.py")
file.write_text(file.read_text().replace("1000", "2000"))
importlib.reload(inner)
print(inner.inner(1))
"""
    assert _printed(program, tmp_path, tmp_path / "cache").split() == ["1001", "2001"]


@pytest.mark.slow
def test_a_kernel_without_a_file_is_compiled_anew(tmp_path):
    """As in a notebook: bytecode does not tell one constant from another."""
    program = INNER + "\nprint(inner(1))\n"
    cells = (program.format(added=added) for added in (1000, 2000))
    text = "\n".join(f"exec(compile({cell!r}, '<cell>', 'exec'))" for cell in cells)
    assert _printed(text, tmp_path, tmp_path / "cache").split() == ["1001", "2001"]
    for added in (1000, 2000):
        printed = _printed(program.format(added=added), tmp_path, tmp_path / "cache")
        assert printed == f"{added + 1}\n"


def test_no_folder_that_can_be_written_is_said_clearly(fresh, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    fresh.setenv("SKEWLESS_CACHE_DIR", str(blocked))
    with pytest.raises(OSError, match="Set SKEWLESS_CACHE_DIR to a folder that can"):
        compiling.cache_folder()


def test_a_cache_folder_that_others_write_to_is_refused_with_what_to_do(fresh, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    fresh.setenv("SKEWLESS_CACHE_DIR", str(shared / "cache"))
    with pytest.raises(OSError, match=r"SKEWLESS_CACHE_DIR=.*mode 0777.*chmod go-w") as refused:
        compiling.cache_folder()
    assert "\n" not in str(refused.value)


def test_without_a_home_the_folder_is_new_and_private(fresh, tmp_path, caplog):
    """A folder under a name that can be guessed may hold files of another user."""
    name = _without_a_home(fresh, tmp_path)
    planted = tmp_path / "tmp" / f"skewless-{os.getuid()}" / name
    planted.mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        found = compiling.cache_folder()
    assert found.parent.parent == tmp_path / "tmp"
    assert found not in planted.parents
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert "SKEWLESS_CACHE_DIR" in caplog.text
    look_anew()
    assert compiling.cache_folder() != found


def test_a_temporary_folder_that_others_can_rename_is_refused(fresh, tmp_path):
    _without_a_home(fresh, tmp_path)
    (tmp_path / "tmp").chmod(0o777)
    with pytest.raises(OSError, match=r"no folder can hold compiled kernels: .*mode 0777"):
        compiling.cache_folder()


def _without_a_home(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Leave only a folder for temporary files; return the name that kernels would have."""
    monkeypatch.setenv("SKEWLESS_CACHE_DIR", str(folder))
    name = compiling.cache_folder().name
    look_anew()
    monkeypatch.delenv("SKEWLESS_CACHE_DIR")
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    (folder / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    return name


class Planted:
    """Touches a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_kernels_that_another_user_planted_are_not_loaded(tmp_path):
    cache, trace = tmp_path / "cache", tmp_path / "trace"
    program = "import numpy as np; from skewless.kernels.hashing import mix; mix(np.uint64(1))"
    _printed(program, tmp_path, cache)

    def plant() -> None:
        indexes = list(cache.rglob("*.nbi"))
        assert indexes
        for index in indexes:
            # numba reads its version and then the index, which it unpickles.
            with index.open("rb") as file:
                version = pickle.load(file)
            index.write_bytes(pickle.dumps(version) + pickle.dumps(Planted(trace)))

    plant()
    _printed(program, tmp_path, cache)  # to numba it is damaged, so it is compiled again
    assert trace.exists()  # the planted file does run code where it is believed
    trace.unlink()
    plant()
    os.chown(cache / "kernels", 54_321, 54_321)
    with pytest.raises(subprocess.CalledProcessError):
        _printed(program, tmp_path, cache)
    assert not trace.exists()


def test_locks_are_for_this_user_alone_and_follow_no_link(fresh, tmp_path):
    fresh.setenv("SKEWLESS_CACHE_DIR", str(tmp_path))
    lock = compiling.cache_folder() / "one.lock"
    with compiling._compiling_alone(lock):
        pass
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), compiling._compiling_alone(lock):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_kernel_that_allocates_is_refused():
    @compiling.kernel
    def allocates(n):
        return np.zeros(n)

    with pytest.raises(Exception, match=r"NRT|allocat|returning"):
        allocates(3)


def test_compiled_and_plain_agree():
    with np.errstate(over="ignore"):
        for x in (0, 1, 2**63, 2**64 - 1):
            assert int(mix(np.uint64(x))) == int(mix.py_func(np.uint64(x)))


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("writable", [True, False])
def test_a_damaged_file_is_compiled_again(tmp_path, ending, writable):
    (tmp_path / "own.py").write_text(MODULE)
    program = "import numpy as np, own; print(own.first(own.State(np.arange(3))))"
    stats = "; print(sum(own.first.stats.cache_misses.values()))"
    assert _printed(program, tmp_path, tmp_path / "cache") == "0\n"
    (file,) = (tmp_path / "cache").rglob(f"own*/*.{ending}")
    file.write_bytes(file.read_bytes()[:50])
    if not writable:
        for path in (file, file.parent, file.parent.parent):
            path.chmod(0o555 if path.is_dir() else 0o444)
    for misses in (1, 0 if writable else 1):
        printed = _printed(program + stats, tmp_path, tmp_path / "cache")
        assert printed == f"0\n{misses}\n"


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cache = mix._cache
    monkeypatch.setattr(cache, "_save_overload", full)
    monkeypatch.setattr(cache, "_cache_path", str(tmp_path))
    with pytest.raises(OSError, match=f"cannot be written to {tmp_path}: No space left"):
        cache.save_overload(None, None)
