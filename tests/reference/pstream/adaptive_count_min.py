"""The adaptive count-min sketch as written down: one loudness per slot, cells in a dictionary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction


class AdaptiveCountMinReference:
    """`columns(key, slot)` names the cells of a key in a slot, one per row."""

    def __init__(
        self, columns: Callable[[int, int], list[int]], growth: Fraction, slot: int, n_slots: int
    ) -> None:
        self.columns, self.growth, self.slot_length, self.n_slots = columns, growth, slot, n_slots
        self.cells: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
        self.keys: list[int] = []

    def slot(self) -> int:
        return max(0, len(self.keys) - 1) // self.slot_length

    def add(self, key: int) -> None:
        self.keys.append(key)
        for row, column in enumerate(self.columns(key, self.slot())):
            self.cells[row, column] += self.growth ** self.slot()

    def last_slots(self) -> range:
        return range(max(0, self.slot() - self.n_slots + 1), self.slot() + 1)

    def estimate(self, key: int) -> Fraction:
        return sum(
            (
                min(self.cells[row, c] for row, c in enumerate(self.columns(key, slot)))
                / self.growth**slot
                for slot in self.last_slots()
            ),
            Fraction(0),
        )

    def recent(self) -> list[int]:
        """The records of the last slots."""
        return self.keys[self.last_slots()[0] * self.slot_length :]
