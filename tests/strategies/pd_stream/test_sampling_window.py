from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.pd_stream.sampling_window import SamplingWindowReference
from skewless.plumbing.compiling import kernel
from skewless.strategies.pd_stream.sampling_window import (
    N_FREE,
    NO_ROW,
    PLACE,
    SIZE,
    admit,
    append,
    find,
    leave,
    row_of,
    sampling_window,
    window_keys,
)

ONE = np.uint64(1)


@kernel
def push_all(window, hashes, length, out):
    """Let records enter, and the oldest leave so that there are `length`; count each one."""
    mask = np.uint64(window.ring.size - 1)
    place, size, n_free = window.counters[PLACE], window.counters[SIZE], window.counters[N_FREE]
    for i in range(hashes.size):
        slot = find(window, hashes[i])
        row = window.rows[slot]
        if row == NO_ROW:
            row = admit(window, hashes[i], slot, n_free)
            n_free -= ONE
        window.counts[row] += 1
        window.ring[place] = row
        place = (place + ONE) & mask
        size += ONE
        while size > length:
            n_free = leave(window, window.ring[(place - size) & mask], n_free)
            size -= ONE
        out[i] = window.counts[row]
    window.counters[PLACE], window.counters[SIZE], window.counters[N_FREE] = place, size, n_free


def pushed(window, hashes, length):
    out = np.empty(len(hashes), np.int64)
    push_all(window, np.array(hashes, np.uint64), np.uint64(length), out)
    return out.tolist()


def expect_consistent(window):
    counts = Counter(window_keys(window).tolist())
    for hashed, count in counts.items():
        assert window.counts[row_of(window, np.uint64(hashed))] == count
    assert (window.rows != NO_ROW).sum() == len(counts)
    n_free = int(window.counters[N_FREE])
    assert n_free == window.free.size - len(counts)
    assert np.unique(window.free[:n_free]).size == n_free
    assert not window.counts[window.free[:n_free]].any()
    assert window.counts[NO_ROW] == 0


# Multiples of a large power of two meet in the table: their low bits are equal.
some_hashes = st.lists(st.sampled_from([0, 1, 2, 3, 2**40, 2**41, 2**63, 2**64 - 1]), max_size=80)


@settings(deadline=None)
@given(capacity=st.integers(1, 12), hashes=some_hashes)
def test_it_counts_as_the_oracle_does(capacity, hashes):
    window, oracle = sampling_window(capacity), SamplingWindowReference(capacity)
    assert pushed(window, hashes, capacity) == [oracle.push(hashed) for hashed in hashes]
    assert window_keys(window).tolist() == oracle.keys
    expect_consistent(window)


@settings(deadline=None)
@given(parts=st.lists(st.tuples(st.integers(1, 12), some_hashes), max_size=6))
def test_it_may_become_longer_and_shorter(parts):
    window, records = sampling_window(12), []
    for length, hashes in parts:
        pushed(window, hashes, length)
        for hashed in hashes:
            records = [*records, hashed][-length:]
        assert window_keys(window).tolist() == records
        expect_consistent(window)


@pytest.mark.parametrize("n_keys", [3, 40, 5_000])
def test_it_follows_a_long_stream(n_keys):
    hashes = np.random.default_rng(1).integers(0, n_keys, 5_000).astype(np.uint64)
    window, oracle = sampling_window(32), SamplingWindowReference(32)
    assert pushed(window, hashes, 32) == [oracle.push(hashed) for hashed in hashes.tolist()]
    expect_consistent(window)


def test_appended_records_are_as_if_they_had_entered():
    one, other = sampling_window(9), sampling_window(9)
    hashes = np.array([5, 6, 5, 5, 2**40 + 5], np.uint64)
    pushed(one, hashes, 9)
    for hashed in hashes:
        append(other, hashed)
    assert window_keys(other).tolist() == window_keys(one).tolist() == hashes.tolist()
    expect_consistent(other)
