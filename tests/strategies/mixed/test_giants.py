"""Keys above the limit of every worker, and workers with too little."""

import numpy as np
import pytest

from lanes import needs_a_long_stream
from skewless.strategies import MinMig, MinTable, Mixed
from skewless.strategies.mixed import routing_table
from skewless.strategy import Report
from skewless.workloads.zipf import zipf_probabilities

FAMILY = [Mixed, MinTable, MinMig]
TOLERANCE = 0.08


def zipf_report(n_keys, seed=1, z=0.85):
    """Return the loads of a Zipf stream of ten million records, of keys in any order."""
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.choice(2**62, n_keys, replace=False).astype(np.uint64))
    loads = rng.permutation(1e7 * zipf_probabilities(z, n_keys))
    return Report(keys, loads, loads)


def loads_after(strategy, report, n_workers, seed=1):
    state, moves = strategy.rebalance(report, strategy.start(n_workers, seed))
    owners = routing_table.owners(report.keys, state)
    return np.bincount(owners, report.loads, minlength=n_workers), owners, moves


@pytest.mark.parametrize("cls", FAMILY)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_keys", "n_workers"), [(10_000, 25), (100_000, 40)])
def test_the_worker_of_a_giant_has_little_beside_it(cls, seed, n_keys, n_workers):
    report = zipf_report(n_keys, seed)
    mean = report.loads.sum() / n_workers
    # One key is on one worker, so no plan is below the largest key.
    possible = report.loads.max() / mean
    assert possible > 1 + TOLERANCE
    loads, owners, _ = loads_after(cls(), report, n_workers, seed)
    # An eighth of the tolerance may stay beside the giant.
    assert possible <= loads.max() / mean <= possible + TOLERANCE / 8
    others = np.arange(n_workers) != owners[report.loads.argmax()]
    fair = (report.loads.sum() - report.loads.max()) / (n_workers - 1)
    assert loads[others].max() <= (1 + TOLERANCE) * fair * (1 + 1e-9)
    assert loads[others].min() >= (1 - TOLERANCE) * fair * (1 - 1e-9)


@needs_a_long_stream
@pytest.mark.parametrize("cls", FAMILY)
def test_the_literal_reading_leaves_the_neighbours_of_a_giant(cls):
    report = zipf_report(10_000)
    literal = cls(pin_giants=False, two_sided=False)
    loads, _, _ = loads_after(literal, report, 25)
    assert loads.max() / loads.mean() > 1.5
    pinned, _, _ = loads_after(cls(), report, 25)
    assert pinned.max() / pinned.mean() < 1.24


@pytest.mark.parametrize("cls", FAMILY)
def test_a_giant_never_moves_when_it_is_alone_of_its_kind(cls):
    report = zipf_report(10_000)
    _, _, moves = loads_after(cls(), report, 25)
    assert report.keys[report.loads.argmax()] not in moves.keys


@pytest.mark.parametrize("cls", FAMILY)
def test_two_giants_of_one_worker_are_parted_and_the_lighter_one_moves(cls):
    strategy = cls()
    state = strategy.start(4, 0)
    keys = np.arange(4_000, dtype=np.uint64)
    at_two = np.flatnonzero(routing_table.homes(keys, state) == 2)
    loads = np.ones(4_000)
    loads[at_two[7]], loads[at_two[3]] = 9_000.0, 8_000.0
    state, _ = strategy.rebalance(Report(keys, loads, loads), state)
    owners = routing_table.owners(keys, state)
    assert owners[at_two[7]] == 2
    assert owners[at_two[3]] != 2
    held = np.bincount(owners, loads, minlength=4)
    light = 3_998 / 2  # the fair share of the two workers without a giant
    assert held.max() <= 9_000 + TOLERANCE / 8 * light
    assert held.min() >= (1 - TOLERANCE) * light


@pytest.mark.parametrize("cls", FAMILY)
def test_a_rest_that_is_too_large_is_a_giant_too(cls):
    strategy = cls()
    state = strategy.start(4, 0)
    keys = np.arange(4_000, dtype=np.uint64)
    rest = np.array([0.0, 6_000.0, 0.0, 0.0])
    state, _ = strategy.rebalance(Report(keys, np.ones(4_000), np.ones(4_000), rest), state)
    held = np.bincount(routing_table.owners(keys, state), minlength=4)
    assert held[1] <= TOLERANCE / 8 * 4_000 / 3
    assert held[[0, 2, 3]].min() >= (1 - TOLERANCE) * 4_000 / 3


def one_empty_worker(strategy, n_workers=10):
    """Return a report in which one worker has half of what each of the others has."""
    state = strategy.start(n_workers, 0)
    keys = np.arange(40_000, dtype=np.uint64)
    homes = routing_table.homes(keys, state)
    chosen = [keys[homes == w][: 1_000 if w else 500] for w in range(n_workers)]
    keys = np.sort(np.concatenate(chosen))
    return Report(keys, np.ones(keys.size), np.ones(keys.size)), state


@needs_a_long_stream
@pytest.mark.parametrize("cls", FAMILY)
def test_a_worker_with_too_little_is_filled_though_no_worker_has_too_much(cls):
    strategy = cls()
    report, state = one_empty_worker(strategy)
    mean = 9_500 / 10
    assert mean * (1 + TOLERANCE) > 1_000
    state, moves = strategy.rebalance(report, state)
    held = np.bincount(routing_table.owners(report.keys, state), minlength=10)
    assert held.min() >= (1 - TOLERANCE) * mean
    # Every key costs 1, so as many move as the worker lacks; each of the nine givers rounds up.
    lacks = (1 - TOLERANCE) * mean - 500
    assert lacks <= moves.keys.size <= lacks + 9


@pytest.mark.parametrize("cls", FAMILY)
def test_a_worker_with_too_little_is_nobodys_concern_on_one_side(cls):
    strategy = cls(two_sided=False)
    report, state = one_empty_worker(strategy)
    assert strategy.rebalance(report, state)[1].keys.size == 0


@needs_a_long_stream
def test_the_table_keeps_its_bound_and_takes_the_heaviest_neighbours():
    report = zipf_report(100_000)
    highest = []
    for bound in (400, 1_500, 3_000):
        state, _ = Mixed(max_entries=bound).rebalance(report, Mixed().start(40, 1))
        assert state.n_entries[0] <= bound
        owners = routing_table.owners(report.keys, state)
        highest.append(np.bincount(owners, report.loads, minlength=40).max())
    assert highest == sorted(highest, reverse=True)


@pytest.mark.parametrize("max_entries", [1, 5])
def test_a_small_table_beside_a_giant_ends_the_search(max_entries):
    """More keys leave than were asked for, since phase II chooses them by cost and state."""
    strategy = Mixed(max_entries=max_entries)
    loads, sizes = np.array([60.0, 5.0, 2.0, 4.0]), np.array([3.0, 7.0, 3.0, 5.0])
    report = Report(np.arange(1, 5, dtype=np.uint64), loads, sizes)
    state, moves = strategy.rebalance(report, strategy.start(2, 0))
    assert moves.keys.size <= 4
    _, moves = strategy.rebalance(report, state)
    assert moves.keys.size == 0
