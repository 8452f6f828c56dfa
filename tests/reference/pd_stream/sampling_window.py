"""The last N keys as a list, counted by looking."""

from __future__ import annotations


class SamplingWindowReference:
    def __init__(self, n_records: int) -> None:
        self.n_records = n_records
        self.keys: list[int] = []

    def push(self, key: int) -> int:
        self.keys = [*self.keys, key][-self.n_records :]
        return self.keys.count(key)
