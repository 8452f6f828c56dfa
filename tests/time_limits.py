"""A limit on how long something takes, for what would otherwise not end."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def at_most(seconds: int, otherwise: Callable[[], Any]) -> Iterator[None]:
    """Call `otherwise`, which raises, if the block has not ended by then."""
    before = signal.signal(signal.SIGALRM, lambda *_: otherwise())
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
