from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.hashing import to_worker
from skewless.strategies.cascade.orders import (
    SLOTS_PER_WORKER,
    reassigned,
    slot_of,
    slot_table,
    strides,
)

some_speeds = st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.0]), min_size=1, max_size=20)


@given(n_workers=st.integers(1, 200), hashed=st.integers(0, 2**64 - 1))
def test_the_first_table_gives_a_key_the_worker_of_its_hash(n_workers, hashed):
    owners = slot_table(n_workers)
    assert owners[slot_of(np.uint64(hashed), owners.size)] == to_worker(hashed, n_workers)


@pytest.mark.parametrize("n_workers", range(1, 65))
def test_every_stride_meets_every_worker_once(n_workers):
    steps = strides(n_workers).tolist()
    for step in steps:
        assert len({j * step % n_workers for j in range(n_workers)}) == n_workers
    coprime = sum(math.gcd(step, n_workers) == 1 for step in range(1, n_workers + 1))
    assert len(set(steps)) == len(steps) == coprime


@settings(deadline=None)
@given(before=st.integers(1, 20), first=some_speeds, second=some_speeds)
def test_shares_follow_capacities_and_the_fewest_slots_move(before, first, second):
    owners = slot_table(before)
    for speeds in (first, second):  # the second time from a table that is uneven already
        if len(speeds) > owners.size:
            return
        table = reassigned(owners, np.array(speeds))
        held = np.bincount(table, minlength=len(speeds))
        exact = owners.size * np.array(speeds) / sum(speeds)
        # A share is a whole number of slots. Below 10^-9 it is rounding of the division.
        assert np.all(np.abs(held - exact) < 1 + 1e-9)
        # Who ends with more than it had took the difference from others, whoever they were.
        had = np.bincount(owners, minlength=len(speeds))[: len(speeds)]
        assert np.sum(table != owners) == np.maximum(held - had, 0).sum()
        owners = table


@pytest.mark.parametrize(("before", "after"), [(3, 4), (7, 8), (8, 7), (16, 1), (1, 16)])
def test_no_fewer_slots_could_move(before, after):
    owners = slot_table(before)
    table = reassigned(owners, np.ones(after))
    # A joining worker must get its share, rounded down, and a leaving one must give up all.
    least = owners.size // after * max(0, after - before)
    least = max(least, SLOTS_PER_WORKER * max(0, before - after))
    assert np.sum(table != owners) == least


def test_a_newcomer_takes_from_everybody():
    owners = slot_table(8)
    table = reassigned(owners, np.ones(9))
    assert set(owners[table == 8].tolist()) == set(range(8))


def test_nothing_moves_when_nothing_changes():
    owners = reassigned(slot_table(6), np.array([1.0, 2.0, 3.0, 1.0, 1.0]))
    again = reassigned(owners, np.array([1.0, 2.0, 3.0, 1.0, 1.0]))
    assert np.array_equal(owners, again)


def test_more_workers_than_slots_are_refused():
    with pytest.raises(ValueError, match="n_workers"):
        reassigned(slot_table(2), np.ones(2 * SLOTS_PER_WORKER + 1))
