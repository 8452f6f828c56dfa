"""A table whose keys come and go."""

import numpy as np
import pytest

from skewless.strategies import MinMig, MinTable, Mixed, Readj
from skewless.strategies.mixed import routing_table
from skewless.strategy import Report


def churning(n_windows, n_keys=600, seed=3):
    """Yield reports of which each has new keys only, with a few heavy ones."""
    rng = np.random.default_rng(seed)
    for window in range(n_windows):
        keys = np.arange(n_keys, dtype=np.uint64) + np.uint64(window * n_keys)
        loads = np.ceil(1_000 * rng.permutation(np.arange(1, n_keys + 1) ** -0.8))
        yield Report(keys, loads, np.ones(n_keys))


def played(strategy, reports, n_workers=8):
    state = strategy.start(n_workers, 1)
    for report in reports:
        before = routing_table.all_entries(state)
        state, moves = strategy.rebalance(report, state)
        yield before, state, moves


def needed_at_a_time():
    """Return the most entries that one report alone needs."""
    forgets = played(Mixed(forget_after=1), churning(8))
    return max(int(state.n_entries[0]) for _, state, _ in forgets)


def test_the_bound_is_kept_though_every_report_has_other_keys():
    needed = needed_at_a_time()
    bound = needed + 5
    sizes = [int(s.n_entries[0]) for _, s, _ in played(Mixed(max_entries=bound), churning(8))]
    assert max(sizes) <= bound
    assert sizes[-1] > needed / 2  # it is used, not emptied


def test_the_entries_that_go_were_named_longest_ago_and_are_named_as_moves():
    strategy = Mixed(max_entries=needed_at_a_time() + 5)
    n_gone = 0
    for before, state, moves in played(strategy, churning(8)):
        after = routing_table.all_entries(state)
        gone = before.part(~np.isin(before.keys, after.keys))
        stay = before.part(np.isin(before.keys, after.keys))
        n_gone += gone.keys.size
        assert gone.named_in.max(initial=0) <= stay.named_in.min(initial=2**62)
        assert np.isin(gone.keys, moves.keys).all()
        places = [int(np.flatnonzero(moves.keys == key)[0]) for key in gone.keys]
        np.testing.assert_array_equal(moves.origins[places], gone.workers)
        np.testing.assert_array_equal(moves.targets[places], routing_table.homes(gone.keys, state))
    assert n_gone > 0


@pytest.mark.parametrize("cls", [Mixed, MinTable, MinMig, Readj])
def test_a_key_that_comes_back_in_time_keeps_its_entry_and_a_later_one_does_not(cls):
    strategy = cls(forget_after=3)
    first, *others = churning(5)
    state, _ = strategy.rebalance(first, strategy.start(8, 1))
    known, workers = routing_table.all_entries(state)[:2]
    assert known.size > 0
    for number, report in enumerate(others):
        state, _ = strategy.rebalance(report, state)
        kept = np.isin(known, routing_table.all_entries(state).keys)
        assert kept.all() if number < 2 else not kept.any()
        expected = workers if number < 2 else routing_table.homes(known, state)
        np.testing.assert_array_equal(routing_table.owners(known, state), expected)


def test_a_report_that_needs_no_plan_is_still_a_sight_of_its_keys():
    strategy = Mixed(forget_after=2)
    first, second, third, fourth = churning(4)
    state, _ = strategy.rebalance(first, strategy.start(8, 1))
    state, _ = strategy.rebalance(second, state)
    known = routing_table.all_entries(state).keys
    known = known[np.isin(known, second.keys)]
    state, moves = strategy.rebalance(second, state)  # the same again: no plan
    assert moves.keys.size == 0
    state, _ = strategy.rebalance(third, state)
    assert np.isin(known, routing_table.all_entries(state).keys).all()
    state, _ = strategy.rebalance(fourth, state)
    assert not np.isin(known, routing_table.all_entries(state).keys).any()


def test_reports_to_remember_are_at_least_one():
    with pytest.raises(ValueError, match="forget_after must be at least 1, or None, not 0"):
        Mixed(forget_after=0)
