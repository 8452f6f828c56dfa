from typing import NamedTuple

import numpy as np
import pytest

from skewless.state import copy_state, named_arrays, state_bytes, with_arrays


class Inner(NamedTuple):
    counts: np.ndarray


class Outer(NamedTuple):
    loads: np.ndarray
    inner: Inner


@pytest.fixture
def state():
    return Outer(np.arange(3), Inner(np.ones(2)))


def test_bytes_count_every_array(state):
    assert state_bytes(state) == 3 * 8 + 2 * 8


def test_a_copy_shares_nothing(state):
    copy = copy_state(state)
    copy.loads[:] = 9
    copy.inner.counts[:] = 9
    assert state.loads.tolist() == [0, 1, 2]
    assert state.inner.counts.tolist() == [1, 1]
    assert type(copy) is Outer
    assert type(copy.inner) is Inner


def test_arrays_go_out_by_name_and_come_back(state):
    arrays = {name: array + 1 for name, array in named_arrays(state)}
    assert list(arrays) == ["loads", "inner.counts"]
    changed = with_arrays(state, arrays)
    assert changed.loads.tolist() == [1, 2, 3]
    assert changed.inner.counts.tolist() == [2, 2]


def test_anything_but_arrays_is_refused_by_name():
    with pytest.raises(TypeError, match=r"state field 'inner\.counts' is a int"):
        state_bytes(Outer(np.arange(3), Inner(5)))
