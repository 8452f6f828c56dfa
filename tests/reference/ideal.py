"""The wrap-around rule, record by record: fill a worker, then go on with the next."""

from __future__ import annotations

from reference.kernels.hashing import seeded, seeds


def fair_shares(loads: list[int], n_records: int) -> list[int]:
    """Deal out records one by one, each to a least loaded worker; who is ahead stays ahead."""
    total = sum(loads) + n_records
    each = total // len(loads)
    after = [each] * len(loads)
    ahead = sorted(range(len(loads)), key=lambda worker: (-loads[worker], worker))
    for worker in ahead[: total - each * len(loads)]:
        after[worker] += 1
    return [new - old for new, old in zip(after, loads, strict=True)]


def route_batch(keys: list[int], loads: list[int], seed: int) -> list[int]:
    """Route one batch and count it in `loads`."""
    (own_seed,) = seeds(seed, 1)
    room = fair_shares(loads, len(keys))
    out = [-1] * len(keys)
    worker = 0
    for i in sorted(range(len(keys)), key=lambda i: (seeded(keys[i], own_seed), i)):
        while room[worker] == 0:
            worker += 1
        out[i] = worker
        room[worker] -= 1
        loads[worker] += 1
    return out
