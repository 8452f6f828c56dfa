"""SpaceSaving as one would say it: a dictionary, and a scan for the smallest entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any


@dataclass
class Entry:
    count: Any
    error: Any
    stamp: int


@dataclass
class SpaceSavingReference:
    """Counts in exact fractions, so that equal is equal; decay multiplies every counter."""

    capacity: int
    number: type = Fraction
    entries: dict[int, Entry] = field(default_factory=dict)
    total: Any = 0
    clock: int = 0

    def offer(self, key: int, weight: float) -> Any:
        self.clock += 1
        self.total += self.number(weight)
        if key not in self.entries:
            smallest = self.number(0)
            if len(self.entries) == self.capacity:
                victim = min(
                    self.entries, key=lambda k: (self.entries[k].count, self.entries[k].stamp)
                )
                smallest = self.entries.pop(victim).count
            self.entries[key] = Entry(smallest, smallest, 0)
        entry = self.entries[key]
        entry.count += self.number(weight)
        entry.stamp = self.clock
        return entry.count

    def decay(self, factor: float) -> None:
        self.total *= self.number(factor)
        for entry in self.entries.values():
            entry.count *= self.number(factor)
            entry.error *= self.number(factor)

    def smallest(self) -> Any:
        """What a key that is not monitored may have had."""
        if len(self.entries) < self.capacity:
            return self.number(0)
        return min(entry.count for entry in self.entries.values())

    def as_dict(self) -> dict[int, tuple[float, float]]:
        return {key: (float(e.count), float(e.error)) for key, e in self.entries.items()}


def merged_reference(
    parts: list[SpaceSavingReference], capacity: int
) -> dict[int, tuple[float, float]]:
    everyone = {key for part in parts for key in part.entries}
    rows = []
    for key in everyone:
        found = [
            part.entries.get(key, Entry(part.smallest(), part.smallest(), 0)) for part in parts
        ]
        rows.append((sum(e.count for e in found), sum(e.error for e in found), key))
    rows.sort(key=lambda row: (-row[0], row[1], row[2]))
    return {key: (float(count), float(error)) for count, error, key in rows[:capacity]}
