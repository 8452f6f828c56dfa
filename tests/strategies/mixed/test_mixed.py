"""Mixed, MixedBruteForce, MinTable, MinMig and Simple as strategies."""

import functools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference.rebalancing import even_arcs as reference_ring
from reference.rebalancing import mixed_family as reference
from reference.rebalancing.mixed import n_entries
from skewless.checks import check_strategy
from skewless.strategies import MinMig, MinTable, Mixed, MixedBruteForce, Readj, Simple
from skewless.strategies.mixed import routing_table
from skewless.strategy import Report

FAMILY = {
    "mixed": (Mixed, reference.mixed),
    "mixed-bf": (MixedBruteForce, reference.mixed_brute_force),
    "min-table": (MinTable, reference.min_table),
    "min-mig": (MinMig, reference.min_mig),
    "simple": (Simple, reference.simple),
}


def report(costs, sizes, keys=None, rest=None) -> Report:
    keys = np.arange(len(costs), dtype=np.uint64) if keys is None else keys
    rest = None if rest is None else np.asarray(rest, np.float64)
    return Report(keys, np.asarray(costs, np.float64), np.asarray(sizes, np.float64), rest)


some_numbers = st.sampled_from([0, 1, 1, 2, 3, 5, 8, 40])
some_windows = st.integers(1, 14).flatmap(
    lambda n: st.lists(
        st.tuples(*(st.lists(some_numbers, min_size=n, max_size=n) for _ in range(2))),
        min_size=1,
        max_size=4,
    )
)


some_rests = st.sampled_from([None, [0] * 5, [3, 0, 1, 8, 0], [50, 2, 2, 2, 2]])


#: Here brute force without a bound on the table moves less state than MinMig does.
TWO_PLANS = [([0] * 10 + [1], [0] * 11), ([0] * 7 + [3, 3, 1, 2], [0] * 9 + [1, 0])]


@pytest.mark.parametrize("name", FAMILY)
@settings(deadline=None, max_examples=60)
@example(TWO_PLANS, 4, 1, 0.0, 100, [50, 2, 2, 2, 2], True)
@given(
    windows=some_windows,
    n_workers=st.integers(1, 5),
    seed=st.integers(0, 50),
    tolerance=st.sampled_from([0.0, 0.08, 0.3]),
    max_entries=st.sampled_from([0, 1, 2, 4, 100]),
    rest=some_rests,
    pinned=st.booleans(),
)
def test_it_equals_its_oracle(name, windows, n_workers, seed, tolerance, max_entries, rest, pinned):
    cls, oracle = FAMILY[name]
    bound = {"max_entries": max_entries} if name.startswith("mixed") else {}
    literal = {} if pinned else {"pin_giants": False, "two_sided": False}
    strategy = cls(tolerance=tolerance, **bound, **literal)
    state = strategy.start(n_workers, seed)
    keys = np.arange(len(windows[0][0]), dtype=np.uint64)
    homes = reference_ring.route(keys, n_workers, seed)
    homes = dict(enumerate(homes))
    owners = dict(homes)
    rest = None if rest is None else rest[:n_workers]
    for costs, sizes in windows:
        by_key = dict(enumerate(costs)), dict(enumerate(sizes))
        expected = reference.rebalanced(
            functools.partial(oracle, **bound),
            *by_key,
            homes,
            owners,
            tolerance,
            [1.0] * n_workers,
            rest,
            pin_giants=strategy.pin_giants,
            two_sided=strategy.two_sided,
        )
        state, moves = strategy.rebalance(report(costs, sizes, keys, rest), state)
        out = np.empty(keys.size, np.int32)
        strategy.route(keys, state, out)
        assert dict(enumerate(out.tolist())) == expected
        changed = [key for key in owners if owners[key] != expected[key]]
        assert moves.keys.tolist() == changed
        assert moves.origins.tolist() == [owners[key] for key in changed]
        assert moves.targets.tolist() == [expected[key] for key in changed]
        assert state.n_entries[0] == n_entries(expected, homes)
        owners = expected


FAMILY_AND_READJ = [cls for cls, _ in FAMILY.values()] + [Readj]


def table_of_light_keys(cls):
    """Return a strategy, a report that puts keys into its table, and the state after it."""
    strategy = cls()
    rng = np.random.default_rng(3)
    costs = np.ceil(1000 * rng.permutation(np.arange(1, 301) ** -0.8))
    full = report(costs, np.ones(300))
    state, _ = strategy.rebalance(full, strategy.start(6, 2))
    assert state.n_entries[0] > 3
    return strategy, full, state


@pytest.mark.parametrize("cls", FAMILY_AND_READJ)
def test_a_key_that_a_bounded_report_leaves_out_stays_where_it_is(cls):
    strategy, full, state = table_of_light_keys(cls)
    known, workers = routing_table.all_entries(state)[:2]
    left_out = np.isin(full.keys, known[1::2])
    owners = routing_table.owners(full.keys, state)
    # Worker 0 is overloaded by what the report does not name, so that there is a new plan.
    rest = np.bincount(owners[left_out], full.loads[left_out], minlength=6) + 1.0
    rest[0] += full.loads.sum()
    named = ~left_out
    bounded = report(full.loads[named], np.ones(named.sum()), full.keys[named], rest)
    after, moves = strategy.rebalance(bounded, state)
    assert moves.keys.size > 0
    np.testing.assert_array_equal(routing_table.owners(known[1::2], after), workers[1::2])


@pytest.mark.parametrize("cls", FAMILY_AND_READJ)
def test_load_that_no_key_accounts_for_is_load(cls):
    # Without the rest, the loads are even and nothing would move.
    strategy = cls()
    keys = np.arange(4000, dtype=np.uint64)
    state = strategy.start(4, 0)
    homes = routing_table.homes(keys, state)
    keys = np.sort(np.concatenate([keys[homes == worker][:50] for worker in range(4)]))
    even = report(np.ones(200), np.ones(200), keys)
    assert strategy.rebalance(even, state)[1].keys.size == 0
    rest = np.array([0.0, 40.0, 0.0, 0.0])
    after, moves = strategy.rebalance(even._replace(rest=rest), state)
    loads = np.bincount(routing_table.owners(keys, after), minlength=4) + rest
    assert moves.keys.size > 0
    assert loads.max() <= 1.08 * 60


def test_a_rest_that_is_not_one_finite_number_per_worker_is_refused():
    strategy = Mixed()
    state = strategy.start(3, 0)
    with pytest.raises(ValueError, match=r"rest of a report must be one number per worker, 3"):
        strategy.rebalance(report([1], [1], rest=[1.0, 2.0]), state)
    with pytest.raises(ValueError, match=r"rest of a report must be finite"):
        strategy.rebalance(report([1], [1], rest=[1.0, 2.0, -1.0]), state)


def test_a_report_without_keys_moves_nothing_whatever_its_rest():
    strategy = Mixed()
    state = strategy.start(3, 0)
    after, moves = strategy.rebalance(report([], [], rest=[9.0, 0.0, 0.0]), state)
    assert after is state
    assert moves.keys.size == 0


def fluctuating_reports(seed=0, n_keys=3_000, n_windows=12, z=0.85):
    """Zipf by expected counts; between windows, a tenth of the keys exchange their loads.

    The state is that of five windows.
    """
    rng = np.random.default_rng(seed)
    costs = np.ceil(200_000 * rng.permutation(np.arange(1, n_keys + 1) ** -z) / n_keys**0.3)
    windows = [costs] * 5
    for _ in range(n_windows):
        swapped = rng.permutation(n_keys)[: n_keys // 10]
        costs = costs.copy()
        costs[swapped] = rng.permutation(costs[swapped])
        windows = [*windows[1:], costs]
        yield report(costs, np.sum(windows, axis=0))


def played(strategy, reports, n_workers=15, seed=1):
    """Return, per window, peak / mean by the new plan, table entries, and the share moved."""
    state = strategy.start(n_workers, seed)
    rows = []
    for window in reports:
        state, moves = strategy.rebalance(window, state)
        out = routing_table.owners(window.keys, state)
        loads = np.bincount(out, weights=window.loads, minlength=n_workers)
        moved = window.state_sizes[np.searchsorted(window.keys, moves.keys)].sum()
        rows.append(
            (loads.max() / loads.mean(), state.n_entries[0], moved / window.state_sizes.sum())
        )
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "strategy",
    [Mixed(), MixedBruteForce(max_entries=150), MinTable(), MinMig(), Simple()],
    ids=repr,
)
def test_no_worker_is_above_the_tolerance_after_a_rebalance(strategy, seed):
    # No key here is larger than a fair share, so the tolerance can be kept exactly.
    peaks = played(strategy, fluctuating_reports(seed))[:, 0]
    assert peaks.max() <= 1.08


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", [Mixed(compact=True), MinTable(compact=True)], ids=repr)
def test_the_compact_form_adds_less_than_two_percent(strategy, seed):
    # The paper's error of estimated loads is below 1 % (fig. 11b). The error of one key is at most
    # R times the lightest key, and keys rounded up have the higher priority, so what moves is
    # overestimated: 2 % are allowed with these 30,000 keys.
    peaks = played(strategy, fluctuating_reports(seed, n_keys=30_000, n_windows=5))[:, 0]
    assert peaks.max() <= 1.10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_table_sizes_and_moved_state_are_ordered_as_in_the_paper(seed):
    runs = {
        strategy.name: played(strategy, fluctuating_reports(seed))[1:].mean(axis=0)
        for strategy in (MinTable(), Mixed(max_entries=150), MinMig(), Simple())
    }
    entries = {name: row[1] for name, row in runs.items()}
    moved = {name: row[2] for name, row in runs.items()}
    assert entries["min-table"] <= entries["mixed"] <= entries["min-mig"] <= entries["simple"]
    # Each run has a history of its own, so Mixed may happen to need less: a tenth of margin.
    assert moved["min-mig"] <= 1.1 * moved["mixed"]
    # Fig. 9b: MinTable moves about three times as much as Mixed; at least twice is asked.
    assert 2 * moved["mixed"] <= moved["min-table"]
    assert moved["min-table"] <= moved["simple"]


@pytest.mark.parametrize("max_entries", [110, 140, 400])
def test_mixed_keeps_its_table_within_the_bound_where_min_table_does(max_entries):
    needed = played(MinTable(), fluctuating_reports(1))[:, 1].max()
    entries = played(Mixed(max_entries=max_entries), fluctuating_reports(1))[:, 1]
    assert needed <= max_entries
    assert entries.max() <= max_entries


@pytest.mark.parametrize("strategy", [Mixed, MixedBruteForce])
def test_a_bound_that_no_plan_keeps_costs_balance_and_is_kept(strategy):
    peaks, entries, _ = played(strategy(max_entries=40), fluctuating_reports(2)).T
    assert entries.max() <= 40
    none = played(Mixed(max_entries=0), fluctuating_reports(2))
    assert none[:, 1].max() == 0
    assert peaks.mean() < none[:, 0].mean()


def test_a_bound_that_is_not_kept_gives_the_plans_of_min_table_where_it_is_too_small():
    # As in the appendix: with all entries sent home, a plan of Mixed is one of MinTable.
    loose = played(Mixed(max_entries=0, keep_bound=False), fluctuating_reports(2))
    np.testing.assert_array_equal(loose, played(MinTable(), fluctuating_reports(2)))


def test_with_room_for_all_keys_mixed_is_min_mig():
    mixed = played(Mixed(max_entries=100_000), fluctuating_reports(2))
    np.testing.assert_array_equal(mixed, played(MinMig(), fluctuating_reports(2)))


@pytest.mark.slow
def test_brute_force_moves_no_more_state_than_mixed_from_the_same_table():
    state = MinMig().start(15, 1)
    for window in fluctuating_reports(4):
        held = {}
        for cls in (Mixed, MixedBruteForce):
            new, moves = cls(max_entries=60).rebalance(window, state)
            places = np.searchsorted(window.keys, moves.keys)
            held[cls] = (new.n_entries[0], window.state_sizes[places].sum())
        if held[Mixed][0] <= 60:
            assert held[MixedBruteForce] <= (60, held[Mixed][1])
        state, _ = MinMig().rebalance(window, state)


@pytest.mark.parametrize("cls", [Mixed, MinTable, MinMig, Simple, Readj])
def test_nothing_moves_while_no_worker_is_above_its_limit(cls):
    strategy = cls(tolerance=0.5)
    state = strategy.start(4, 0)
    even = report(np.ones(4_000), np.ones(4_000))
    after, moves = strategy.rebalance(even, state)
    assert moves.keys.size == 0
    assert after.n_entries[0] == 0


@pytest.mark.parametrize("cls", [Mixed, MinTable, MinMig, Simple, Readj])
def test_an_empty_report_moves_nothing(cls):
    strategy = cls()
    _, moves = strategy.rebalance(report([], []), strategy.start(4, 0))
    assert moves.keys.size == 0


@pytest.mark.parametrize("cls", [Mixed, MinTable, MinMig, Simple, Readj])
def test_a_rebalance_leaves_the_state_that_it_was_given(cls):
    first, second = list(fluctuating_reports(n_windows=2))
    strategy = cls()
    state, _ = strategy.rebalance(first, strategy.start(15, 1))
    before = routing_table.owners(first.keys, state)
    strategy.rebalance(second, state)
    np.testing.assert_array_equal(routing_table.owners(first.keys, state), before)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("cls", [Mixed, MinTable, MinMig, Simple, Readj])
def test_entries_of_keys_that_are_not_reported_are_kept_or_dropped_as_asked(cls, keep):
    strategy = cls(forget_after=None if keep else 1)
    (first,) = fluctuating_reports(n_windows=1)
    state, _ = strategy.rebalance(first, strategy.start(15, 1))
    before, workers = routing_table.all_entries(state)[:2]
    other = report(first.loads, first.state_sizes, first.keys + np.uint64(10_000))
    state, _ = strategy.rebalance(other, state)
    after = routing_table.owners(before, state)
    expected = workers if keep else routing_table.homes(before, state)
    np.testing.assert_array_equal(after, expected)


def test_kept_entries_count_against_the_bound():
    strategy = Mixed(max_entries=200)
    (first,) = fluctuating_reports(n_windows=1)
    state, _ = strategy.rebalance(first, strategy.start(15, 1))
    kept = int(state.n_entries[0])
    other = report(first.loads, first.state_sizes, first.keys + np.uint64(10_000))
    for bound in (200, kept + 1):
        after, _ = Mixed(max_entries=bound).rebalance(other, state)
        alone, _ = MinTable().rebalance(other, strategy.start(15, 1))
        assert after.n_entries[0] <= max(bound, kept + alone.n_entries[0])


def test_a_new_worker_gets_its_share_by_the_next_rebalance():
    strategy = Mixed()
    (window,) = fluctuating_reports(n_windows=1)
    state, _ = strategy.rebalance(window, strategy.start(15, 1))
    state = strategy.rescale(state, 16)
    state, _ = strategy.rebalance(window, state)
    loads = np.bincount(routing_table.owners(window.keys, state), window.loads, minlength=16)
    assert loads.max() <= 1.08 * loads.mean()
    assert loads[15] > 0.5 * loads.mean()


def test_a_faster_worker_gets_more():
    strategy = Mixed(tolerance=0.02)
    (window,) = fluctuating_reports(n_windows=1)
    speeds = np.array([1.0, 1.0, 2.0, 4.0])
    state = strategy.rescale(strategy.start(4, 1), 4, speeds)
    state, _ = strategy.rebalance(window, state)
    loads = np.bincount(routing_table.owners(window.keys, state), window.loads, minlength=4)
    fair = loads.sum() * speeds / 8
    assert (loads <= 1.02 * fair * (1 + 1e-12)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        Mixed(),
        Mixed(tolerance=0.0, max_entries=5),
        Mixed(compact=True, discretisation=0),
        MixedBruteForce(max_entries=20),
        MinTable(compact=True),
        MinTable(forget_after=1),
        MinMig(beta=0.5),
        Simple(tolerance=0.0),
        Readj(sigma=0.1),
    ],
    ids=repr,
)
def test_the_contract_holds(strategy):
    assert "moves_are_complete_and_true" in check_strategy(strategy)
