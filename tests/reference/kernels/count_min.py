"""What a count-min sketch with given columns per key must say: dictionaries of cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable


class CountMinReference:
    """`columns(key)` lists the key's column in each row; the rest is the definition."""

    def __init__(self, columns: Callable[[int], list[int]], conservative: bool) -> None:
        self.columns = columns
        self.conservative = conservative
        self.cells: defaultdict[tuple[int, int], float] = defaultdict(float)

    def estimate(self, key: int) -> float:
        return min(self.cells[cell] for cell in enumerate(self.columns(key)))

    def add(self, key: int, weight: float) -> float:
        lifted = self.estimate(key) + weight
        for cell in enumerate(self.columns(key)):
            if self.conservative:
                self.cells[cell] = max(self.cells[cell], lifted)
            else:
                self.cells[cell] += weight
        return self.estimate(key)
