import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import slow
from reference.rebalancing import even_arcs as reference
from skewless.kernels.ring import owner
from skewless.strategies import Mixed
from skewless.strategies.mixed.routing_table import cell_owners, even_ring, homes
from skewless.strategy import Report


def counts_of(owners, n_workers):
    return np.bincount(owners, minlength=n_workers)


@settings(deadline=None, max_examples=60)
@given(
    capacities=st.lists(st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.3, 40.0]), min_size=1, max_size=40)
)
def test_cells_equal_the_oracle(capacities):
    assert cell_owners(np.array(capacities)).tolist() == reference.cell_owners(capacities)


@pytest.mark.parametrize("n_workers", [1, 2, 3, 5, 16, 17, 33, 100, 256, 257, 1023, 1024, 1025])
def test_shares_are_equal_and_a_worker_that_joins_only_takes_its_share(n_workers):
    before, after = (cell_owners(np.ones(n)) for n in (n_workers, n_workers + 1))
    counts = counts_of(before, n_workers)
    assert counts.max() - counts.min() <= 1
    assert counts.min() >= (256 if n_workers <= 256 else 64) - 1
    moved = np.repeat(before, after.size // before.size) != after
    assert (after[moved] == n_workers).all()
    assert moved.sum() == after.size // (n_workers + 1)


def test_another_capacity_moves_cells_only_to_or_from_that_worker():
    before = cell_owners(np.ones(16))
    for worker in (0, 7, 15):
        capacities = np.ones(16)
        capacities[worker] = 2.0
        after = cell_owners(capacities)
        moved = before != after
        assert (after[moved] == worker).all()
        # From 1/16 to 2/17 of all cells; one cell per worker is rounding.
        assert moved.mean() == pytest.approx(2 / 17 - 1 / 16, abs=16 / before.size)


def test_shares_follow_capacities_and_the_slowest_worker_keeps_a_cell():
    capacities = np.array([1.0, 2.0, 4.0, 1.0])
    counts = counts_of(cell_owners(capacities), 4)
    # Each worker has one cell before the others are shared out by capacity, of 256 on average.
    np.testing.assert_allclose(counts / counts.sum(), capacities / capacities.sum(), rtol=0.02)
    assert counts_of(cell_owners(np.array([1e-9, 1.0, 1e9])), 3).tolist()[:2] == [1, 1]


def test_a_hash_has_the_owner_of_its_cell_by_both_ways_to_look_it_up():
    ring = even_ring(np.array([1.0, 1.0, 3.0, 1.0, 1.0]))
    owners = cell_owners(np.array([1.0, 1.0, 3.0, 1.0, 1.0]))
    width = 2**64 // owners.size
    for cell in range(0, owners.size, 7):
        for hashed in (cell * width, cell * width + 5, (cell + 1) * width - 1):
            assert owner(ring, np.uint64(hashed)) == owners[cell]
            assert ring.workers[ring.first[hashed >> int(ring.shift[0])]] == owners[cell]


def even_keys(n_keys):
    return np.unique(np.random.default_rng(7).integers(0, 2**63, n_keys).astype(np.uint64))


@pytest.mark.parametrize("seed", [0, *slow([1, 2])])
def test_even_keys_are_even_and_need_no_plan(seed):
    keys = even_keys(1_000_000)
    state = Mixed().start(16, seed)
    loads = counts_of(homes(keys, state), 16)
    # 62,500 keys per worker have a standard deviation of 0.4 %: 2.5 of them for the largest of 16.
    assert loads.max() <= 1.01 * loads.mean()
    ones = np.ones(keys.size)
    state, moves = Mixed().rebalance(Report(keys, ones, ones), state)
    assert moves.keys.size == state.n_entries[0] == 0


@pytest.mark.parametrize("compact", [False, True])
def test_the_bound_on_the_table_is_kept(compact):
    """Each worker has keys of another weight: thousands would have to move."""
    keys = even_keys(100_000)
    strategy = Mixed(compact=compact)
    state = strategy.start(16, 0)
    loads = 1.0 + 0.1 * homes(keys, state).astype(np.float64)
    before = np.bincount(homes(keys, state), loads)
    state, moves = strategy.rebalance(Report(keys, loads, loads), state)
    after = np.empty(keys.size, np.int32)
    strategy.route(keys, state, after)
    assert 0 < state.n_entries[0] <= strategy.max_entries
    assert np.bincount(after, loads).max() < before.max()
    assert moves.keys.size == state.n_entries[0]


@pytest.mark.parametrize(
    ("capacities", "text"),
    [([], "n_workers must be at least 1"), ([1.0, np.nan], "capacities"), ([1.0, -1.0], "capac")],
)
def test_bad_arguments_are_refused_by_name(capacities, text):
    with pytest.raises(ValueError, match=text):
        cell_owners(np.array(capacities))
