"""What must be true of strategies that merge, rescale or rebalance."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Keys, Workers
from skewless.checks.routing import expect_same, routed
from skewless.checks.streams import Stream
from skewless.state import copy_state, named_arrays
from skewless.strategy import AnyStrategy, Report


def _owners(strategy: AnyStrategy, keys: Keys, state: Any) -> Workers:
    """Return where keys would go next, without the state learning from it."""
    return routed(strategy, keys, copy_state(state))


def merging_is_sound(strategy: Any, stream: Stream) -> None:
    """The states of several sources become one that routes, in any order, and none is changed."""
    n_sources = 3
    states = []
    for source in range(n_sources):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        routed(strategy, np.ascontiguousarray(stream.keys[source::n_sources]), state)
        states.append(state)
    before = [copy_state(state) for state in states]
    merged = strategy.merge(states)
    for state, copy in zip(states, before, strict=True):
        for (name, now), (_, then) in zip(named_arrays(state), named_arrays(copy), strict=True):
            assert np.array_equal(now, then, equal_nan=now.dtype.kind == "f"), (
                f"merge changes {name} of a state that it was given"
            )
    out = _owners(strategy, stream.keys, merged)
    assert ((out >= 0) & (out < stream.n_workers)).all(), "the merged state routes out of range"
    backwards = _owners(strategy, stream.keys, strategy.merge(states[::-1]))
    expect_same(backwards, out, "merging in another order")


def rescaled_routing_stays_in_range(strategy: Any, stream: Stream) -> None:
    """After workers joined, left or changed speed, only workers that exist get records."""
    for n_workers in (stream.n_workers + 3, max(1, stream.n_workers // 2), stream.n_workers):
        state = strategy.start(stream.n_workers, stream.seed)
        routed(strategy, stream.keys, state)
        capacities = 1.0 + np.arange(n_workers) % 2
        for speeds in (None, capacities):
            rescaled = strategy.rescale(copy_state(state), n_workers, speeds)
            out = routed(strategy, stream.keys, rescaled)
            assert ((out >= 0) & (out < n_workers)).all(), (
                f"from {stream.n_workers} to {n_workers} workers: routes out of range"
            )


def rescaling_moves_only_what_it_must(strategy: Any, stream: Stream) -> None:
    """Workers that join only receive keys; workers that leave only give theirs."""
    keys = np.unique(stream.keys)
    state = strategy.start(stream.n_workers, stream.seed)
    routed(strategy, stream.keys, state)
    before = _owners(strategy, keys, state)
    for n_workers in (stream.n_workers + 1, max(1, stream.n_workers - 1)):
        after = _owners(strategy, keys, strategy.rescale(copy_state(state), n_workers))
        moved = before != after
        allowed = (after >= stream.n_workers) | (before >= n_workers)
        assert not (moved & ~allowed).any(), (
            f"{int((moved & ~allowed).sum())} keys move between workers that stay "
            f"({stream.n_workers} to {n_workers} workers)"
        )


def moves_are_complete_and_true(strategy: Any, stream: Stream) -> None:
    """`Moves` names every key that changes worker, once, with where it was and where it goes."""
    state = strategy.start(stream.n_workers, stream.seed)
    for keys in np.array_split(stream.keys, 3):
        routed(strategy, np.ascontiguousarray(keys), state)
        known, counts = np.unique(keys, return_counts=True)
        report = Report(known, counts.astype(np.float64), counts.astype(np.float64))
        before = _owners(strategy, known, state)
        state, moves = strategy.rebalance(report, state)
        after = _owners(strategy, known, state)
        assert np.unique(moves.keys).size == moves.keys.size, "a key moves twice"
        places = np.searchsorted(known, moves.keys)
        assert np.isin(moves.keys, known).all(), "a key moves that the report does not name"
        expected = before.copy()
        assert np.array_equal(before[places], moves.origins), "a move begins where the key is not"
        expected[places] = moves.targets
        expect_same(after, expected, "after the moves, a key is elsewhere")
        assert (moves.origins != moves.targets).all(), "a key moves to where it is"
