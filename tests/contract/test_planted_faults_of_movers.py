"""The checks of moving strategies see the faults that they are there for."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from skewless.checks import CheckFailed, check_strategy
from skewless.moves import moves_between
from skewless.strategies import Hash, MinTable, Mixed, Readj
from skewless.strategies.mixed import routing_table
from skewless.strategy import Moves


@dataclass(frozen=True)
class GoesToAndFro(Mixed):
    """Moves all reported keys one worker on, and says so."""

    def rebalance(self, report, state):
        owners = routing_table.owners(report.keys, state)
        targets = (owners + 1) % np.int32(state.capacities.size)
        entries = routing_table.all_entries(state)
        others = entries.part(~np.isin(entries.keys, report.keys))
        homes = routing_table.homes(report.keys, state)
        moved = routing_table.moved(state, report.keys, homes, targets, others)
        return moved, moves_between(report.keys, owners, targets)


@dataclass(frozen=True)
class TooEager(MinTable):
    """Promises calm within its tolerance, and keeps to a quarter of it."""

    def rebalance(self, report, state):
        strict = MinTable(tolerance=self.tolerance / 4)
        return strict.rebalance(report, state)


@dataclass(frozen=True)
class FillsOnlyFromAbove(MinTable):
    """Takes every worker that has less than its fair share for one that has too little."""

    def rebalance(self, report, state):
        loads = np.bincount(
            routing_table.owners(report.keys, state), report.loads, state.capacities.size
        )
        strict = loads.min(initial=0.0) < loads.mean()
        return replace(self, tolerance=0.0 if strict else self.tolerance)._plain(report, state)

    def _plain(self, report, state):
        return super().rebalance(report, state)


@dataclass(frozen=True)
class ForgetsWithoutSaying(Readj):
    """Drops the entries of keys that a report does not name, and names only reported keys."""

    def rebalance(self, report, state):
        state, moves = super().rebalance(report, state)
        named = np.isin(moves.keys, report.keys)
        return state, Moves(*(part[named] for part in moves))


@dataclass(frozen=True)
class RescalesInSilence(Hash):
    """Names no move of a rescale."""

    def rescale_keys(self, keys, state, n_workers, capacities=None):
        state, moves = super().rescale_keys(keys, state, n_workers, capacities)
        return state, Moves(*(part[:0] for part in moves))


FAULTS = [
    (GoesToAndFro(), "the_same_report_moves_nothing_twice"),
    (TooEager(), "loads_within_the_tolerance_move_nothing"),
    (FillsOnlyFromAbove(), "loads_within_the_tolerance_move_nothing"),
    (ForgetsWithoutSaying(forget_after=1), "keys_that_no_report_names_stay_or_are_named"),
    (RescalesInSilence(), "rescaling_names_its_moves"),
]


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=[type(f).__name__ for f, _ in FAULTS])
def test_fault_is_seen_by_its_check(fault, check):
    with pytest.raises(CheckFailed, match=f"fails {check} on the stream"):
        check_strategy(fault)


@pytest.mark.slow
def test_what_the_faults_are_made_from_passes():
    for sound in (Mixed(), MinTable(), Readj(forget_after=1), Hash()):
        assert check_strategy(sound)
