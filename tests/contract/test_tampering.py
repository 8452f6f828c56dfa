"""States that somebody changed are refused, or safe; a strategy that forgets to check is found."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from contract.cases import CASES
from skewless.checks.tampering import (
    failures,
    failures_elsewhere,
    saved_states_are_accepted,
    stream_of,
)
from skewless.state import Unsound, layout, named_arrays, require_within, restored
from skewless.strategies import Cascade, Hash
from skewless.strategy import Traits


class CursorState(NamedTuple):
    loads: np.ndarray
    cursor: np.ndarray


@dataclass(frozen=True)
class Forgetful:
    """Sends by a cursor in its state, and takes it from any file."""

    name: ClassVar[str] = "forgetful"
    traits: ClassVar[Traits] = Traits(family="splitting")

    def start(self, n_workers, seed, *, source=0):
        return CursorState(np.zeros(n_workers, np.int64), np.zeros(1, np.int64))

    def route(self, keys, state, out):
        for i in range(keys.size):
            out[i] = state.cursor[0]
            state.loads[state.cursor[0]] += 1
            state.cursor[0] = (state.cursor[0] + 1) % state.loads.size


class CheckedState(CursorState):
    def check(self, fresh):
        require_within("cursor", self.cursor, 0, self.loads.size - 1)
        require_within("loads", self.loads, 0, 2**56)


@dataclass(frozen=True)
class Careful(Forgetful):
    def start(self, n_workers, seed, *, source=0):
        return CheckedState(*super().start(n_workers, seed, source=source))


class Refuses(CursorState):
    def check(self, fresh):
        require_within("loads", self.loads, 0, 0)


@dataclass(frozen=True)
class RefusesItself(Forgetful):
    def start(self, n_workers, seed, *, source=0):
        return Refuses(*super().start(n_workers, seed, source=source))


@dataclass(frozen=True)
class NeverEnds(Careful):
    def route(self, keys, state, out):
        super().route(keys, state, out)
        while state.loads.max() > 2**20:
            out[:] = 0


def test_a_state_that_is_not_checked_is_found():
    found = list(failures(Forgetful(), 200, seed=0))
    assert any("IndexError" in line for line in found)
    assert any("goes to worker" in line or "out of bounds" in line for line in found)


def test_a_state_that_is_checked_passes():
    assert list(failures(Careful(), 200, seed=0)) == []


def test_a_loop_without_end_is_found(monkeypatch):
    monkeypatch.setattr("skewless.checks.tampering._LONGEST_S", 0.2)
    assert any("TimeoutError" in line for line in failures(NeverEnds(), 100, seed=0))


def test_a_strategy_that_refuses_its_own_state_is_found():
    with pytest.raises(AssertionError, match="its own state is refused: loads must be"):
        saved_states_are_accepted(RefusesItself(), stream_of(4, 0))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda arrays: arrays.pop("seed"), "it has no array 'seed'"),
        (lambda arrays: arrays.update(more=np.zeros(1)), "it has an unknown array 'more'"),
        (lambda arrays: arrays.update(owners=np.zeros(1, np.int32)), r"owners must have the shape"),
        (lambda arrays: arrays.update(seed=np.zeros(1, ">u8")), "seed must be of type uint64"),
        (lambda arrays: arrays["seed"].fill(1), "seed must be as the strategy starts with it"),
        (lambda arrays: arrays["heavy.unit"].fill(np.nan), "heavy.unit must be from 1 .* not nan"),
    ],
)
def test_what_is_wrong_is_said_by_name(change, text):
    fresh = Cascade().start(4, 0)
    arrays = {name: array.copy() for name, array in named_arrays(fresh)}
    change(arrays)
    with pytest.raises(Unsound, match=text):
        restored(fresh, arrays)


def test_the_layout_tells_states_apart():
    assert layout(Cascade().start(4, 0)) == layout(Cascade().start(4, 9, source=3))
    assert layout(Cascade().start(4, 0)) != layout(Hash().start(4, 0))
    assert layout(CursorState(np.zeros(1), np.zeros(1))) != layout(
        CursorState(np.zeros(1), np.zeros(1, np.int64))
    )


@pytest.mark.statistics
def test_tampered_states_of_all_strategies_are_refused_or_safe():
    assert failures_elsewhere(CASES, 120) == []
