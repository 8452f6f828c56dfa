import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.hashing import mix
from skewless.kernels.key_table import ABSENT, clear, find_slot, get, key_table, put, remove_slot
from skewless.state import Unsound, check_state

N_KEYS = 8
N_SLOTS = key_table(N_KEYS).values.size
#: Keys whose homes are the last two slots and the first one: their chains wrap around the end.
HOMES = (N_SLOTS - 2, N_SLOTS - 1, 0)
NEAR_THE_END = [key for key in range(100) if mix(key) % N_SLOTS in HOMES]
ANY_KEYS = [0, 1, 2**63, 2**64 - 1]
values = st.integers(0, 2**30)
REMOVED = st.just(ABSENT)
steps = st.lists(
    st.tuples(st.sampled_from(NEAR_THE_END + ANY_KEYS), st.one_of(REMOVED, values)), max_size=60
)


def remove(table, key):
    slot = find_slot(table, np.uint64(key))
    if table.values[slot] != ABSENT:
        remove_slot(table, slot)


@settings(deadline=None)
@given(steps)
def test_a_table_is_a_dictionary(steps):
    table, oracle = key_table(N_KEYS), {}
    for key, value in steps:
        if value == ABSENT:
            oracle.pop(key, None)
            remove(table, key)
        elif key in oracle or len(oracle) < N_KEYS:
            oracle[key] = value
            put(table, np.uint64(key), np.int32(value))
        for each in NEAR_THE_END + ANY_KEYS:
            assert get(table, np.uint64(each)) == oracle.get(each, ABSENT)
        check_state(table, table)
    clear(table)
    assert all(get(table, np.uint64(each)) == ABSENT for each in oracle)


@pytest.mark.parametrize("n_keys", [1, 2, 3, 7, 8, 9, 1000])
def test_half_of_the_slots_stay_empty(n_keys):
    n_slots = key_table(n_keys).values.size
    assert n_slots >= 2 * n_keys
    assert n_slots & (n_slots - 1) == 0


def test_a_key_behind_a_gap_is_refused():
    """A state from outside may hold a key where no search would find it."""
    table = key_table(N_KEYS)
    first, second = [key for key in NEAR_THE_END if mix(key) % N_SLOTS == N_SLOTS - 1][:2]
    put(table, np.uint64(first), np.int32(1))
    put(table, np.uint64(second), np.int32(2))
    check_state(table, table)
    table.values[find_slot(table, np.uint64(first))] = ABSENT
    with pytest.raises(Unsound, match="where a search finds it"):
        check_state(table, table)
