"""The loop of Cascade with foresight: count a block, place its keys, then send its records."""

from __future__ import annotations

import numpy as np

from skewless.arrays import I64, Floats, Keys, Workers
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.ahead.counting import count_block, remember
from skewless.strategies.cascade.ahead.placing import place_block
from skewless.strategies.cascade.ahead.state import BLOCK, NO_PIECE, AheadState
from skewless.strategies.cascade.weights import weight_of


@kernel
def _send(weights: Floats | None, state: AheadState, out: Workers, begin: I64, end: I64) -> None:
    """Send records begin … end − 1: those of each key to its pieces, one piece after the other."""
    buffers, levels, costs = state.buffers, state.levels, state.costs
    heads, after, sizes = buffers.heads, buffers.after, buffers.sizes
    for i in range(begin, end):
        weight = weight_of(weights, i)
        # Indices are unsigned: a signed index may be negative, and that costs a test.
        number = np.uint64(buffers.which[i - begin])
        piece = np.uint64(heads[number])
        # A record belongs to a piece if at least half of it fits.
        while sizes[piece] < 0.5 * weight and after[piece] != NO_PIECE:
            piece = np.uint64(after[piece])
            heads[number] = np.int32(piece)
        worker = np.uint64(buffers.workers[piece])
        sizes[piece] -= weight
        levels[worker] += weight * costs[worker]
        out[i] = np.int32(worker)


@kernel
def _route_block(
    keys: Keys, weights: Floats | None, state: AheadState, out: Workers, begin: I64, end: I64
) -> None:
    """Decide records begin … end − 1 together, at most BLOCK of them."""
    n_records = end - begin
    n_keys, total = count_block(keys, weights, state, begin, end)
    if total / n_records > 0.0:  # records may weigh nothing
        state.numbers[0]["scale"] = total / n_records
    remember(state, n_keys, n_records, total)
    place_block(state, n_keys, n_records, total)
    _send(weights, state, out, begin, end)
    state.numbers[0]["weight"] += total
    state.counters[0]["records"] += n_records
    state.counters[0]["blocks"] += 1


@kernel
def route_records(keys: Keys, weights: Floats | None, state: AheadState, out: Workers) -> None:
    """Route the batch in as few blocks of about equal length as possible."""
    n_blocks = (keys.size + BLOCK - 1) // BLOCK
    for block in range(n_blocks):
        begin = keys.size * block // n_blocks
        _route_block(keys, weights, state, out, begin, keys.size * (block + 1) // n_blocks)
