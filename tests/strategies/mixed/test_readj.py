import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import needs_a_long_stream
from reference.rebalancing import even_arcs as reference_ring
from reference.rebalancing import mixed as reference_mixed
from reference.rebalancing import readj as reference
from skewless.strategies.mixed import routing_table
from skewless.strategies.mixed.readj import Readj
from skewless.strategy import Report

# Powers of two are sums that floats hold exactly, however many keys there are.
some_costs = st.lists(st.sampled_from([0, 1, 1, 2, 3, 5, 8, 40]), min_size=1, max_size=16)


@settings(deadline=None, max_examples=150)
@given(
    costs=some_costs,
    n_workers=st.integers(1, 5),
    seed=st.integers(0, 50),
    tolerance=st.sampled_from([0.0, 0.08, 0.3]),
    sigma=st.sampled_from([None, 0.01, 0.3, 1.0]),
    rest=st.sampled_from([[0] * 5, [3, 0, 1, 8, 0], [50, 2, 2, 2, 2]]),
)
def test_it_equals_its_oracle(costs, n_workers, seed, tolerance, sigma, rest):
    strategy = Readj(tolerance=tolerance, sigma=sigma)
    keys = np.arange(len(costs), dtype=np.uint64)
    homes = reference_ring.route(keys, n_workers, seed)
    homes, by_key = dict(enumerate(homes)), dict(enumerate(costs))
    speeds = [1.0] * n_workers
    expected, rest = homes, rest[:n_workers]
    if reference_mixed.is_overloaded(by_key, homes, tolerance, speeds, rest):
        expected = reference.readj(by_key, homes, tolerance, speeds, sigma, rest)
    loads = np.array(costs, np.float64)
    report = Report(keys, loads, loads, np.array(rest, np.float64))
    state, _ = strategy.rebalance(report, strategy.start(n_workers, seed))
    assert dict(enumerate(routing_table.owners(keys, state).tolist())) == expected


def zipf_report(n_keys: int = 2_000, seed: int = 0) -> Report:
    rng = np.random.default_rng(seed)
    costs = np.ceil(1e5 * rng.permutation(np.arange(1, n_keys + 1) ** -0.85))
    return Report(np.arange(n_keys, dtype=np.uint64), costs, costs)


@needs_a_long_stream
@pytest.mark.parametrize("seed", range(3))
def test_loads_are_within_the_tolerance_when_enough_keys_take_part(seed):
    report = zipf_report(seed=seed)
    state, _ = Readj().rebalance(report, Readj().start(15, seed))
    loads = np.bincount(routing_table.owners(report.keys, state), report.loads, minlength=15)
    assert loads.max() <= 1.08 * loads.mean()


def test_only_keys_with_enough_load_are_in_the_table():
    report = zipf_report()
    state, _ = Readj(sigma=0.05).rebalance(report, Readj().start(15, 0))
    in_table, _ = routing_table.all_entries(state)[:2]
    mean = report.loads.sum() / 15
    assert in_table.size > 0
    assert report.loads[np.searchsorted(report.keys, in_table)].min() >= 0.05 * mean


def test_a_swap_helps_where_no_move_does():
    # 6 + 5 against 5 + 4: no single key can move, but 6 and 5 (or 5 and 4) can change places.
    keys = np.arange(200, dtype=np.uint64)
    state = Readj().start(2, 0)
    homes = routing_table.homes(keys, state)
    chosen = np.sort(np.concatenate([np.flatnonzero(homes == w)[:2] for w in (0, 1)]))
    costs = np.empty(4)
    costs[homes[chosen] == 0] = (6, 5)
    costs[homes[chosen] == 1] = (5, 4)
    strategy = Readj(tolerance=0.0)
    state, moves = strategy.rebalance(Report(keys[chosen], costs, costs), state)
    assert moves.keys.size == 2
    loads = np.bincount(routing_table.owners(keys[chosen], state), costs)
    assert loads.tolist() == [10, 10]


def test_faster_workers_get_more():
    strategy = Readj(tolerance=0.05)
    report = zipf_report()
    speeds = np.array([1.0, 2.0, 3.0])
    state = strategy.rescale(strategy.start(3, 0), 3, speeds)
    state, _ = strategy.rebalance(report, state)
    loads = np.bincount(routing_table.owners(report.keys, state), report.loads, minlength=3)
    assert (loads <= 1.05 * loads.sum() * speeds / 6 * (1 + 1e-12)).all()
