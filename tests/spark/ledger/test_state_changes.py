"""What the ledger holds of a state: only what a fresh one does not have, to the last bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless import registry
from skewless.spark.ledger.state_changes import changes, fingerprint, with_changes
from skewless.state import copy_state, named_arrays, with_arrays


def restored(fresh: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    return with_arrays(fresh, with_changes(fresh, arrays))


class Inner(NamedTuple):
    table: NDArray[np.uint64]


class State(NamedTuple):
    loads: NDArray[np.float64]
    flags: NDArray[np.bool_]
    inner: Inner


def state(size: int = 50) -> State:
    return State(np.zeros(size), np.zeros(size, np.bool_), Inner(np.arange(size, dtype=np.uint64)))


def same(one: Any, other: Any) -> bool:
    pairs = zip(named_arrays(one), named_arrays(other), strict=True)
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for (_, a), (_, b) in pairs)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 49), st.sampled_from([0.0, -0.0, np.nan, np.inf, 3.5]))),
    st.lists(st.integers(0, 49)),
    st.integers(0, 60),
)
def test_a_state_comes_back_to_the_last_bit(
    loads: list[tuple[int, float]], flags: list[int], size: int
) -> None:
    now = state()
    for position, load in loads:
        now.loads[position] = load
    now.flags[flags] = True
    now = now._replace(inner=Inner(np.arange(size, dtype=np.uint64)))  # tables may grow
    assert same(restored(state(), changes(now, state())), now)


def test_what_is_as_it_was_takes_no_room() -> None:
    assert changes(state(), state()) == {}
    now = state()
    now.loads[7] = 2.0
    found = changes(now, state())
    assert {name: array.tolist() for name, array in found.items()} == {
        "loads@": [7],
        "loads": [2.0],
    }
    now.loads[:] = 1.0
    assert changes(now, state()).keys() == {"loads"}


def test_the_fresh_state_is_not_changed() -> None:
    fresh, now = state(), state()
    now.loads[7] = 2.0
    restored(fresh, changes(now, fresh)).loads[7] = 9.0
    assert same(fresh, state())


@pytest.mark.parametrize(
    "arrays",
    [
        {"loads@": np.array([50], np.uint32), "loads": np.ones(1)},
        {"loads@": np.array([-1]), "loads": np.ones(1)},
        {"loads@": np.array([1, 2], np.uint32), "loads": np.ones(1)},
        {"loads@": np.array([1], np.uint32), "loads": np.ones(1, np.int64)},
        {"loads@": np.array([1], np.uint32)},
        {"hats": np.ones(1)},
    ],
)
def test_changes_that_cannot_be_are_refused(arrays: dict[str, NDArray[Any]]) -> None:
    with pytest.raises(ValueError, match=r"loads|hats"):
        restored(state(), arrays)


def test_a_fingerprint_tells_states_apart() -> None:
    assert fingerprint(state()) == fingerprint(state())
    assert fingerprint(state()) != fingerprint(state(51))
    other = state()
    other.inner.table[3] = 0
    assert fingerprint(other) != fingerprint(state())


@pytest.mark.parametrize("name", ["mixed", "pkg", "d-choices", "pd-stream"])
def test_a_strategy_that_has_seen_little_needs_little_room(name: str) -> None:
    strategy = registry.make(name)
    now, fresh = (strategy.start(1_000, 0) for _ in range(2))
    strategy.route(np.arange(20, dtype=np.uint64), now, np.empty(20, np.int32))
    found = changes(now, fresh)
    assert sum(array.nbytes for array in found.values()) < 20_000
    assert same(restored(copy_state(fresh), found), now)
