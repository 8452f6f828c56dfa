"""The one place that compiles: `kernel` turns a plain loop into machine code.

Compilation is paid once per machine. The compiled code of a module goes into a folder whose name
holds a digest of the module and of all that it imports. Without that, numba would look only at the
file of the outermost function, and keep calling an old version of a kernel in another file.

Several processes may need the same kernel at the same moment (Spark starts many Python workers at
once), and filling numba's cache from several processes at once is known to crash. So the process
that compiles first holds a file lock, and the others wait and load.

numba unpickles what it finds in its cache, which can run any code. So the folder is one that no
other user can write to or replace. It may be moved, packed, and read-only (`skewless compile`).
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import caching
from numba.core import config as numba_config
from numba.core import event as numba_event
from numba.core.compiler_lock import global_compiler_lock

from skewless.plumbing.private_files import (
    KERNELS,
    PRIVATE,
    NoFolderForKernels,
    private_folder,
    read_only,
)

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: no advisory locks, so no shared cache either
    fcntl = None  # type: ignore[assignment]


def sources_digest(module: str, file: Path) -> str:
    """Return a digest of the module's text and the text of all modules that it imports.

    Only modules of its package and of this package count, and those beside a module of the user.
    The imports must be done: the modules are looked up among those that are loaded. This module
    counts in any case.
    """
    packages = {module.partition(".")[0], __name__.partition(".")[0]}
    # The folder from which a module of the user was imported.
    depth = module.count(".") + (file.name == "__init__.py")
    beside = None if len(packages) == 1 else file.resolve().parents[depth]
    waiting = {__name__: Path(__file__), module: file}
    digests: dict[str, bytes] = {}
    while waiting:
        name, path = waiting.popitem()
        digests[name], imported = _read(name, path)
        for other in imported:
            found = getattr(sys.modules.get(other), "__file__", None)
            if not found or other in digests:
                continue
            if other.partition(".")[0] in packages or (beside and _is_below(beside, Path(found))):
                waiting[other] = Path(found)
    whole = b"".join(f"{name}\n".encode() + digests[name] for name in sorted(digests))
    return hashlib.sha256(whole).hexdigest()[:16]


def _is_below(folder: Path, file: Path) -> bool:
    """Return whether a file is in the folder, and not installed there (`.venv`)."""
    if {"site-packages", "dist-packages"} & set(file.parts):
        return False
    return file.is_file() and file.resolve().is_relative_to(folder)


#: What each file had when its module was loaded; it may have been edited since.
_TEXTS: dict[Path, bytes] = {}


def _read(module: str, file: Path) -> tuple[bytes, set[str]]:
    """Return a digest of a file, and the names of the modules that it may import."""
    if file not in _TEXTS:
        _TEXTS[file] = file.read_bytes()
    return _parsed(module, file.name, _TEXTS[file])


@functools.cache
def _parsed(module: str, file_name: str, text: bytes) -> tuple[bytes, set[str]]:
    is_package = file_name == "__init__.py"
    names = _import_names(module, is_package, text) if file_name.endswith(".py") else ()
    return hashlib.sha256(text).digest(), set(names)


def _import_names(module: str, is_package: bool, text: bytes) -> Iterator[str]:
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)  # the body never runs: what it names may be loaded or not
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                # A package counts as one of its own parents.
                kept = len(parents) - node.level + is_package
                base = ".".join([*parents[:kept], *filter(None, [node.module])])
            yield base
            # `from package import name` may import a module.
            yield from (f"{base}.{alias.name}" for alias in node.names)


_LOG = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_WHAT_TO_SET = "Set SKEWLESS_CACHE_DIR to a folder that can be written by you alone."
#: True when NUMBA_DISABLE_JIT is set: kernels then run as the plain Python that they are.
JIT_OFF = bool(numba_config.DISABLE_JIT)


@functools.cache
def cache_folder() -> Path:
    """Return the folder of all compiled kernels.

    `SKEWLESS_CACHE_DIR` names its parent; without it, the user's cache folder does. The folder
    belongs to this user and has mode 0700, or it is read-only, and no other user can replace it.
    """
    asked = os.environ.get("SKEWLESS_CACHE_DIR")
    if not asked:
        return _own_folder()
    folder = Path(asked) / KERNELS
    try:
        return private_folder(folder) if read_only(folder) else _writable(folder)
    except OSError as error:
        why = f"SKEWLESS_CACHE_DIR={asked} cannot hold compiled kernels: {error}. {_WHAT_TO_SET}"
        raise NoFolderForKernels(why) from None


@functools.cache
def _own_folder() -> Path:
    """Return the folder of kernels in the user's cache folder.

    Where that cannot be used (a Spark executor without a home), this process gets a new folder and
    compiles again.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return _writable(Path(home).expanduser() / "skewless" / KERNELS)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        _LOG.warning(
            "kernels are compiled for this process alone, because the cache folder cannot be "
            f"used: %s. {_WHAT_TO_SET}",
            error,
        )
    folder = Path(tempfile.mkdtemp(prefix="skewless-"))  # a name that cannot be guessed
    atexit.register(_remove, folder, os.getpid())
    try:
        return _writable(folder / KERNELS)
    except OSError as error:
        why = f"no folder can hold compiled kernels: {error}. {_WHAT_TO_SET}"
        raise NoFolderForKernels(why) from None


def _writable(folder: Path) -> Path:
    """Return the folder, made and checked, or raise OSError."""
    real = private_folder(folder)
    with tempfile.TemporaryFile(dir=real):
        return real


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork, which uses the folder of its parent
        shutil.rmtree(folder, ignore_errors=True)


class _Notice(numba_event.Listener):  # type: ignore[misc]
    """Says once, on standard error, that kernels are being compiled.

    Standard output is for results, and in Spark's daemon for the port.
    """

    def __init__(self) -> None:
        self.ours: set[Any] = set()  # dispatchers; other libraries compile too
        self.is_told = False

    def on_start(self, event: numba_event.Event) -> None:
        if event.data["dispatcher"] in self.ours and not self.is_told:
            self.is_told = True
            text = "skewless: compiling kernels, which later runs on this machine find ready"
            print(text, file=sys.stderr, flush=True)

    def on_end(self, event: numba_event.Event) -> None:
        """Do nothing."""


may_compile = ContextVar("may_compile", default=True)
_NOTICE = _Notice()
numba_event.register("numba:compile", _NOTICE)


@contextlib.contextmanager
def _compiling_alone(path: Path) -> Iterator[None]:
    """Hold the lock of one kernel, across threads and processes.

    The compiler's own thread lock comes first: a thread that holds a file lock and waits for the
    compiler would otherwise block the thread that compiles and waits for the file lock.
    Between processes there is no deadlock, because no kernel calls itself through others.
    Kernels of a read-only folder are only loaded.
    """
    with global_compiler_lock:
        if read_only(path.parent):
            yield
            return
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _folder_of(function: Callable[..., Any]) -> Path:
    """Return the folder for the kernels of a function's module; make it if it is missing.

    numba's cache is by file, and stores types by their names. If a file was imported under another
    name before, or its classes were renamed since, numba would try to import what does not exist.
    So each version of each module has its own folder.
    """
    source = Path(function.__code__.co_filename)
    if "<locals>" not in function.__qualname__:
        _TEXTS.pop(source, None)  # the module is being loaded, perhaps again
    name = f"{function.__module__}-{sources_digest(function.__module__, source)}"
    home = cache_folder()
    if read_only(home) and not (home / name).is_dir():
        home = _own_folder()  # a kernel that was not packed, such as one of the user's
    return private_folder(home / name)


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """Finds compiled code by the digest in its folder's name, wherever folder and source are.

    numba's own locators look at the path of the source, so a cache could not be moved.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._folder, self._py_file = _folder_of(function), file
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return str(self._line)  # functions of one name; the digest fixes their lines


class NotCompiledError(Exception):
    """A kernel is not in the cache, and `may_compile` says that none is to be compiled."""


class _Found(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache; what is damaged is compiled again, and no read-only folder is written to."""

    _impl_class = _Found

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # whatever unpickling and LLVM raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            _LOG.warning("a compiled kernel in %s is damaged (%s)", self.cache_path, reason)
            if not read_only(Path(self.cache_path)):
                self.flush()  # else saving would read the damaged index
        # What goes to a read-only folder, no other process can keep for this one.
        if found is None and not (may_compile.get() or read_only(Path(self.cache_path))):
            raise NotCompiledError(f"{self._name} is not in the cache")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if read_only(Path(self.cache_path)):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:
            why = f"a compiled kernel cannot be written to {self.cache_path}: {error.strerror}"
            raise NoFolderForKernels(why) from None


def kernel(function: F) -> F:
    """Compile `function` on first use, cached on disk, without fastmath and without the GIL.

    A kernel cannot allocate: the caller passes in whatever it fills.

    The result is called like the function it came from, from Python and from other kernels. It
    keeps the pure Python under `.py_func`. With NUMBA_DISABLE_JIT=1 it *is* pure Python, and
    integer overflow, which hashing relies on, stays silent as it is in machine code.
    """
    if JIT_OFF:

        @functools.wraps(function)
        def interpreted(*args: Any) -> Any:
            with np.errstate(over="ignore"):
                return function(*args)

        return interpreted  # type: ignore[return-value]

    # Without numba's reference counting: a kernel owns no array, and counting the references to a
    # state's arrays at each call would cost many times the work itself. It also makes the
    # compiler refuse a kernel that allocates.
    dispatcher = numba.njit(nogil=True, _nrt=False, forceinline=True)(function)
    # A function of a notebook or of a prompt has no text that could tell it from its next version.
    if fcntl is None or not Path(function.__code__.co_filename).is_file():
        return dispatcher  # type: ignore[no-any-return]

    dispatcher._cache = _Cache(function)
    compile_signature = dispatcher.compile
    name = function.__qualname__.replace("<locals>", "_")
    lock = Path(dispatcher._cache.cache_path) / f"{name}.lock"

    def compile_alone(signature: Any) -> Any:
        with _compiling_alone(lock):
            return compile_signature(signature)

    dispatcher.compile = compile_alone
    _NOTICE.ours.add(dispatcher)
    return dispatcher  # type: ignore[no-any-return]
