"""D-Choices: the paper's inequality with forty digits, and a list of candidates per record."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from itertools import islice

from reference.kernels.hashing import candidates, seeded, seeds
from reference.w_choices import HotKeys


def fits(shares: list[float], d: int, n_workers: int, epsilon: float) -> bool:
    """Does every prefix of the hot keys fit the workers that its d candidates per key cover?"""
    with localcontext() as context:
        context.prec = 40
        p = [Decimal(share) for share in shares]
        tail = max(Decimal(0), 1 - sum(p))
        for h in range(1, len(p) + 1):
            b = 1 - (Decimal(n_workers - 1) / n_workers) ** (h * d)
            landing = sum(p[:h]) + b**d * sum(p[h:]) + b**2 * tail
            if landing > b * (1 + n_workers * Decimal(epsilon)):
                return False
        return True


def fewest_choices(shares: list[float], n_workers: int, epsilon: float) -> int:
    """`shares` of the hot keys in any order."""
    if not shares:
        return 2
    shares = sorted(shares, reverse=True)
    d = max(2, math.ceil(shares[0] * n_workers))
    while d < n_workers and not fits(shares, d, n_workers, epsilon):
        d += 1
    return min(d, n_workers)


def refreshes(n_records: int, refresh: int) -> set[int]:
    """The records at which d is computed: 16, then as many again, but at most `refresh` more."""
    moments = []
    moment = 16
    while moment <= n_records:
        moments.append(moment)
        moment += min(moment, refresh)
    return set(moments)


def route(
    keys: Iterable[int],
    n_workers: int,
    seed: int,
    hot_factor: float = 0.2,
    capacity: int | None = None,
    epsilon: float = 1e-4,
    refresh: int = 10_000,
) -> list[int]:
    keys = [int(key) for key in keys]
    (own_seed,) = seeds(seed, 1)
    hot_keys = HotKeys(n_workers, hot_factor, capacity)
    moments = refreshes(len(keys), refresh)
    loads = [0] * n_workers
    d = 2
    out = []
    for number, key in enumerate(keys, start=1):
        is_hot = hot_keys.offer(key)
        if number in moments:
            counts = [float(entry.count) for entry in hot_keys.summary.entries.values()]
            shares = [count / number for count in counts if hot_keys.above(count)]
            d = fewest_choices(shares, n_workers, epsilon)
        if is_hot and d >= n_workers:
            allowed = list(range(n_workers))
        else:
            sequence = candidates(seeded(key, own_seed), n_workers)
            allowed = list(islice(sequence, d if is_hot else 2))
        worker = min(allowed, key=lambda w: loads[w])
        loads[worker] += 1
        out.append(worker)
    return out
