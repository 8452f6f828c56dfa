"""What the routing is, as a digest; and checks in another process, with compilation on or off."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skewless.checks.routing import STREAMS, routed, some_weights
from skewless.strategy import AnyStrategy, Weighs

_RECORDS = 700  # of each stream: without compilation a record takes a hundred microseconds


def routing_digest(strategy: AnyStrategy, n_records: int | None = _RECORDS) -> str:
    """Return a digest of the workers of the first records of every stream; None: of all records."""
    digest = hashlib.sha256()
    for source, stream in enumerate(STREAMS):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        part = stream._replace(keys=stream.keys[:n_records])
        digest.update(routed(strategy, part.keys, state).tobytes())
        if isinstance(strategy, Weighs):
            digest.update(routed(strategy, part.keys, state, some_weights(part)).tobytes())
    return digest.hexdigest()


def routing_digests(strategies: Sequence[AnyStrategy]) -> list[str]:
    """Return the digest of each strategy; `elsewhere` shows that a process changes nothing."""
    return [routing_digest(strategy) for strategy in strategies]


def elsewhere(task: Callable[..., Iterable[str]], *arguments: Any, jit: bool) -> list[str]:
    """Return the lines that `task` gives in a new process, with compilation on or off."""
    done = subprocess.run(
        [sys.executable, "-m", "skewless.checks"],
        input=pickle.dumps((task, arguments)),
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if jit else "1"},
        stdout=subprocess.PIPE,
        check=False,
    )
    found = done.stdout.decode().splitlines()
    if done.returncode != 0:  # by a signal: it used foreign memory
        found.append(f"the process ended with {done.returncode}")
    return found
