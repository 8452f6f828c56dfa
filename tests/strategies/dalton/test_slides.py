import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.dalton.slides import ReferenceWindow
from skewless.strategies.dalton.slides import (
    advance,
    clear_replicas,
    expire,
    fill,
    is_on,
    next_slide,
    place_on,
    replicas,
    room,
    slide_loads,
)

N_WORKERS, N_ROWS = 4, 3
record = st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_WORKERS - 1))


@settings(deadline=None)
@given(slide=st.integers(1, 5), n_slides=st.integers(1, 4), records=st.lists(record, max_size=40))
def test_a_window_equals_the_list_of_its_records(slide, n_slides, records):
    window, keys = slide_loads(N_WORKERS, slide, n_slides), replicas(N_ROWS, N_WORKERS, n_slides)
    oracle = ReferenceWindow(N_WORKERS, slide, n_slides)
    for row, worker in records:
        if expire(window):
            next_slide(keys)
        window.loads[worker] += 1
        advance(window, 1)
        assert place_on(keys, row, worker) == oracle.add(row, worker)
        assert window.loads.tolist() == oracle.loads()
        assert window.counters[0]["total"] == len(oracle.records())
        assert room(window) == slide - len(oracle.slides[-1])
        for r in range(N_ROWS):
            assert keys.widths[r] == oracle.fragmentation(r)
            for w in range(N_WORKERS):
                assert is_on(keys, r, w) == oracle.holds(r, w)


@given(
    n_slides=st.integers(1, 4),
    loads=st.lists(st.integers(0, 50), min_size=N_WORKERS, max_size=N_WORKERS),
    n_before=st.integers(0, 30),
)
def test_a_window_that_was_filled_empties_slide_by_slide(n_slides, loads, n_before):
    window = slide_loads(N_WORKERS, 3, n_slides)
    for _ in range(n_before):
        expire(window)
        window.loads[0] += 1
        advance(window, 1)
    fill(window, np.array(loads), 2)
    assert window.loads.tolist() == loads
    assert window.counters[0]["total"] == sum(loads)
    left = np.array(loads)
    for slide in range(1, n_slides + 1):
        advance(window, room(window))  # records that are on no worker
        window.counters[0]["total"] = window.loads.sum()
        assert expire(window)
        expected = left // n_slides if slide < n_slides else left - left // n_slides * (slide - 1)
        assert (loads - window.loads).tolist() == expected.tolist()
        loads = window.loads.copy()
    assert window.loads.sum() == 0


def test_a_cleared_row_begins_again():
    keys = replicas(2, 3, 2)
    for row in (0, 1):
        for worker in range(3):
            place_on(keys, row, worker)
    next_slide(keys)
    clear_replicas(keys, 0)
    assert keys.widths.tolist() == [0, 3]
    assert place_on(keys, 0, 2) == 1
    next_slide(keys)
    assert keys.widths.tolist() == [1, 0]
