"""Spark's Python daemon, with the kernels loaded before it forks workers.

Set as `spark.python.daemon.module` (see `skewless.spark.configure`). Spark starts this module once
per executor; every Python worker is a fork of it, so what is loaded here costs a worker nothing.
Kernels that are not compiled yet are compiled beside it, for the workers of later.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skewless.plumbing.new_process import python

#: The process that compiles, if there is one. Python warns of a process that nobody holds.
_BESIDE: list[subprocess.Popen[bytes]] = []


def main() -> None:
    """Load the kernels, then run Spark's daemon."""
    names = os.environ.get("SKEWLESS_WARM", "cascade-ahead,hash,pkg").split(",")
    # Spark reads the daemon's port from standard output: write nothing else there.
    with contextlib.redirect_stdout(sys.stderr):
        _warm([name for name in names if name])
    from pyspark import daemon

    from skewless.plumbing.garbage import spare_what_is_loaded

    spare_what_is_loaded()
    daemon.worker = without_delay(daemon.worker)
    daemon.manager()


def without_delay(worker: Callable[..., int]) -> Callable[..., int]:
    """Return Spark's `worker`, which does one task, without a wait of 40 ms in each.

    Java sends a task in several parts, and holds one back until the part before is acknowledged.
    Linux puts acknowledgements off for 40 ms, unless it is asked anew for each task not to.
    """

    def prompt(sock: socket.socket, *others: Any) -> int:
        quick = getattr(socket, "TCP_QUICKACK", None)
        if quick is not None and sock.family != socket.AF_UNIX:
            with contextlib.suppress(OSError):  # the task is only slower without it
                sock.setsockopt(socket.IPPROTO_TCP, quick, 1)
        return worker(sock, *others)

    return prompt


def _working_folder_last() -> None:
    """Put the working folder last in the path, so that workers still find modules there.

    Python puts the folder first, unless PYTHONSAFEPATH is set. A file `numpy.py` in that folder
    must not replace numpy.
    """
    here = str(Path.cwd())
    if not getattr(sys.flags, "safe_path", False) and sys.path[0] in ("", here):
        del sys.path[0]
    if here not in sys.path:
        sys.path.append(here)


def _warm(names: list[str]) -> None:
    """Load the kernels, or say in one line why not: without them Spark is slower, not broken.

    What is not compiled yet, another process compiles: no function of a user waits for that.
    """
    try:
        from skewless.plumbing.compiling import NotCompiledError, cache_folder, may_compile
        from skewless.spark.warming import warm

        compiling = may_compile.set(False)
        try:
            warm(names)
        except NotCompiledError:
            command = python(f"from skewless.spark.warming import warm; warm({names!r})")
            # Without a home, the folder is that of this process and of its forks.
            there = os.environ | {"SKEWLESS_CACHE_DIR": str(cache_folder().parent)}
            beside = subprocess.Popen(command, env=there, stdin=subprocess.DEVNULL, stdout=2)
            _BESIDE.append(beside)
        finally:
            may_compile.reset(compiling)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        text = f"skewless: kernels were not loaded before the first record ({reason})"
        print(text, file=sys.stderr)


if __name__ == "__main__":
    _working_folder_last()
    main()
