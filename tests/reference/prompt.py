"""Prompt's partitioner: fragments are put into blocks one by one, in plain lists."""

from __future__ import annotations

from collections import Counter

from reference.kernels.hashing import seeded, seeds


def ceiling(a: int, b: int) -> int:
    return -(-a // b)


def route_batch(keys: list[int], n_workers: int, seed: int) -> list[int]:
    if not keys:
        return []
    (own_seed,) = seeds(seed, 1)
    counts = Counter(keys)
    by_frequency = sorted(counts, key=lambda key: (-counts[key], seeded(key, own_seed)))
    block_size = ceiling(len(keys), n_workers)
    cut = ceiling(len(keys), len(counts))
    blocks = [0] * n_workers
    workers_of: dict[int, list[int]] = {key: [] for key in counts}  # one worker per record

    def place(key: int, worker: int, n_records: int) -> None:
        workers_of[key] += [worker] * n_records
        blocks[worker] += n_records

    heavy = [key for key in by_frequency if counts[key] > cut]
    for i, key in enumerate(heavy):
        place(key, i % n_workers, cut)

    # To and fro: the first lap may be one that round robin has begun.
    forth = list(range(n_workers))
    back = forth[::-1]
    laps = [forth[len(heavy) % n_workers :]]
    light = by_frequency[len(heavy) :]
    while sum(map(len, laps)) < len(light):
        laps.append(back if len(laps) % 2 == 1 else forth)
    order = [worker for lap in laps for worker in lap]
    for key, worker in zip(light, order, strict=False):
        place(key, worker, counts[key])

    for key in heavy:
        rest = counts[key] - cut
        home = workers_of[key][0]
        while rest:
            room = [block_size - block for block in blocks]
            fitting = [worker for worker in range(n_workers) if room[worker] >= rest]
            if home in fitting:
                place(key, home, rest)
                break
            if fitting:
                place(key, min(fitting, key=lambda worker: room[worker]), rest)
                break
            emptiest = blocks.index(min(blocks))
            place(key, emptiest, room[emptiest])
            rest -= room[emptiest]

    turns = {key: iter(workers) for key, workers in workers_of.items()}
    return [next(turns[key]) for key in keys]
