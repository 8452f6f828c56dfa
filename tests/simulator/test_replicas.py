import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skewless.simulator.tally import ReplicaCounter


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=200))
def test_counts_equal_those_of_sets(records):
    keys = np.array([key for key, _ in records], np.uint64)
    workers = np.array([worker for _, worker in records], np.int32)
    counter = ReplicaCounter()
    counter.add(keys, workers)
    assert counter.counts() == (len({k for k, _ in records}), len(set(records)))


def _pairs(n_keys, n_workers):
    keys = np.repeat(np.arange(n_keys, dtype=np.uint64), n_workers)
    return keys, np.tile(np.arange(n_workers, dtype=np.int32), n_keys)


def test_tables_grow_as_needed():
    keys, workers = _pairs(50_000, 3)
    counter = ReplicaCounter()
    for begin in range(0, keys.size, 7_001):
        counter.add(keys[begin : begin + 7_001], workers[begin : begin + 7_001])
    assert counter.exact
    assert counter.counts() == (50_000, 150_000)


def test_above_the_bound_counts_are_estimates_and_say_so():
    keys, workers = _pairs(40_000, 3)
    counter = ReplicaCounter(max_pairs=20_000)
    counter.add(keys, workers)
    assert not counter.exact
    n_keys, n_pairs = counter.counts()
    # 0.4 % standard error; four of them.
    assert abs(n_keys / 40_000 - 1) < 0.016
    assert abs(n_pairs / 120_000 - 1) < 0.016


def test_cleared_counter_begins_again():
    keys, workers = _pairs(10, 2)
    counter = ReplicaCounter(max_pairs=5)
    counter.add(keys, workers)
    counter.clear()
    counter.add(keys[:3], workers[:3])
    assert counter.counts() == (2, 3)
    assert counter.exact
