from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.recent_keys import RecentKeysReference
from skewless._jit import kernel
from skewless.arrays import Ints, Keys
from skewless.kernels import recent_keys as rk
from skewless.state import copy_state


@kernel
def push_all(recent: rk.RecentKeys, keys: Keys, out: Ints) -> None:
    for i in range(keys.size):
        out[i] = rk.push(recent, keys[i])


any_key = st.one_of(st.integers(0, 6), st.integers(2**64 - 2, 2**64 - 1))


@settings(deadline=None, max_examples=100)
@given(n_records=st.integers(1, 12), keys=st.lists(any_key, max_size=80))
def test_it_equals_the_oracle_on_any_stream(n_records: int, keys: list[int]) -> None:
    recent, oracle = rk.recent_keys(n_records), RecentKeysReference(n_records)
    for key in keys:
        assert rk.push(recent, np.uint64(key)) == oracle.push(key)
    for key in range(8):
        assert rk.count(recent, np.uint64(key)) == oracle.count(key)


@pytest.mark.parametrize("n_records", [1, 2, 32, 257])
@pytest.mark.parametrize("n_keys", [3, 5000])
def test_it_equals_the_oracle_on_a_long_stream(n_records: int, n_keys: int) -> None:
    rng = np.random.default_rng(n_records)
    keys = rng.integers(0, n_keys, 3000).astype(np.uint64)
    out = np.empty(keys.size, np.int64)
    push_all(rk.recent_keys(n_records), keys, out)
    oracle = RecentKeysReference(n_records)
    assert out.tolist() == [oracle.push(key) for key in keys.tolist()]


def test_the_table_holds_only_what_is_in_the_window() -> None:
    recent = rk.recent_keys(50)
    keys = np.arange(5000, dtype=np.uint64)
    push_all(recent, keys, np.empty(keys.size, np.int64))
    held = recent.counts.keys[recent.counts.values >= 0]
    assert sorted(held.tolist()) == list(range(4950, 5000))


def test_a_copy_goes_on_like_the_original() -> None:
    keys = np.random.default_rng(1).integers(0, 20, 400).astype(np.uint64)
    recent = rk.recent_keys(30)
    push_all(recent, keys[:200], np.empty(200, np.int64))
    copy = copy_state(recent)
    one, other = np.empty(200, np.int64), np.empty(200, np.int64)
    push_all(recent, keys[200:], one)
    push_all(copy, keys[200:], other)
    assert one.tolist() == other.tolist()


def test_a_cleared_window_is_like_a_new_one() -> None:
    recent = rk.recent_keys(4)
    push_all(recent, np.array([1, 1, 2, 3, 1], np.uint64), np.empty(5, np.int64))
    rk.clear(recent)
    out = np.empty(6, np.int64)
    push_all(recent, np.array([1, 1, 1, 1, 2, 1], np.uint64), out)
    assert out.tolist() == [1, 2, 3, 4, 1, 3]


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(ValueError, match="n_records must be an integer of at least 1, not 0"):
        rk.recent_keys(0)
