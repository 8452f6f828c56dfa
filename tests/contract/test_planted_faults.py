"""The contract sees the faults it is there for, each by the right check."""

from collections import namedtuple
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from skewless.checks import STREAMS, CheckFailed, check_strategy
from skewless.kernels.hashing import seeded, to_worker, two_workers
from skewless.parameters import require_all_stay
from skewless.strategies import Hash, PartialKey
from skewless.strategies.hash import HashState
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


class BeginsOutOfRange(Sound):
    """Sends the first record of an interval to a worker that is none."""

    def begin(self, state, n_records):
        state.loads[0] = -1

    def choose(self, i, n, key, state):
        return state.loads.size if state.loads[0] < 0 else super().choose(i, n, key, state)

    def count(self, worker, state):
        state.loads[worker % state.loads.size] += 1


class RescalesOutOfRange(Sound):
    def rescale(self, state, n_workers, capacities=None):
        require_all_stay(self.name, capacities)
        return state


@dataclass(frozen=True)
class MovesEverythingOnRescale(Hash):
    @property
    def traits(self):
        return Traits(family="moving", fan_out=1, minimal_rescale=True)

    def rescale(self, state, n_workers, capacities=None):
        require_all_stay(self.name, capacities)
        return super().rescale(state, n_workers, capacities)


@dataclass(frozen=True)
class KeepsSendingToAWorkerThatLeft(Hash):
    def rescale(self, state, n_workers, capacities=None):
        return super().rescale(state, n_workers)


@dataclass(frozen=True)
class CannotButSaysNothing(Hash):
    @property
    def traits(self):
        return Traits(family="moving", fan_out=1)


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
class CondensesTooMuch(Sound):
    """Merges to the mean of the loads, and rounds them when it condenses."""

    def merge(self, states):
        return self.merge_condensed([state.loads for state in states], states[0])

    def condense(self, state):
        return state.loads // 2 * 2

    def merge_condensed(self, parts, fresh):
        return PartialKeyState(fresh.seed, sum(parts) // len(parts))


@dataclass(frozen=True)
class CountsAPlanTwice(Sound):
    """Merges to the sum of the loads, half of which a plan that is read again adds once more."""

    def merge(self, states):
        return self.merge_condensed([state.loads for state in states], states[0])

    def condense(self, state):
        return state.loads.copy()

    def merge_condensed(self, parts, fresh):
        return PartialKeyState(fresh.seed, sum(parts) + sum(parts) // 2)


@dataclass(frozen=True)
class KeepsWhatTheLedgerDoesNotHold(Sound):
    """Merges to the mean of the loads and condenses, but each source goes on with its own loads."""

    def merge(self, states):
        return self.merge_condensed([state.loads for state in states], states[0])

    def condense(self, state):
        return state.loads.copy()

    def merge_condensed(self, parts, fresh):
        return PartialKeyState(fresh.seed, sum(parts) // len(parts))

    def fork(self, merged, own, source):
        return PartialKeyState(merged.seed.copy(), own.loads.copy())


#: The state of `Hash` without what its class requires: it may have another seed than it began with.
AnySeed = namedtuple("AnySeed", HashState._fields)


@dataclass(frozen=True)
class LosesAMove(Hash):
    """Gives keys workers by a hash of its own for each report, and names all moves but one."""

    @property
    def traits(self):
        return Traits(family="moving", fan_out=1, moves_unnamed=True, any_may_leave=True)

    def start(self, n_workers, seed, *, source=0):
        return AnySeed(*super().start(n_workers, seed, source=source))

    def route(self, keys, state, out):
        super().route(keys, HashState(*state), out)  # the kernel is compiled for that one

    def rebalance(self, report, state):
        def owners(seed):
            hashes = [np.uint64(seeded(key, seed)) for key in report.keys]
            return np.array([to_worker(h, state.n_workers[0]) for h in hashes], np.int32)

        moved = state._replace(seed=np.full_like(state.seed, report.keys.size + 1))
        before, after = owners(state.seed[0]), owners(moved.seed[0])
        changed = np.flatnonzero(before != after)[1:]
        return moved, Moves(report.keys[changed], before[changed], after[changed])


@dataclass(frozen=True)
class TakesARestForAReset(Hash):
    """Keeps its plan, unless a report has a rest."""

    def rebalance(self, report, state):
        if report.rest is not None:
            state = state._replace(seed=state.seed + np.uint64(1))
        none = np.empty(0, np.int32)
        return state, Moves(np.empty(0, np.uint64), none, none)


@dataclass(frozen=True)
class SoundWithWeights(Sound):
    """Sends a record to the candidate to which less cost was sent."""

    def start(self, n_workers, seed, *, source=0):
        state = super().start(n_workers, seed, source=source)
        return state._replace(loads=state.loads.astype(np.float64))

    def add(self, weight, worker, state):
        state.loads[worker] += weight

    def route_weighted(self, keys, weights, state, out):
        for i, key in enumerate(keys):
            worker = self.choose(i, keys.size, key, state)
            self.add(weights[i], worker, state)
            out[i] = worker


class SkipsRecordsThatWeighNothing(SoundWithWeights):
    def route_weighted(self, keys, weights, state, out):
        worth = weights > 0
        part = out[worth]
        super().route_weighted(keys[worth], weights[worth], state, part)
        out[worth] = part


class WeighsByAnotherRule(SoundWithWeights):
    def route_weighted(self, keys, weights, state, out):
        for i, key in enumerate(keys):
            first, second = _two(key, state)
            out[i] = first if state.loads[first] < state.loads[second] else second  # ties differ
            self.add(weights[i], out[i], state)


class CountsOneMoreThanTheWeights(SoundWithWeights):
    """Routes as it should, and leaves a state that says otherwise."""

    def route_weighted(self, keys, weights, state, out):
        super().route_weighted(keys, weights, state, out)
        state.loads[:] += 1.0


class WritesIntoTheWeights(SoundWithWeights):
    def route_weighted(self, keys, weights, state, out):
        super().route_weighted(keys, weights, state, out)
        weights[:1] = 1.0


class WritesIntoTheWeightedKeys(SoundWithWeights):
    def route_weighted(self, keys, weights, state, out):
        super().route_weighted(keys, weights, state, out)
        if (weights != 1.0).any():  # stays unseen where weights are 1
            keys[:1] = 0


class TakesTheFirstWeightForAll(SoundWithWeights):
    def route_weighted(self, keys, weights, state, out):
        super().route_weighted(keys, np.repeat(weights[:1], keys.size), state, out)


class DividesByTheWeight(SoundWithWeights):
    amount: ClassVar[float] = np.nan

    def add(self, weight, worker, state):
        state.loads[worker] += weight if weight > 0 else self.amount


class DividesByNothing(DividesByTheWeight):
    amount: ClassVar[float] = np.inf


class CannotRouteAfterFractions(SoundWithWeights):
    def route(self, keys, state, out):
        super().route(keys, state, out)
        if (state.loads % 1.0).any():
            out[:] = state.loads.size


class IgnoresCandidatesOfHeavyRecords(SoundWithWeights):
    def route_weighted(self, keys, weights, state, out):
        for i, key in enumerate(keys):
            anywhere = int(np.argmin(state.loads))
            out[i] = anywhere if weights[i] > 3 else self.choose(i, keys.size, key, state)
            self.add(weights[i], out[i], state)


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
    (BeginsOutOfRange, "intervals_begin_soundly"),
    (RescalesOutOfRange, "rescaled_routing_stays_in_range"),
    (MovesEverythingOnRescale, "rescaling_moves_only_what_it_must"),
    (KeepsSendingToAWorkerThatLeft, "any_worker_may_leave_or_is_refused"),
    (CannotButSaysNothing, "any_worker_may_leave_or_is_refused"),
    (MergeDependsOnOrder, "merging_is_sound"),
    (MergeChangesItsInput, "merging_is_sound"),
    (CondensesTooMuch, "condensed_states_merge_as_whole_ones"),
    (CountsAPlanTwice, "condensed_states_merge_as_whole_ones"),
    (KeepsWhatTheLedgerDoesNotHold, "condensed_states_merge_as_whole_ones"),
    (LosesAMove, "moves_are_complete_and_true"),
    (TakesARestForAReset, "reports_may_leave_keys_out"),
    (SkipsRecordsThatWeighNothing, "every_weighted_record_gets_a_worker"),
    (WeighsByAnotherRule, "weights_of_one_change_nothing"),
    (CountsOneMoreThanTheWeights, "weights_of_one_change_nothing"),
    (WritesIntoTheWeights, "weights_are_not_changed"),
    (WritesIntoTheWeightedKeys, "weights_are_not_changed"),
    (TakesTheFirstWeightForAll, "weighted_batching_is_invisible"),
    (DividesByTheWeight, "weights_of_zero_keep_the_state_finite"),
    (DividesByNothing, "weights_of_zero_keep_the_state_finite"),
    (CannotRouteAfterFractions, "weighted_state_goes_on"),
    (IgnoresCandidatesOfHeavyRecords, "weighted_fan_out_is_kept"),
]


def test_the_sound_one_passes():
    assert len(check_strategy(Sound())) >= 9


@pytest.mark.slow
def test_the_sound_one_with_weights_passes_their_checks_as_well():
    of_weights = {check for fault, check in FAULTS if issubclass(fault, SoundWithWeights)}
    assert set(check_strategy(SoundWithWeights())) - set(check_strategy(Sound())) == of_weights


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_fault_is_seen_by_its_check(fault, check):
    streams = [stream._replace(keys=stream.keys.copy()) for stream in STREAMS]  # some write there
    with pytest.raises(CheckFailed, match=f"fails {check} on the stream"):
        check_strategy(fault(), streams)


def test_a_list_in_the_state_is_refused():
    with pytest.raises(TypeError, match="state field 'seen' is a list"):
        check_strategy(KeepsAList())
