"""The checks of merging see the faults that they are there for."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from skewless.checks import CheckFailed, applicable, check_strategy
from skewless.checks.merging import MERGED_STREAMS, N_SOURCES, UNEVEN, schedules
from skewless.plumbing.compiling import JIT_OFF
from skewless.state import copy_state
from skewless.strategies import Hash, PartialKey, Shuffle
from skewless.strategies.hash import HashState
from skewless.strategies.shuffle import ShuffleState

pytestmark = pytest.mark.skipif(JIT_OFF, reason="streams of 420,000 records need compiled kernels")


@dataclass(frozen=True)
class Sound(Shuffle):
    """Every source keeps its own round: the checks must pass it, or the faults prove nothing."""

    def merge(self, states):
        first = min(int(state.next_worker[0]) for state in states)
        return states[0]._replace(next_worker=np.array([first]))

    def fork(self, merged, own, source):
        return copy_state(own)


@dataclass(frozen=True)
class AllSourcesBeginAtTheSameWorker(Sound):
    def merge(self, states):
        return states[0]._replace(next_worker=np.zeros(1, np.int64))

    def fork(self, merged, own, source):
        return copy_state(merged)


class Round(NamedTuple):
    next_worker: np.ndarray
    n_workers: np.ndarray
    told: np.ndarray  # the next worker when the last message went off, or −1


@dataclass(frozen=True)
class ForgetsWhatItSentWhileItWaited(Sound):
    def start(self, n_workers, seed, *, source=0):
        return Round(*super().start(n_workers, seed, source=source), np.array([-1]))

    def route(self, keys, state, out):
        super().route(keys, ShuffleState(*state[:2]), out)

    def wait(self, state):
        state.told[:] = 0

    def fork(self, merged, own, source):
        state = copy_state(own)
        if state.told[0] >= 0:
            state.next_worker[:] = state.told
        state.told[:] = -1
        return state


class AnySeed(HashState):
    """A state that may have another seed than it began with."""

    def check(self, fresh):
        """Accept everything."""


@dataclass(frozen=True)
class MovesItsKeysAtEveryMerge(Hash):
    def start(self, n_workers, seed, *, source=0):
        return AnySeed(*super().start(n_workers, seed, source=source))

    def route(self, keys, state, out):
        super().route(keys, HashState(*state), out)

    @property
    def traits(self):
        return Shuffle().traits

    def merge(self, states):
        return copy_state(states[0])

    def fork(self, merged, own, source):
        return own._replace(seed=own.seed * np.uint64(3))


class WithHotKeys(NamedTuple):
    next_worker: np.ndarray
    n_workers: np.ndarray
    hot: np.ndarray


@dataclass(frozen=True)
class NeverForgetsAHotKey(Sound):
    """Keeps its last key as hot, and at a merge those of all sources."""

    def start(self, n_workers, seed, *, source=0):
        return WithHotKeys(*super().start(n_workers, seed, source=source), np.zeros(500, np.uint64))

    def route(self, keys, state, out):
        super().route(keys, ShuffleState(*state[:2]), out)
        if keys.size:
            state.hot[0] = keys.max()

    def hot_keys(self, state):
        return np.unique(state.hot[state.hot > 0])

    def merge(self, states):
        known = np.unique(np.concatenate([state.hot for state in states]))[::-1][:500]
        return super().merge(states)._replace(hot=np.resize(known, 500))

    def fork(self, merged, own, source):
        return own._replace(next_worker=own.next_worker.copy(), hot=merged.hot.copy())


@dataclass(frozen=True)
class CountsTheOthersAgainAtEveryMerge(PartialKey):
    def merge(self, states):
        return states[0]._replace(loads=np.sum([state.loads for state in states], axis=0))


class WithMerges(NamedTuple):
    next_worker: np.ndarray
    n_workers: np.ndarray
    merges: np.ndarray  # [how many there were, whether the source missed one]


@dataclass(frozen=True)
class LosesItsWayWhenItMissesAMerge(Sound):
    """Sound with a constant number of sources; a source that was away uses one worker."""

    def start(self, n_workers, seed, *, source=0):
        return WithMerges(*super().start(n_workers, seed, source=source), np.zeros(2, np.int64))

    def route(self, keys, state, out):
        super().route(keys, ShuffleState(*state[:2]), out)
        if state.merges[1]:
            out[:] = 0

    def merge(self, states):
        n_merges = 1 + max(int(state.merges[0]) for state in states)
        return super().merge(states)._replace(merges=np.array([n_merges, 0]))

    def fork(self, merged, own, source):
        missed = merged.merges[0] > own.merges[0] + 1
        return copy_state(own)._replace(merges=np.array([merged.merges[0], missed]))


FAULTS = [
    (
        LosesItsWayWhenItMissesAMerge,
        "a_changing_number_of_sources_makes_nothing_worse",
        "eight sources and one in turn: a micro-batch has an imbalance of",
    ),
    (CountsTheOthersAgainAtEveryMerge, "merging_twice_changes_nothing", "source 0: record"),
    (AllSourcesBeginAtTheSameWorker, "merging_makes_nothing_worse", "every 1 records: an imbal"),
    (ForgetsWhatItSentWhileItWaited, "merging_makes_nothing_worse", "with delay: an imbalance"),
    (MovesItsKeysAtEveryMerge, "merging_makes_nothing_worse", r"\d+ replicas, and \d+ without"),
    (NeverForgetsAHotKey, "merging_makes_nothing_worse", r"\d+ hot keys, and \d+ without"),
]


def only_merging(strategy):
    return [check for check in applicable(strategy) if check.streams is not None]


def test_the_sound_one_passes():
    names = check_strategy(Sound())
    assert {check for _, check, _ in FAULTS} <= set(names)


@pytest.mark.parametrize(("fault", "check", "text"), FAULTS, ids=[f.__name__ for f, *_ in FAULTS])
def test_fault_is_seen_by_its_check(fault, check, text):
    with pytest.raises(CheckFailed, match=f"fails {check} on the stream .*{text}"):
        check_strategy(fault(), checks=[c for c in only_merging(fault()) if c.name == check])


def test_sources_merge_after_every_number_of_records_and_after_uneven_ones():
    longest = max(MERGED_STREAMS, key=lambda stream: stream.keys.size)
    found = list(schedules(longest.keys.size))
    for size in UNEVEN:
        assert any((size,) * N_SOURCES in schedule.rounds for schedule in found)
    assert any(set(UNEVEN) <= {n for shares in s.rounds for n in shares} for s in found)
    for schedule in found:
        n_merged = sum(map(sum, schedule.rounds))
        assert n_merged + N_SOURCES * schedule.tail <= longest.keys.size
        assert schedule.tail > 0  # records after the last merge


def test_a_check_without_records_has_nothing_to_merge():
    assert list(schedules(0)) == []
