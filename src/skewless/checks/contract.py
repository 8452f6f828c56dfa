"""Which checks there are, which of them a strategy must pass, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from skewless.checks import abilities, merging, routing, tampering
from skewless.checks.routing import STREAMS, Stream
from skewless.strategy import (
    AnyStrategy,
    Condenses,
    Merges,
    Rebalances,
    Rescales,
    RescalesKeys,
    Weighs,
)


class CheckFailed(AssertionError):  # noqa: N818 - it is read as a sentence
    """A strategy breaks the contract; the text says which check, on which stream, and how."""


@dataclass(frozen=True)
class Check:
    """One claim about a strategy on a stream.

    A check that has streams of its own is run on those, whatever streams are given.
    """

    claim: Callable[[AnyStrategy, Stream], None]
    applies: Callable[[AnyStrategy], bool] = lambda strategy: True
    streams: tuple[Stream, ...] | None = None

    @property
    def name(self) -> str:
        """The claim in words."""
        return self.claim.__name__


def _decides_per_record(strategy: AnyStrategy) -> bool:
    return strategy.traits.decides == "record"


def _able(kind: Any) -> Callable[[AnyStrategy], bool]:
    return lambda strategy: isinstance(strategy, kind)


_merges, _weighs = _able(Merges), _able(Weighs)
_rescales, _rebalances = _able(Rescales), _able(Rebalances)

CHECKS: tuple[Check, ...] = (
    Check(routing.every_record_gets_a_worker),
    Check(routing.same_seed_same_routing),
    Check(routing.keys_are_not_changed),
    Check(routing.earlier_records_ignore_later_ones),
    Check(routing.batching_is_invisible, _decides_per_record),
    Check(routing.state_is_bounded_arrays),
    Check(routing.restored_state_continues),
    Check(tampering.saved_states_are_accepted),
    Check(routing.loads_are_conserved),
    Check(routing.fan_out_is_kept, lambda s: s.traits.fan_out is not None),
    Check(routing.moving_family_moves_only_by_moves, lambda s: s.traits.family == "moving"),
    Check(abilities.merging_is_sound, _merges),
    Check(abilities.condensed_states_merge_as_whole_ones, _able(Condenses)),
    Check(abilities.intervals_begin_soundly, lambda s: hasattr(s, "begin")),
    Check(abilities.homes_are_the_same_for_all_sources, lambda s: hasattr(s, "homes")),
    Check(abilities.rescaled_routing_stays_in_range, _rescales),
    Check(abilities.any_worker_may_leave_or_is_refused, _rescales),
    Check(abilities.rescaling_moves_only_what_it_must, lambda s: s.traits.minimal_rescale),
    Check(abilities.moves_are_complete_and_true, _rebalances),
    Check(abilities.reports_may_leave_keys_out, _rebalances),
    Check(abilities.the_same_report_moves_nothing_twice, _rebalances),
    Check(
        abilities.loads_within_the_tolerance_move_nothing,
        lambda s: _rebalances(s) and hasattr(s, "tolerance"),
    ),
    Check(
        abilities.keys_that_no_report_names_stay_or_are_named,
        lambda s: _rebalances(s) and not s.traits.moves_unnamed,
    ),
    Check(abilities.rescaling_names_its_moves, _able(RescalesKeys)),
    Check(routing.every_weighted_record_gets_a_worker, _weighs),
    Check(routing.weights_of_one_change_nothing, _weighs),
    Check(routing.weights_are_not_changed, _weighs),
    Check(routing.weighted_batching_is_invisible, lambda s: _weighs(s) and _decides_per_record(s)),
    Check(routing.weights_of_zero_keep_the_state_finite, _weighs),
    Check(routing.weighted_state_goes_on, _weighs),
    Check(routing.weighted_fan_out_is_kept, lambda s: _weighs(s) and s.traits.fan_out is not None),
    Check(merging.merging_twice_changes_nothing, _merges, merging.MERGED_STREAMS),
    Check(merging.merging_makes_nothing_worse, _merges, merging.MERGED_STREAMS),
    Check(
        merging.a_changing_number_of_sources_makes_nothing_worse, _merges, merging.CHANGING_STREAMS
    ),
)


def applicable(strategy: AnyStrategy) -> list[Check]:
    """Return the checks that `strategy` must pass, by its traits and abilities."""
    return [check for check in CHECKS if check.applies(strategy)]


def check_strategy(
    strategy: AnyStrategy,
    streams: Iterable[Stream] = STREAMS,
    *,
    checks: Iterable[Check] | None = None,
) -> list[str]:
    """Run every applicable check, or these, on every stream; return the names of the checks.

    Raises `CheckFailed` at the first broken claim.
    """
    run = applicable(strategy) if checks is None else list(checks)
    for stream in streams:
        for check in run:
            if check.streams is None:
                _claimed(check, strategy, stream)
    for check in run:
        for stream in check.streams or ():
            _claimed(check, strategy, stream)
    return [check.name for check in run]


def _claimed(check: Check, strategy: AnyStrategy, stream: Stream) -> None:
    try:
        check.claim(strategy, stream)
    except AssertionError as error:
        raise CheckFailed(
            f"{strategy!r} fails {check.name} on the stream {stream.name!r} "
            f"({stream.keys.size} records, {stream.n_workers} workers): {error}"
        ) from error
