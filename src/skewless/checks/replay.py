"""Routing in another process: `python -m skewless.checks.replay` prints what the routing is.

Reads pickled strategies from standard input and prints one digest of their routing per line. Run
it with NUMBA_DISABLE_JIT=1 to see that compilation changes nothing either.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Sequence

from skewless.checks.routing import routed
from skewless.checks.streams import STREAMS
from skewless.checks.weighing import some_weights
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


def digests_elsewhere(strategies: Sequence[AnyStrategy], *, jit: bool) -> list[str]:
    """Return the digests that a new process finds, with compilation on or off."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0" if jit else "1"}
    done = subprocess.run(
        [sys.executable, "-m", "skewless.checks.replay"],
        input=pickle.dumps(list(strategies)),
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode().split()


def _replay(strategies: Iterable[AnyStrategy]) -> None:
    for strategy in strategies:
        print(routing_digest(strategy))


if __name__ == "__main__":
    _replay(pickle.load(sys.stdin.buffer))
