"""A cache of fetched files: keeps those used last, up to a limit in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptFiles(Generic[T]):
    """A cache that is bounded by bytes; a file larger than the bound is not kept.

    >>> kept = KeptFiles(most_bytes=10)
    >>> kept.get("a", lambda: ("A", 6)), kept.get("b", lambda: ("B", 6))
    ('A', 'B')
    >>> kept.n_bytes  # "a" had to go
    6
    """

    def __init__(self, most_bytes: int) -> None:
        """Begin with no files."""
        self.most_bytes = most_bytes
        self.n_bytes = 0
        self._files: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, fetch: Callable[[], tuple[T, int]]) -> T:
        """Return the file of this name; `fetch` returns a missing one and its number of bytes."""
        with self._lock:
            if name in self._files:
                self._files.move_to_end(name)
                return self._files[name][0]
        found, n_bytes = fetch()  # without the lock: it may take long
        with self._lock:
            if name not in self._files and n_bytes <= self.most_bytes:
                self._files[name] = found, n_bytes
                self.n_bytes += n_bytes
            while self.n_bytes > self.most_bytes:
                _, (_, gone) = self._files.popitem(last=False)
                self.n_bytes -= gone
        return found

    def clear(self) -> None:
        """Forget all files."""
        with self._lock:
            self._files.clear()
            self.n_bytes = 0
