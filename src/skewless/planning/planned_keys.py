"""What a plan has for each key of its table, and how the plan was made."""

from __future__ import annotations

from typing import NamedTuple

from skewless.planning.packing import Piece


class PlannedKey(NamedTuple):
    """A key of the table: its hash with a sign, its load, and the parts of its records.

    `name` is the key as text; None if the keys were counted by their hashes alone.
    """

    hashed: int
    load: float
    pieces: tuple[Piece, ...]
    name: str | None = None

    @property
    def is_split(self) -> bool:
        """Whether more than one worker gets records of the key."""
        return len(self.pieces) > 1

    def __str__(self) -> str:
        """Return the name, or else the hash."""
        return f"hash {self.hashed}" if self.name is None else self.name


class Made(NamedTuple):
    """How a plan was made: what it was asked for, and what was counted."""

    key: tuple[str, ...]  # the names of the key's columns
    types: tuple[str, ...]  # as Spark writes them
    seed: int
    tolerance: float
    untrusted: bool = False
    weight: str | None = None
    per_key: float = 0.0  # load of each key besides that of its records
    counted: str = "exact"  # or "sample"
