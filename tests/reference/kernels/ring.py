"""A consistent-hash ring as a sorted list of (position, worker) and `bisect`."""

from __future__ import annotations

from bisect import bisect_left

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(seed: int, counter: int) -> int:
    return mix((seed + mix((counter * GOLDEN + GOLDEN) & MASK)) & MASK)


class ReferenceRing:
    """`n_points[w]` points for worker w; `seed` is the 64-bit seed of the positions."""

    def __init__(self, n_points: list[int], seed: int) -> None:
        self.n_workers = len(n_points)
        self.points = sorted(
            (draw(draw(seed, worker), j), worker)
            for worker, n in enumerate(n_points)
            for j in range(n)
        )

    def owner(self, hashed: int) -> int:
        return self.candidates(hashed, 1)[0]

    def candidates(self, hashed: int, n: int) -> list[int]:
        start = bisect_left(self.points, (hashed, -1))
        found: list[int] = []
        for i in range(len(self.points)):
            worker = self.points[(start + i) % len(self.points)][1]
            if worker not in found and len(found) < n:
                found.append(worker)
        return found

    def shares(self) -> list[float]:
        """The part of the hash space that each worker owns, exactly."""
        owned = [0] * self.n_workers
        before = self.points[-1][0] - 2**64
        for position, worker in self.points:
            owned[worker] += position - before
            before = position
        return [arcs / 2**64 for arcs in owned]
