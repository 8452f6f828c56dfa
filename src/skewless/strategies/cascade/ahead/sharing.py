"""What each worker gets of the records that do not stay at home: all are filled up to one level."""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, I64
from skewless.kernels.hashing import mix
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.ahead.state import AheadState
from skewless.strategies.cascade.state import following, slot_of

CLOSE = 1e-6  # average records: anything this small is a rounding error


@kernel
def share_out(state: AheadState, n_keys: I64, rest: F64) -> None:
    """Turn the levels in `shares` into what each worker gets of the rest.

    Shares are whole numbers of average records. The workers that get one more are spread evenly.
    The first of them differs by block and source, so that errors do not add up.
    """
    shares, costs, scale = state.buffers.shares, state.costs, state.numbers[0]["scale"]
    level = _common_level(state, rest)
    worker = _some_worker(state, n_keys)
    carried = 0.0
    for _ in range(shares.size):
        exact = max(0.0, (level - shares[worker]) / costs[worker] / scale)
        whole = np.floor(exact + CLOSE)
        carried += max(0.0, exact - whole)
        if carried >= 1.0 - CLOSE:
            whole += 1.0
            carried -= 1.0
        shares[worker] = whole * scale
        worker = following(worker, 1, shares.size)


@kernel
def _common_level(state: AheadState, rest: F64) -> F64:
    """Return the level up to which the rest fills the workers that are below it."""
    shares, costs = state.buffers.shares, state.costs
    level = np.inf
    n_before, n_below = shares.size + 2, shares.size + 1
    while n_below < n_before:
        n_before, n_below = n_below, 0
        content, capacity = rest, 0.0
        for worker in range(shares.size):
            if shares[worker] < level:
                content += shares[worker] / costs[worker]
                capacity += 1.0 / costs[worker]
                n_below += 1
        if n_below == 0:  # only rounding leads here
            break
        level = content / capacity
    return level


@kernel
def _some_worker(state: AheadState, n_keys: I64) -> I64:
    """Return a pseudo-random worker that depends only on the seed and the keys of the block."""
    bits = state.seed[0]
    for number in range(n_keys):
        bits += state.buffers.hashes[number]
    return slot_of(mix(bits), state.levels.size)
