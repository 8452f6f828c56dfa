from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.windowed_load import ReferenceWindow
from skewless._jit import kernel
from skewless.kernels.key_table import ABSENT
from skewless.kernels.windowed_load import (
    N_FREE,
    TOTAL,
    add,
    expire,
    fragmentation,
    holds,
    next_slide,
    windowed_load,
)
from skewless.state import copy_state, named_arrays

# Key hashes at both ends too: none is reserved.
KEYS = [0, 2**32, 2**64 - 1]
N_WORKERS = 3

record = st.tuples(st.sampled_from(KEYS), st.integers(0, N_WORKERS - 1))


def assert_equal(window, oracle):
    assert window.loads.tolist() == oracle.loads()
    assert window.counters[TOTAL] == len(oracle.records())
    for key in KEYS:
        assert fragmentation(window, np.uint64(key)) == oracle.fragmentation(key)
        for worker in range(N_WORKERS):
            assert holds(window, np.uint64(key), worker) == oracle.holds(key, worker)


def assert_empty(window):
    assert not window.loads.any()
    assert window.counters[TOTAL] == 0
    assert not window.n_entries.any()
    assert (window.pairs.values == ABSENT).all()
    assert (window.rows.values == ABSENT).all()
    assert not window.row_workers.any()
    assert sorted(window.free_rows[: window.counters[N_FREE]]) == list(range(window.row_keys.size))


@settings(deadline=None, max_examples=200)
@given(
    slide=st.integers(1, 5),
    n_slides=st.integers(1, 4),
    # A record, or None: the slide ends early; or False: only look whether it has ended. Mostly
    # records of few pairs, so that pairs come back in the next slide, which expiry must see.
    events=st.lists(st.one_of(record, record, record, st.none(), st.just(False)), max_size=40),
)
def test_a_window_equals_the_list_of_its_records(slide, n_slides, events):
    window = windowed_load(N_WORKERS, slide, n_slides)
    oracle = ReferenceWindow(N_WORKERS, slide, n_slides)
    for event in events:
        if event is None:
            next_slide(window)
            oracle.next_slide()
        elif event is False:
            expire(window)
            oracle.expire()
        else:
            key, worker = event
            assert add(window, np.uint64(key), worker) == oracle.add(key, worker)
        assert_equal(window, oracle)


@settings(deadline=None)
@given(
    slide=st.integers(1, 9),
    n_slides=st.integers(1, 4),
    records=st.lists(st.none() | record, max_size=60),
)
def test_without_fragmentation_the_loads_are_the_same(slide, n_slides, records):
    window = windowed_load(N_WORKERS, slide, n_slides)
    loads_only = windowed_load(N_WORKERS, slide, n_slides, fragmentation=False)
    for event in records:
        if event is None:
            next_slide(window)
            next_slide(loads_only)
        else:
            add(window, np.uint64(event[0]), event[1])
            assert add(loads_only, np.uint64(event[0]), event[1]) == 0
            assert fragmentation(loads_only, np.uint64(event[0])) == 0
            assert not holds(loads_only, np.uint64(event[0]), event[1])
        assert loads_only.loads.tolist() == window.loads.tolist()
        assert loads_only.counters[TOTAL] == window.counters[TOTAL]


@kernel
def _add_all(window, keys, workers, widths):
    for i in range(keys.size):
        widths[i] = add(window, keys[i], workers[i])


@pytest.mark.parametrize(("n_workers", "slide", "n_slides"), [(8, 250, 4), (64, 16, 20), (3, 1, 7)])
def test_a_long_stream_equals_its_last_records(n_workers, slide, n_slides):
    rng = np.random.default_rng(slide)
    # Keys from a large domain, most of them met once, and a few hot ones.
    keys = rng.zipf(1.2, 12_345).astype(np.uint64)
    workers = rng.integers(0, n_workers, keys.size)
    window = windowed_load(n_workers, slide, n_slides)
    widths = np.full(keys.size, -1, np.int32)
    _add_all(window, keys, workers, widths)

    # The slide being filled and n_slides − 1 full ones: recomputed at the end …
    begin = ((keys.size - 1) // slide - n_slides + 1) * slide
    last = list(zip(keys[begin:].tolist(), workers[begin:].tolist(), strict=True))
    assert window.loads.tolist() == np.bincount(workers[begin:], minlength=n_workers).tolist()
    assert window.counters[TOTAL] == window.loads.sum() == len(last)
    width = Counter(key for key, _ in set(last))
    for key in set(keys[-2_000:].tolist()):
        assert fragmentation(window, np.uint64(key)) == width[key]
    # … and |X(k)| as it was after some of the records before.
    for i in range(0, keys.size, 97):
        begin = max(0, (i // slide - n_slides + 1) * slide)
        same_key = keys[begin : i + 1] == keys[i]
        assert widths[i] == np.unique(workers[begin : i + 1][same_key]).size


@pytest.mark.parametrize("keyed", [True, False])
def test_nothing_remains_when_the_window_has_passed(keyed):
    rng = np.random.default_rng(2)
    window = windowed_load(5, 10, 6, fragmentation=keyed)
    for n_records in (3, 59, 60, 61, 500):
        keys = rng.integers(0, 30, n_records).astype(np.uint64)
        workers = rng.integers(0, 5, n_records)
        _add_all(window, keys, workers, np.empty(n_records, np.int32))
        for _ in range(6):
            assert window.counters[TOTAL] > 0
            next_slide(window)
        assert_empty(window)


def test_a_window_full_of_different_keys_fits():
    window = windowed_load(2, 8, 4)
    keys = np.arange(100, dtype=np.uint64)
    _add_all(window, keys, np.zeros(100, np.int64), np.empty(100, np.int32))
    # Records 72 … 99: the slide being filled has 4 of them.
    assert [key for key in range(100) if fragmentation(window, np.uint64(key))] == [*range(72, 100)]


def test_expire_shows_the_window_that_the_next_record_will_join():
    window = windowed_load(2, 2, 2)
    for worker in (0, 0, 1, 1):
        assert add(window, np.uint64(7), worker) == (1 if worker == 0 else 2)
    assert window.loads.tolist() == [2, 2]
    assert expire(window)
    assert window.loads.tolist() == [0, 2]
    assert not expire(window)


def test_a_copy_continues_identically():
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 50, 400).astype(np.uint64)
    workers = rng.integers(0, 4, 400)
    widths = np.empty(400, np.int32)
    window = windowed_load(4, 16, 4)
    _add_all(window, keys[:200], workers[:200], widths[:200])
    copy = copy_state(window)
    _add_all(window, keys[200:], workers[200:], widths[200:])
    again = np.empty(200, np.int32)
    _add_all(copy, keys[200:], workers[200:], again)
    np.testing.assert_array_equal(again, widths[200:])
    for (name, one), (_, other) in zip(named_arrays(window), named_arrays(copy), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("name", ["n_workers", "slide", "n_slides"])
def test_bad_arguments_are_refused_by_name(name):
    with pytest.raises(ValueError, match=name):
        windowed_load(**{"n_workers": 2, "slide": 2, "n_slides": 2, name: 0})


def test_a_window_that_would_not_fit_the_index_is_refused():
    with pytest.raises(ValueError, match="slide"):
        windowed_load(2, 2**20, 2**11)
