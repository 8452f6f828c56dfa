"""The outcome of a batch on one worker, and of one call of the processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skewless.arrays import Floats, Ints, Keys


@dataclass(frozen=True, eq=False)
class Worked:
    """The outcome of one batch on one worker.

    The arrays have one number per key that had records or, unless the rows of a key are stored one
    by one, whose state expired.
    """

    results: pa.Table
    changed: pa.Table  # rows of states that are written
    n_held: int  # states that are held, more than before; or rows
    n_bytes: int  # of them, more than before
    hashes: Keys
    keys: list[Any]
    sizes: Ints  # of states, in bytes
    counts: Ints  # records
    work: Ints  # records, or what was done for them if that is more
    costs: Floats
    n_second: Ints  # records of the second stream, if there is one
    seconds: float
    n_rounds: int = 0  # how often in a row states have ended
    latest: int | None = None  # time of a record, in microseconds
    latest_second: int | None = None  # the same for the second stream, if there is one
    n_late: int = 0
    failed: Any = None  # errors of keys, as structs

    @property
    def n_records(self) -> int:
        """How many records were processed."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class Part:
    """The outcome of one call of the processor; `changed` is in the order of the keys."""

    results: pa.Table
    changed: pa.Table
    counts: Ints
    work: Ints
    costs: Floats
    seconds: float = 0.0
    n_second: Ints | None = None  # records of the second stream
    n_rounds: int = 0  # how often in a row states have ended
    failed: Any = None  # errors of keys, as structs
