"""What must be true of strategies that move keys: no needless moves, and every move is named."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.checks.routing import expect_same, owners_of
from skewless.checks.streams import Stream
from skewless.state import copy_state
from skewless.strategy import Rebalances, Report


def _windows(stream: Stream) -> list[Report]:
    """Return reports of parts of the stream; state sizes differ from loads."""
    reports = []
    for part in np.array_split(stream.keys, 3):
        keys, counts = np.unique(part, return_counts=True)
        sizes = 1.0 + (keys % np.uint64(5)).astype(np.float64)
        reports.append(Report(keys, counts.astype(np.float64), sizes))
    return reports


def the_same_report_moves_nothing_twice(strategy: Any, stream: Stream) -> None:
    """A plan from an unchanged report equals the present plan: no key moves back and forth."""
    state = strategy.start(stream.n_workers, stream.seed)
    for report in _windows(stream):
        state, _ = strategy.rebalance(report, state)
        again, moves = strategy.rebalance(report, copy_state(state))
        assert moves.keys.size == 0, f"the same report again moves {moves.keys.size} keys"
        expect_same(
            owners_of(strategy, stream.keys, again),
            owners_of(strategy, stream.keys, state),
            "after the same report again",
        )


def _nearly_even(keys: Keys, owners: Workers, tolerance: float, n_workers: int) -> Report:
    """Return a report by which each worker is within the tolerance, some above and some below.

    A worker without a key has its load from keys that the report does not name.
    """
    wanted = np.ones(n_workers)
    half = n_workers // 2
    off = min(0.9 * tolerance, 0.5)
    wanted[:half] += off
    wanted[n_workers - half :] -= off  # as many below as above: the mean stays 1
    n_keys = np.bincount(owners, minlength=n_workers)
    loads: Floats = (wanted / np.maximum(n_keys, 1))[owners]
    rest = np.where(n_keys == 0, wanted, 0.0)
    return Report(keys, loads, np.ones(keys.size), rest)


def loads_within_the_tolerance_move_nothing(strategy: Any, stream: Stream) -> None:
    """While each worker is within `tolerance` of its fair share, keys stay where they are."""
    state = strategy.start(stream.n_workers, stream.seed)
    keys = np.unique(stream.keys)
    for report in _windows(stream):
        owners = owners_of(strategy, keys, state)
        calm = _nearly_even(keys, owners, strategy.tolerance, stream.n_workers)
        same, moves = strategy.rebalance(calm, copy_state(state))
        assert moves.keys.size == 0, f"{moves.keys.size} keys move without need"
        expect_same(owners_of(strategy, keys, same), owners, "after loads within the tolerance")
        state, _ = strategy.rebalance(report, state)


def keys_that_no_report_names_stay_or_are_named(strategy: Any, stream: Stream) -> None:
    """A key changes worker only by a move, even while reports do not name it."""
    every = np.unique(stream.keys)
    state = strategy.start(stream.n_workers, stream.seed)
    for report in _windows(stream):
        expected = owners_of(strategy, every, state)
        state, moves = strategy.rebalance(report, state)
        places = np.searchsorted(every, moves.keys)
        known = every[np.minimum(places, every.size - 1)] == moves.keys
        assert known.all(), "a key moves that was never seen"
        assert np.unique(moves.keys).size == moves.keys.size, "a key moves twice"
        assert np.array_equal(expected[places], moves.origins), "a move begins elsewhere"
        expected[places] = moves.targets
        after = owners_of(strategy, every, state)
        expect_same(after, expected, "a key changes worker and no move names it")


def rescaling_names_its_moves(strategy: Any, stream: Stream) -> None:
    """`rescale_keys` returns the state of `rescale`, and every given key that changes worker."""
    keys = np.unique(stream.keys)
    state = strategy.start(stream.n_workers, stream.seed)
    if isinstance(strategy, Rebalances):
        state, _ = strategy.rebalance(_windows(stream)[0], state)
    before = owners_of(strategy, keys, state)
    for n_workers in (stream.n_workers + 3, max(1, stream.n_workers // 2), stream.n_workers):
        for speeds in (None, 1.0 + np.arange(n_workers) % 2):
            rescaled, moves = strategy.rescale_keys(keys, copy_state(state), n_workers, speeds)
            plain = strategy.rescale(copy_state(state), n_workers, speeds)
            after = owners_of(strategy, keys, rescaled)
            expect_same(after, owners_of(strategy, keys, plain), "by rescale_keys and by rescale")
            changed = before != after
            assert np.array_equal(moves.keys, keys[changed]), "other keys move than it names"
            assert np.array_equal(moves.origins, before[changed]), "a move begins elsewhere"
            assert np.array_equal(moves.targets, after[changed]), "a move ends elsewhere"
