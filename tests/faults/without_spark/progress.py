"""Test support: a checkpoint with the output of its sink, and a query between two starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Progress:
    """A checkpoint, and what its sink has: both are copied and restored together.

    Parameters
    ----------
    offsets
        Where each micro-batch ends in the stream. The last one may not be committed yet.
    stamps
        The stamp of each micro-batch, which no other has.
    commits
        How many micro-batches are committed.
    sink
        The rows of each micro-batch; None: the sink did not evaluate the micro-batch.
    """

    offsets: tuple[int, ...] = ()
    stamps: tuple[int, ...] = ()
    commits: int = 0
    sink: tuple[Any, ...] = ()

    def cut(self, batch: int) -> slice:
        """Return the part of the stream that a micro-batch has."""
        return slice(self.offsets[batch - 1] if batch else 0, self.offsets[batch])

    def with_rows(self, batch: int, rows: Any) -> Progress:
        """Return the same after the sink has got the rows of a micro-batch."""
        return replace(self, sink=(*self.sink[:batch], rows))

    def back_to(self, batch: int) -> Progress:
        """Return a checkpoint without the commit of `batch` and all that is later."""
        kept = batch + 1
        return Progress(self.offsets[:kept], self.stamps[:kept], batch, self.sink[:batch])


@dataclass(frozen=True)
class Run:
    """A query between two starts: its name and its settings."""

    name: str
    settings: dict[str, Any]
