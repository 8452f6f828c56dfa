"""A ring of equal arcs, as lists of cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reference.kernels.hashing import seeded, seeds


def cells_by_worker(n_workers: int) -> list[list[int]]:
    """The cells of each worker; those that it gives up first are last."""
    stacks, n_cells = [list(range(256))], 256
    while len(stacks) < n_workers:
        n_there = len(stacks)
        if n_cells < (256 if n_there < 256 else 64) * (n_there + 1):
            stacks = [[half for cell in s for half in (2 * cell, 2 * cell + 1)] for s in stacks]
            n_cells *= 2
        left = n_cells - n_cells // (n_there + 1)
        taken = []
        for place, stack in enumerate(stacks):
            keeps = left // n_there + (1 if place < left % n_there else 0)
            while len(stack) > keeps:
                taken.append(stack.pop())
        stacks.append(taken)
    return stacks


def cell_owners(capacities: Sequence[float]) -> list[int]:
    stacks = cells_by_worker(len(capacities))
    n_cells = sum(len(stack) for stack in stacks)
    if len(set(capacities)) > 1:
        wanted = apportioned(capacities, n_cells)
        given = sorted(cell for s, n in zip(stacks, wanted, strict=True) for cell in sorted(s)[n:])
        stacks = [sorted(s)[:n] for s, n in zip(stacks, wanted, strict=True)]
        for stack, n in zip(stacks, wanted, strict=True):
            while len(stack) < n:
                stack.append(given.pop(0))
    owners = [-1] * n_cells
    for worker, stack in enumerate(stacks):
        for cell in stack:
            owners[cell] = worker
    return owners


def apportioned(capacities: Sequence[float], n_cells: int) -> list[int]:
    """One cell for each worker, and the others by capacity, by the largest remainders."""
    n_others = n_cells - len(capacities)
    speeds = [capacity / max(capacities) for capacity in capacities]
    shares = [n_others * (speed / sum(speeds)) for speed in speeds]
    wanted = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda w: wanted[w] - shares[w])
    for worker in by_remainder[: n_others - sum(wanted)]:
        wanted[worker] += 1
    return [1 + n for n in wanted]


def route(
    keys: Iterable[int], n_workers: int, seed: int, capacities: Sequence[float] | None = None
) -> list[int]:
    owners = cell_owners(capacities or [1.0] * n_workers)
    (for_keys,) = seeds(seed, 1)
    return [owners[seeded(int(key), for_keys) * len(owners) >> 64] for key in keys]
