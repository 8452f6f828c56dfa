"""What a counting Bloom filter approximates: a bag of keys."""

from __future__ import annotations

from collections import Counter


class BagReference:
    def __init__(self) -> None:
        self.copies: Counter[int] = Counter()

    def add(self, key: int) -> None:
        self.copies[key] += 1

    def remove(self, key: int) -> None:
        self.copies[key] -= 1

    def contains(self, key: int) -> bool:
        return self.copies[key] > 0
