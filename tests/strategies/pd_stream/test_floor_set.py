import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.pd_stream.floor_set import lightest_of, with_count
from skewless.strategies.pd_stream.floor_set import (
    LEVEL,
    NO_WORKER,
    SIZE,
    add_to,
    floor_set,
    follow,
    lightest,
    members,
    take_lightest,
)


def workers_in(words, n_workers):
    return set(np.flatnonzero(members(words, n_workers)).tolist())


def expect_right(floor, counts):
    level = counts.min()
    assert floor.counters[LEVEL] == level
    assert workers_in(floor.lightest, counts.size) == with_count(counts, level)
    assert workers_in(floor.following, counts.size) == with_count(counts, level + 1)
    assert floor.counters[SIZE] == len(with_count(counts, level))
    for start in {0, counts.size // 2, counts.size - 1}:
        assert lightest(floor, np.uint64(start)) == lightest_of(counts, range(counts.size), start)


def one_set(workers, n_workers):
    words = np.zeros((n_workers + 63) // 64, np.uint64)
    for worker in workers:
        add_to(words, np.uint64(0), np.uint64(worker))
    return words


def take(floor, counts, words, start, only_if):
    return take_lightest(floor, counts, words, np.uint64(0), np.uint64(start), only_if)


@settings(deadline=None)
@given(
    # Far apart at times, so that the smallest count rises by more than one.
    start=st.lists(st.sampled_from([0, 1, 2, 3, 9]), min_size=1, max_size=70),
    # Whose count rises, or among whom the lightest is to be taken; and only if nobody is lighter.
    steps=st.lists(
        st.integers(0, 69)
        | st.tuples(
            st.sets(st.integers(0, 69), min_size=1, max_size=5), st.integers(0, 69), st.booleans()
        ),
        max_size=60,
    ),
)
def test_the_sets_are_right_after_any_steps(start, steps):
    counts = np.array(start, np.int64)
    floor = floor_set(counts)
    expect_right(floor, counts)
    for step in steps:
        before = counts.copy()
        if isinstance(step, int):
            worker = step % counts.size
            counts[worker] += 1
            follow(floor, counts, np.uint64(worker), counts[worker] - 1)
        else:
            some = {worker % counts.size for worker in step[0]}
            start = step[1] % counts.size
            worker = lightest_of(counts, some, start)
            if step[2] and counts[worker] > counts.min():
                worker = NO_WORKER
            found = take(floor, counts, one_set(some, counts.size), start, step[2])
            assert found == worker
            if worker != NO_WORKER:
                before[worker] += 1
            assert counts.tolist() == before.tolist()
        expect_right(floor, counts)


@pytest.mark.parametrize("n_workers", [1, 16, 64, 128, 200])
def test_all_workers_are_filled_in_turn(n_workers):
    start = n_workers // 3
    counts = np.zeros(n_workers, np.int64)
    floor = floor_set(counts)
    everybody = one_set(range(n_workers), n_workers)
    filled = [int(take(floor, counts, everybody, start, True)) for _ in range(3 * n_workers)]
    assert filled == 3 * [*range(start, n_workers), *range(start)]
    expect_right(floor, counts)
