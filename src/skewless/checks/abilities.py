"""What must be true of strategies that merge, rescale or rebalance."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.checks.routing import (
    Stream,
    expect_equal_states,
    expect_in_range,
    expect_same,
    expect_shapes,
    owners_of,
    report_of,
    routed,
    shapes,
)
from skewless.state import copy_state, named_arrays
from skewless.strategy import Forks, Rebalances, Report


def _routed_sources(strategy: Any, stream: Stream) -> list[Any]:
    """Return the states of three sources that have routed the stream in turn."""
    states = []
    for source in range(3):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        routed(strategy, np.ascontiguousarray(stream.keys[source::3]), state)
        states.append(state)
    return states


def merging_is_sound(strategy: Any, stream: Stream) -> None:
    """The states of several sources become one that routes, in any order, and none is changed."""
    states = _routed_sources(strategy, stream)
    before = [copy_state(state) for state in states]
    merged = strategy.merge(states)
    for state, copy in zip(states, before, strict=True):
        expect_equal_states(state, copy, "merge changes a state that it was given")
    out = owners_of(strategy, stream.keys, merged)
    expect_in_range(out, stream.n_workers, "by the merged state")
    backwards = owners_of(strategy, stream.keys, strategy.merge(states[::-1]))
    expect_same(backwards, out, "merging in another order")


def condensed_states_merge_as_whole_ones(strategy: Any, stream: Stream) -> None:
    """Merging what was condensed gives the merged state, and so does condensing that once more."""
    states = _routed_sources(strategy, stream)
    before = [copy_state(state) for state in states]
    parts = [strategy.condense(state) for state in states]
    fresh = strategy.start(stream.n_workers, stream.seed)
    merged = strategy.merge(states)
    found = strategy.merge_condensed(parts, fresh)
    expect_equal_states(found, merged, "merging what was condensed")
    for state, copy in zip(states, before, strict=True):
        expect_equal_states(state, copy, "condensing changes a state")
    if isinstance(strategy, Forks):
        for source, state in enumerate(states):
            forked = strategy.fork(merged, state, source)
            expect_equal_states(forked, merged, "a source that has sent nothing since")
    again = strategy.merge_condensed([strategy.condense(merged)], fresh)
    expect_equal_states(again, merged, "condensing a merged state")
    unused = strategy.start(stream.n_workers, stream.seed)
    expect_equal_states(fresh, unused, "merging changes the fresh state")


def intervals_begin_soundly(strategy: Any, stream: Stream) -> None:
    """After `begin`, with any number of records, states keep their size and route in range."""
    for n_records in (0, 1, stream.keys.size, 10**12):
        state = strategy.start(stream.n_workers, stream.seed)
        before = shapes(state)
        for _ in range(3):
            strategy.begin(state, n_records)
            out = routed(strategy, stream.keys, state)
            expect_in_range(out, stream.n_workers, f"after begin with {n_records} records")
        expect_shapes(before, state)
        for name, array in named_arrays(state):
            finite = array.dtype.kind != "f" or not np.isnan(array).any()
            assert finite, f"after begin with {n_records} records: {name} has NaN"


def homes_are_the_same_for_all_sources(strategy: Any, stream: Stream) -> None:
    """A key has one home, whatever a source has sent; asking for homes changes nothing."""
    first = strategy.start(stream.n_workers, stream.seed)
    wanted = strategy.homes(stream.keys, first)
    assert np.shape(wanted) == stream.keys.shape, "homes does not return one worker for each key"
    expect_in_range(wanted, stream.n_workers, "as homes")
    for source, keys in enumerate(np.array_split(stream.keys, 3)):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        routed(strategy, keys, state)
        before = copy_state(state)
        expect_same(strategy.homes(stream.keys, state), wanted, "homes of another source")
        expect_equal_states(state, before, "asking for homes")


def rescaled_routing_stays_in_range(strategy: Any, stream: Stream) -> None:
    """After workers joined, left or changed speed, only workers that exist get records."""
    for n_workers in (stream.n_workers + 3, max(1, stream.n_workers // 2), stream.n_workers):
        state = strategy.start(stream.n_workers, stream.seed)
        routed(strategy, stream.keys, state)
        for speeds in (None, 1.0 + np.arange(n_workers) % 2):
            rescaled = strategy.rescale(copy_state(state), n_workers, speeds)
            out = routed(strategy, stream.keys, rescaled)
            expect_in_range(out, n_workers, f"from {stream.n_workers} to {n_workers} workers")


def rescaling_moves_only_what_it_must(strategy: Any, stream: Stream) -> None:
    """Workers that join only receive keys; workers that leave only give theirs."""
    keys = np.unique(stream.keys)
    state = strategy.start(stream.n_workers, stream.seed)
    routed(strategy, stream.keys, state)
    before = owners_of(strategy, keys, state)
    for n_workers in (stream.n_workers + 1, max(1, stream.n_workers - 1)):
        after = owners_of(strategy, keys, strategy.rescale(copy_state(state), n_workers))
        moved = before != after
        allowed = (after >= stream.n_workers) | (before >= n_workers)
        assert not (moved & ~allowed).any(), (
            f"{int((moved & ~allowed).sum())} keys move between workers that stay "
            f"({stream.n_workers} to {n_workers} workers)"
        )


def any_worker_may_leave_or_is_refused(strategy: Any, stream: Stream) -> None:
    """A worker whose capacity is 0 gets no record, or the strategy says that it cannot do that."""
    n_workers = stream.n_workers
    if n_workers == 1:
        return
    keys = np.unique(stream.keys)
    state = strategy.start(n_workers, stream.seed)
    routed(strategy, stream.keys, state)
    before = owners_of(strategy, keys, state)
    for left in sorted({0, n_workers // 2, n_workers - 1}):
        capacities = np.ones(n_workers)
        capacities[left] = 0.0
        if not strategy.traits.any_may_leave:
            try:
                strategy.rescale(copy_state(state), n_workers, capacities)
            except ValueError as error:
                said = str(error)
            else:
                raise AssertionError("takes a capacity of 0, but its traits say that it cannot")
            assert "capacities" in said, f"does not name the capacities: {said}"
            continue
        fewer = strategy.rescale(copy_state(state), n_workers, capacities)
        after = owners_of(strategy, keys, fewer)
        out = routed(strategy, stream.keys, fewer)
        for found in (after, out):
            expect_in_range(found, n_workers, "without a worker")
            assert (found != left).all(), f"worker {left} has left, and gets records"
        if strategy.traits.minimal_rescale:
            moved = (before != after) & (before != left)
            assert not moved.any(), f"{int(moved.sum())} keys of workers that stay move"
        back = strategy.rescale(fewer, n_workers)
        expect_in_range(routed(strategy, stream.keys, back), n_workers, "when it has come back")


def _bounded(report: Report, owners: Workers, n_workers: int) -> Report:
    """Return the same report with the lighter half of the keys left out: they are the rest."""
    order = np.argsort(-report.loads, kind="stable")
    named, others = np.sort(order[: order.size // 2]), order[order.size // 2 :]
    rest = np.bincount(owners[others], weights=report.loads[others], minlength=n_workers)
    keys, loads, sizes = report.keys[named], report.loads[named], report.state_sizes[named]
    return Report(keys, loads, sizes, rest.astype(np.float64))


def reports_may_leave_keys_out(strategy: Any, stream: Stream) -> None:
    """A report with a rest leads to a plan with true moves; a rest of 0 changes nothing."""
    n_workers = stream.n_workers
    state = strategy.start(n_workers, stream.seed)
    for keys in np.array_split(stream.keys, 3):
        full = report_of(keys)
        zeros = full._replace(rest=np.zeros(n_workers))
        plain, _ = strategy.rebalance(full, copy_state(state))
        same, _ = strategy.rebalance(zeros, copy_state(state))
        wanted = owners_of(strategy, stream.keys, plain)
        found = owners_of(strategy, stream.keys, same)
        expect_same(found, wanted, "with a rest of 0 for every worker")
        owners = owners_of(strategy, full.keys, state)
        state = _rebalanced(strategy, _bounded(full, owners, n_workers), state)
        out = owners_of(strategy, stream.keys, state)
        expect_in_range(out, n_workers, "after a rest")


def moves_are_complete_and_true(strategy: Any, stream: Stream) -> None:
    """`Moves` names every key that changes worker, once, with where it was and where it goes."""
    state = strategy.start(stream.n_workers, stream.seed)
    for keys in np.array_split(stream.keys, 3):
        routed(strategy, np.ascontiguousarray(keys), state)
        state = _rebalanced(strategy, report_of(keys), state)


def _rebalanced(strategy: Any, report: Report, state: Any, every: Keys | None = None) -> Any:
    """Return the state after the report, whose moves must be true.

    They must be so for `every` key; None: for the keys that the report or a move names.
    """
    old = copy_state(state)
    state, moves = strategy.rebalance(report, state)
    # A plan may move keys that it knew before.
    known = np.union1d(report.keys, moves.keys) if every is None else every
    assert np.isin(moves.keys, known).all(), "a key moves that was never seen"
    before, after = owners_of(strategy, known, old), owners_of(strategy, known, state)
    assert np.unique(moves.keys).size == moves.keys.size, "a key moves twice"
    places = np.searchsorted(known, moves.keys)
    expected = before.copy()
    assert np.array_equal(before[places], moves.origins), "a move begins where the key is not"
    expected[places] = moves.targets
    expect_same(after, expected, "a key changes worker and no move names it")
    assert (moves.origins != moves.targets).all(), "a key moves to where it is"
    return state


def _windows(stream: Stream) -> list[Report]:
    """Return reports of parts of the stream; state sizes differ from loads."""
    reports = [report_of(part) for part in np.array_split(stream.keys, 3)]
    return [one._replace(state_sizes=1.0 + one.keys % np.uint64(5)) for one in reports]


def the_same_report_moves_nothing_twice(strategy: Any, stream: Stream) -> None:
    """A plan from an unchanged report equals the present plan: no key moves back and forth."""
    state = strategy.start(stream.n_workers, stream.seed)
    for report in _windows(stream):
        state, _ = strategy.rebalance(report, state)
        again, moves = strategy.rebalance(report, copy_state(state))
        assert moves.keys.size == 0, f"the same report again moves {moves.keys.size} keys"
        expect_same(
            owners_of(strategy, stream.keys, again),
            owners_of(strategy, stream.keys, state),
            "after the same report again",
        )


def _nearly_even(keys: Keys, owners: Workers, tolerance: float, n_workers: int) -> Report:
    """Return a report by which each worker is within the tolerance, some above and some below.

    A worker without a key has its load from keys that the report does not name.
    """
    wanted = np.ones(n_workers)
    half = n_workers // 2
    off = min(0.9 * tolerance, 0.5)
    wanted[:half] += off
    wanted[n_workers - half :] -= off  # as many below as above: the mean stays 1
    n_keys = np.bincount(owners, minlength=n_workers)
    loads: Floats = (wanted / np.maximum(n_keys, 1))[owners]
    rest = np.where(n_keys == 0, wanted, 0.0)
    return Report(keys, loads, np.ones(keys.size), rest)


def loads_within_the_tolerance_move_nothing(strategy: Any, stream: Stream) -> None:
    """While each worker is within `tolerance` of its fair share, keys stay where they are."""
    state = strategy.start(stream.n_workers, stream.seed)
    keys = np.unique(stream.keys)
    for report in _windows(stream):
        owners = owners_of(strategy, keys, state)
        calm = _nearly_even(keys, owners, strategy.tolerance, stream.n_workers)
        same, moves = strategy.rebalance(calm, copy_state(state))
        assert moves.keys.size == 0, f"{moves.keys.size} keys move without need"
        expect_same(owners_of(strategy, keys, same), owners, "after loads within the tolerance")
        state, _ = strategy.rebalance(report, state)


def keys_that_no_report_names_stay_or_are_named(strategy: Any, stream: Stream) -> None:
    """A key changes worker only by a move, even while reports do not name it."""
    every = np.unique(stream.keys)
    state = strategy.start(stream.n_workers, stream.seed)
    for report in _windows(stream):
        state = _rebalanced(strategy, report, state, every)


def rescaling_names_its_moves(strategy: Any, stream: Stream) -> None:
    """`rescale_keys` returns the state of `rescale`, and every given key that changes worker."""
    keys = np.unique(stream.keys)
    state = strategy.start(stream.n_workers, stream.seed)
    if isinstance(strategy, Rebalances):
        state, _ = strategy.rebalance(_windows(stream)[0], state)
    before = owners_of(strategy, keys, state)
    for n_workers in (stream.n_workers + 3, max(1, stream.n_workers // 2), stream.n_workers):
        for speeds in (None, 1.0 + np.arange(n_workers) % 2):
            rescaled, moves = strategy.rescale_keys(keys, copy_state(state), n_workers, speeds)
            plain = strategy.rescale(copy_state(state), n_workers, speeds)
            after = owners_of(strategy, keys, rescaled)
            expect_same(after, owners_of(strategy, keys, plain), "by rescale_keys and by rescale")
            changed = before != after
            assert np.array_equal(moves.keys, keys[changed]), "other keys move than it names"
            assert np.array_equal(moves.origins, before[changed]), "a move begins elsewhere"
            assert np.array_equal(moves.targets, after[changed]), "a move ends elsewhere"
