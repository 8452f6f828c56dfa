"""The contract sees the faults it is there for, each by the right check."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from skewless.checks import CheckFailed, check_strategy
from skewless.kernels.hashing import seeded, to_worker, two_workers
from skewless.strategies import Hash, PartialKey
from skewless.strategies.partial_key import PartialKeyState
from skewless.strategy import Moves, Traits


def _two(key, state):
    return two_workers(np.uint64(seeded(key, state.seed[0])), state.loads.size)


@dataclass(frozen=True)
class Sound:
    """PKG in plain Python: the contract must pass it, or the faults below prove nothing."""

    name: ClassVar[str] = "sound"
    traits: ClassVar[Traits] = PartialKey().traits

    def start(self, n_workers, seed, *, source=0):
        return PartialKey().start(n_workers, seed, source=source)

    def choose(self, i, n, key, state):
        first, second = _two(key, state)
        return second if state.loads[second] < state.loads[first] else first

    def count(self, worker, state):
        state.loads[worker] += 1

    def route(self, keys, state, out):
        for i, key in enumerate(keys):
            worker = self.choose(i, keys.size, key, state)
            self.count(worker, state)
            out[i] = worker


class ForgetsLoad(Sound):
    def count(self, worker, state):
        if worker != 0:
            state.loads[worker] += 1


class LeaksTheRowIndex(Sound):
    def choose(self, i, n, key, state):
        return _two(key, state)[i % 2]


class SkipsTheLastRecord(Sound):
    def route(self, keys, state, out):
        super().route(keys[:-1], state, out)


class OffByOne(Sound):
    def choose(self, i, n, key, state):
        worker = super().choose(i, n, key, state)
        return worker + (worker == state.loads.size - 1)

    def count(self, worker, state):
        state.loads[min(worker, state.loads.size - 1)] += 1


class IgnoresCandidates(Sound):
    def choose(self, i, n, key, state):
        return int(np.argmin(state.loads))


class LooksAhead(Sound):
    def choose(self, i, n, key, state):
        return _two(key, state)[n // 2 % 2]


class WritesIntoTheKeys(Sound):
    def route(self, keys, state, out):
        super().route(keys, state, out)
        keys[:1] = 0


class RemembersOutsideTheState(Sound):
    seen: ClassVar[list[int]] = []

    def choose(self, i, n, key, state):
        self.seen.append(key)
        return _two(key, state)[len(self.seen) % 2]


class GrowingState(NamedTuple):
    seed: np.ndarray
    loads: np.ndarray
    seen: list


class KeepsAList(Sound):
    def start(self, n_workers, seed, *, source=0):
        return GrowingState(*super().start(n_workers, seed), [])


class MovesWithoutSaying(Sound):
    traits: ClassVar[Traits] = Traits(family="moving")


@dataclass(frozen=True)
class RescalesOutOfRange(Sound):
    def rescale(self, state, n_workers, capacities=None):
        return state


@dataclass(frozen=True)
class MovesEverythingOnRescale(Hash):
    @property
    def traits(self):
        return Traits(family="moving", fan_out=1, minimal_rescale=True)


@dataclass(frozen=True)
class MergeDependsOnOrder(Sound):
    def merge(self, states):
        return PartialKeyState(states[0].seed, states[0].loads.copy())


@dataclass(frozen=True)
class MergeChangesItsInput(Sound):
    def merge(self, states):
        for state in states:
            state.loads[:] = 0
        return states[0]


@dataclass(frozen=True)
class LosesAMove(Hash):
    """Gives every key another worker, and names all moves but one."""

    def rebalance(self, report, state):
        def owners(seed):
            hashes = [np.uint64(seeded(key, seed)) for key in report.keys]
            return np.array([to_worker(h, state.n_workers[0]) for h in hashes], np.int32)

        moved = state._replace(seed=state.seed + np.uint64(1))
        before, after = owners(state.seed[0]), owners(moved.seed[0])
        changed = np.flatnonzero(before != after)[1:]
        return moved, Moves(report.keys[changed], before[changed], after[changed])


FAULTS = [
    (ForgetsLoad, "loads_are_conserved"),
    (LeaksTheRowIndex, "batching_is_invisible"),
    (SkipsTheLastRecord, "every_record_gets_a_worker"),
    (OffByOne, "every_record_gets_a_worker"),
    (IgnoresCandidates, "fan_out_is_kept"),
    (LooksAhead, "earlier_records_ignore_later_ones"),
    (WritesIntoTheKeys, "keys_are_not_changed"),
    (RemembersOutsideTheState, "same_seed_same_routing"),
    (MovesWithoutSaying, "moving_family_moves_only_by_moves"),
    (RescalesOutOfRange, "rescaled_routing_stays_in_range"),
    (MovesEverythingOnRescale, "rescaling_moves_only_what_it_must"),
    (MergeDependsOnOrder, "merging_is_sound"),
    (MergeChangesItsInput, "merging_is_sound"),
    (LosesAMove, "moves_are_complete_and_true"),
]


def test_the_sound_one_passes():
    assert len(check_strategy(Sound())) >= 9


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_fault_is_seen_by_its_check(fault, check):
    with pytest.raises(CheckFailed, match=f"fails {check} on the stream"):
        check_strategy(fault())


def test_a_list_in_the_state_is_refused():
    with pytest.raises(TypeError, match="state field 'seen' is a list"):
        check_strategy(KeepsAList())
