"""CM and cAM: a set of keys per worker and a list of records per window."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from reference.kernels.hashing import seeded, seeds, two_workers


class Window:
    """What each worker got since the window began."""

    def __init__(self, n_workers: int) -> None:
        self.records: list[list[int]] = [[] for _ in range(n_workers)]

    def keys(self, worker: int) -> int:
        return len(set(self.records[worker]))

    def score(self, worker: int, measure: str) -> Fraction:
        if measure == "keys":
            return Fraction(self.keys(worker))
        if measure == "records":
            return Fraction(len(self.records[worker]))
        everyone = range(len(self.records))
        n_records = sum(len(self.records[w]) for w in everyone)
        n_pairs = sum(self.keys(w) for w in everyone)
        if n_records == 0:
            return Fraction(0)
        # The sum of both, each over its mean; the number of workers cancels out.
        return Fraction(self.keys(worker), n_pairs) + Fraction(len(self.records[worker]), n_records)


def route(
    keys: Iterable[int], n_workers: int, seed: int, affinity: bool, measure: str, window: int
) -> list[int]:
    (own_seed,) = seeds(seed, 1)
    now = Window(n_workers)
    out = []
    for i, key in enumerate(int(key) for key in keys):
        if i % window == 0:
            now = Window(n_workers)
        first, second = two_workers(seeded(key, own_seed), n_workers)
        if affinity and key in now.records[first]:
            worker = first
        elif affinity and key in now.records[second]:
            worker = second
        else:
            # The second of equals, so it stands first.
            worker = min([second, first], key=lambda w: now.score(w, measure))
        now.records[worker].append(key)
        out.append(worker)
    return out
