import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.least_loaded import least_loaded
from skewless.kernels.least_loaded import (
    CURSOR,
    FLOOR,
    floor_cursor,
    least,
    least_count,
    load_tree,
    update,
)
from skewless.plumbing.compiling import kernel


@settings(deadline=None)
@given(
    start=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    # Worker to raise and by how much; None: the least loaded one, by one.
    raises=st.lists(st.none() | st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=60),
)
def test_the_cursor_finds_the_first_of_the_smallest_counts(start, raises):
    counts = np.array(start, np.int64)
    state = floor_cursor(counts)
    for raised in raises:
        found = least_count(counts, state)
        assert found == least_loaded(counts)
        if raised is None:
            counts[found] += 1
        else:
            counts[raised[0] % counts.size] += raised[1]


@pytest.mark.parametrize("n_workers", [1, 2, 16, 100])
def test_the_cursor_follows_a_long_stream(n_workers):
    rng = np.random.default_rng(n_workers)
    counts = np.zeros(n_workers, np.int64)
    state = floor_cursor(counts)
    for _ in range(3_000):
        found = least_count(counts, state)
        assert found == least_loaded(counts)
        # Now and then another worker than the least loaded one gets the record.
        counts[rng.integers(n_workers) if rng.random() < 0.5 else found] += 1


@pytest.mark.parametrize("share_of_least", [0.0, 0.1, 1.0])
def test_the_cursor_takes_at_most_one_step_per_record_and_n_besides(share_of_least):
    rng = np.random.default_rng(3)
    counts = np.zeros(50, np.int64)
    state = floor_cursor(counts)
    for total in range(2_000):
        found = least_count(counts, state)
        assert state[FLOOR] * counts.size + state[CURSOR] <= total + counts.size
        counts[found if rng.random() < share_of_least else rng.integers(50)] += 1


def test_the_cursor_fills_all_workers_in_turn():
    counts = np.zeros(5, np.int64)
    state = floor_cursor(counts)
    filled = []
    for _ in range(12):
        found = least_count(counts, state)
        filled.append(int(found))
        counts[found] += 1
    assert filled == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


# Few different loads, so that ties are the rule; and infinity, the load of the padding.
some_loads = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, np.inf])


@settings(deadline=None)
@given(
    start=st.lists(some_loads, min_size=1, max_size=17),
    updates=st.lists(st.tuples(st.integers(0, 16), some_loads), max_size=60),
)
def test_the_tree_finds_the_first_of_the_smallest_loads(start, updates):
    loads = np.array(start)
    tree = load_tree(loads)
    assert least(tree) == least_loaded(loads)
    for worker, load in updates:
        worker %= loads.size
        loads[worker] = load
        update(tree, worker, load)
        assert least(tree) == least_loaded(loads)
        assert tree.loads[: loads.size].tolist() == loads.tolist()


@pytest.mark.parametrize("n_workers", [1, 16, 100, 128])
def test_the_tree_follows_a_long_stream(n_workers):
    rng = np.random.default_rng(n_workers)
    loads = np.zeros(n_workers)
    tree = load_tree(loads)
    for _ in range(3_000):
        worker = int(least(tree)) if rng.random() < 0.5 else int(rng.integers(n_workers))
        loads[worker] += rng.integers(-2, 4)
        update(tree, worker, loads[worker])
        assert least(tree) == least_loaded(loads)


@kernel
def _updated_from_scratch(tree, loads):
    for worker in range(loads.size):
        update(tree, worker, loads[worker])


def test_every_node_of_the_tree_is_right_after_any_updates():
    # A stale node can hide behind a right root until the other half falls back.
    rng = np.random.default_rng(8)
    tree = load_tree(np.zeros(37))
    for _ in range(20):
        loads = rng.integers(0, 5, 37).astype(np.float64)
        _updated_from_scratch(tree, loads)
        np.testing.assert_array_equal(tree.winners[1:], load_tree(loads).winners[1:])


@pytest.mark.parametrize("loads", [np.array([]), np.array([1.0, np.nan])])
def test_a_tree_needs_loads_that_are_numbers(loads):
    with pytest.raises(ValueError, match="loads"):
        load_tree(loads)
