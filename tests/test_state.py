from typing import NamedTuple

import numpy as np
import pytest

from skewless.state import (
    Unsound,
    check_state,
    copy_state,
    fixed,
    growing,
    layout,
    named_arrays,
    require_within,
    restored,
    state_bytes,
    with_arrays,
    within,
)


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


class WithFields(NamedTuple):
    counters: np.ndarray


def with_fields():
    rows = np.zeros(2, [("place", "i4"), ("level", "f8")])
    rows["place"], rows["level"] = [1, 2], [0.5, 1.5]
    return WithFields(rows)


def test_an_array_with_fields_goes_out_field_by_field_and_comes_back():
    state = with_fields()
    arrays = {name: array.copy() for name, array in named_arrays(state)}
    assert {name: a.tolist() for name, a in arrays.items()} == {
        "counters.place": [1, 2],
        "counters.level": [0.5, 1.5],
    }
    again = restored(WithFields(np.zeros_like(state.counters)), arrays)
    assert again.counters.dtype == state.counters.dtype
    assert np.array_equal(again.counters, state.counters)
    assert not np.shares_memory(copy_state(state).counters, state.counters)


@pytest.mark.parametrize("other", ["counters.plate", "counters"])
def test_another_field_is_refused_by_its_name(other):
    arrays = dict(named_arrays(with_fields()))
    arrays[other] = arrays.pop("counters.place")
    with pytest.raises(Unsound, match=r"no array 'counters.place'|unknown array 'counters"):
        restored(with_fields(), arrays)


def test_layouts_differ_if_a_field_has_another_name_or_type():
    kinds = ([("a", "i4")], [("b", "i4")], [("a", "i8")], "i4", "V4")
    assert len({layout(WithFields(np.zeros(2, kind))) for kind in kinds}) == len(kinds)


def test_values_of_every_field_are_checked():
    with pytest.raises(Unsound, match=r"counters\.level must be from 0 to 1, not 1\.5"):
        require_within("counters", with_fields().counters[1:][["level"]], 0, 1)


@fixed("seed")
@within(0, 5, "loads")
@growing("table")
class Declared(NamedTuple):
    seed: np.ndarray
    loads: np.ndarray
    table: np.ndarray


class Around(NamedTuple):
    inner: Declared


@pytest.mark.parametrize(
    ("name", "values", "refused"),
    [
        ("seed", [8], "inner.seed must be as the strategy starts with it"),
        ("loads", [6, 0], "inner.loads must be from 0 to 5, not 6"),
        ("loads", [0, 5], None),
    ],
)
def test_what_a_class_declares_is_checked_in_every_piece(name, values, refused):
    fresh = Declared(np.array([7]), np.zeros(2, int), np.zeros(1, int))
    state = Around(fresh._replace(**{name: np.array(values)}))
    if refused is None:
        check_state(state, Around(fresh))
    else:
        with pytest.raises(Unsound, match=refused):
            check_state(state, Around(fresh))


def test_only_arrays_that_grow_may_have_another_length():
    fresh = Declared(np.array([7]), np.zeros(2, int), np.zeros(1, int))
    arrays = dict(named_arrays(fresh))
    assert restored(fresh, arrays | {"table": np.zeros(9, int)}).table.size == 9
    with pytest.raises(Unsound, match="loads must have the shape"):
        restored(fresh, arrays | {"loads": np.zeros(3, int)})
