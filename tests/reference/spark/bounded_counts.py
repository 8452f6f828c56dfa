"""Counts in a dict that is cut when it is full."""

from __future__ import annotations


class BoundedCountsReference:
    def __init__(self, n_kept: int) -> None:
        self.n_kept = n_kept
        self.counts: dict[int, int] = {}

    def add(self, key: int, amount: int) -> None:
        if amount == 0:
            return
        while key not in self.counts and len(self.counts) == 2 * self.n_kept:
            cut = sorted(self.counts.values(), reverse=True)[self.n_kept]
            self.counts = {k: c - cut for k, c in self.counts.items() if c > cut}
        self.counts[key] = self.counts.get(key, 0) + amount

    def heaviest(self, n_keys: int) -> list[tuple[int, int]]:
        return sorted(self.counts.items(), key=lambda entry: (-entry[1], entry[0]))[:n_keys]
