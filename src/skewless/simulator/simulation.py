"""The sources of one run: what they decide, what happens to them, and what has been counted."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.simulator.forwarding import Forwarding
from skewless.simulator.records import Records, decide, joined
from skewless.simulator.run import Rebalance
from skewless.simulator.starting import Membership
from skewless.simulator.syncing import Exchanges
from skewless.simulator.tally import Tally, Windows
from skewless.simulator.timed.clock import Clock
from skewless.simulator.timed.timing import Event
from skewless.state import copy_state
from skewless.strategy import AnyStrategy, Moves, Rebalances, Report, RescalesKeys

#: Pieces of a window after which it is seen whether a plan is ready, where plans take time.
_STEPS = 20


class Simulation:
    """Routes records in pieces, and stops between them where something has to be decided."""

    def __init__(
        self,
        strategy: AnyStrategy,
        states: list[Any],
        tally: Tally,
        membership: Membership,
        clock: Clock | None,
        *,
        exchanges: Exchanges | None = None,
        forwarding: Forwarding | None = None,
        state_windows: int,
        horizon: int,
    ) -> None:
        self.strategy = strategy
        self.states = states
        self.tally = tally
        self.clock = clock
        self.n_records = 0
        self.route_ns = 0
        self.rebalances: list[Rebalance] = []
        self.inferred: list[Floats] = []  # by window: records that wait for each worker, inferred
        self._members = membership
        self._window = tally.window
        self._pending: list[Records] = []  # records that have no worker yet
        self._n_pending = 0
        self._in_window: list[Records] = []  # records of the window that is not complete
        # The records by key of the last windows: what a key's state reaches back to.
        self._history: deque[tuple[Keys, Floats]] = deque(maxlen=state_windows)
        self._keeps_history = isinstance(strategy, Rebalances) or (
            isinstance(strategy, RescalesKeys) and membership.next_event is not None
        )
        self._by_batch = strategy.traits.decides == "batch"
        self.exchanges = exchanges  # None: the sources learn alone
        self.forwarding = forwarding
        self._horizon = horizon  # records from the beginning of one interval to the next
        self._next_begin = 0
        # A plan that is being made: when it is ready, and how long this machine took.
        self._coming: tuple[float, Any, Moves, Report, float] | None = None
        self._n_warm_plans = 0
        if membership.needs_telling:
            self._rescale()
        # Compile (or load) the kernels, so that their first call is not measured.
        record = Records(np.zeros(1, np.uint64), np.ones(1) if tally.weighted else None)
        decide(strategy, record, copy_state(self.states[0]), np.zeros(1, np.int32))

    def process(self, records: Records) -> None:
        """Route these records up to the next point that depends on later ones."""
        self._pending.append(records)
        self._n_pending += records.keys.size
        self._route_pieces(final=False)

    def finish(self) -> Windows:
        """Route what has not filled a piece, and return the counts of all windows."""
        self._route_pieces(final=True)
        return self.tally.finish()

    def _route_pieces(self, *, final: bool) -> None:
        while self._n_pending:
            cut = self._next_cut()
            size = self._n_pending if cut is None else cut - self.n_records
            if size > self._n_pending:
                if not final:
                    return
                size = self._n_pending
            records = joined(self._pending)
            self._pending = [records.part(slice(size, None))]
            self._n_pending -= size
            self._process(records.part(slice(size)))

    def _next_cut(self) -> int | None:
        """Return the record before which something may happen next."""
        end_of_window = (self.n_records // self._window + 1) * self._window
        if self._by_batch:
            return end_of_window  # a batch is not cut: all else waits for its end
        cuts = []
        if self._keeps_history or self.clock is not None or self.forwarding is not None:
            cuts.append(end_of_window)
        if self.exchanges is not None:
            cuts.append(self.exchanges.next_event)
        if self._members.next_event is not None:
            cuts.append(max(self._members.next_event, self.n_records + 1))
        if self._coming is not None:
            cuts.append(self.n_records + max(self._window // _STEPS, 1))
        return min(cuts) if cuts else None

    def _process(self, records: Records) -> None:
        for event in self._members.due(self.n_records):
            self._happen(event)
        self._adopt_plan()
        self._begin()
        workers = self._route(records)
        self.tally.add(records.keys, workers, records.weights)
        if self.clock is not None:
            self.clock.add(records.keys, workers, records.weights)
        if self._keeps_history:
            self._in_window.append(records)
        if self.n_records % self._window == 0:
            self._end_window()
        if self.exchanges is not None:
            self.states = self.exchanges.exchange(self.n_records, self.states)
        if self.forwarding is not None and self.n_records % self._window == 0:
            self._forward(self.forwarding)

    def _happen(self, event: Event) -> None:
        """Apply an event to a worker, and rescale the strategy if it is told of the event."""
        tells = self._members.apply(event)
        if self.clock is not None and event.capacity:  # a worker that leaves finishes what it has
            self.clock.queues.capacities[event.worker] = event.capacity
        self.tally.capacities[:] = self._members.capacities
        if tells:
            self._rescale()

    def _route(self, records: Records) -> Workers:
        """Let each source route its records, and measure how long it takes."""
        workers = np.full(records.keys.size, -1, np.int32)
        for source, state in enumerate(self.states):
            places = slice((source - self.n_records) % len(self.states), None, len(self.states))
            own, out = records.part(places), workers[places].copy()
            begin = perf_counter_ns()
            decide(self.strategy, own, state, out)
            self.route_ns += perf_counter_ns() - begin
            workers[places] = out
            if self.forwarding is not None:
                self.forwarding.add(source, own.keys, out)
        self.n_records += records.keys.size
        return self._members.workers_of(workers)

    def _begin(self) -> None:
        """Begin an interval when it is due."""
        if hasattr(self.strategy, "begin") and self.n_records >= self._next_begin:
            for state in self.states:
                self.strategy.begin(state, -(-self._horizon // len(self.states)))
            self._next_begin = (self.n_records // self._horizon + 1) * self._horizon

    def _end_window(self) -> None:
        """Give the strategy what is known only at the end of a window."""
        if self.clock is not None and hasattr(self.strategy, "waiting"):
            self.inferred.append(
                np.sum([self.strategy.waiting(state) for state in self.states], axis=0)
            )
        if self.clock is not None and hasattr(self.strategy, "wants_speeds"):
            self._tell_speeds(self.strategy, self.clock.seconds_per_record())
        if not self._keeps_history:
            return
        window = joined(self._in_window)
        self._in_window = []
        keys, index, counts = np.unique(window.keys, return_inverse=True, return_counts=True)
        self._history.append((keys, counts.astype(np.float64)))
        costs = counts if window.weights is None else np.bincount(index, window.weights)
        if isinstance(self.strategy, Rebalances):
            known, sizes = _state_sizes(self._history)
            loads = np.zeros(known.size)  # a key without records in this window has state only
            loads[np.searchsorted(known, keys)] = costs
            self._plan(self.strategy, Report(known, loads, sizes))

    def _tell_speeds(self, strategy: Any, seconds: Floats) -> None:
        """Give all sources the seconds per record; a worker without records gets the mean."""
        known = np.isfinite(seconds)
        if strategy.wants_speeds and known.any():
            seconds = np.where(known, seconds, seconds[known].mean())
            for state in self.states:
                strategy.observe(state, seconds_per_record=seconds)

    def _forward(self, forwarding: Forwarding) -> None:
        """Count what needs no merging by key; an exchange at the end of a window belongs to it."""
        told = [len(self.states) == 1] * len(self.states)
        if self.exchanges is not None:
            told, self.exchanges.told = self.exchanges.told, told  # the next window has had none
        to_merge = forwarding.end_window(self.states, told)
        if self.clock is not None:
            self.clock.merge_only(to_merge)

    # Plans of the moving family.

    def _plan(self, strategy: Rebalances[Any], report: Report) -> None:
        """Make a plan. With a clock it takes time; no other is made meanwhile."""
        if self._coming is not None:
            return
        for _ in range(2):  # the first ones are made twice: compiling is not timed
            begin = perf_counter_ns()
            state, moves = strategy.rebalance(report, copy_state(self.states[0]))
            seconds = (perf_counter_ns() - begin) / 1e9
            warm = 2 if moves.keys.size else 1
            if self._n_warm_plans >= warm:
                break
            self._n_warm_plans = warm
        ready = 0.0 if self.clock is None else self.clock.now + self.clock.timing.plan
        self._coming = ready, state, moves, report, seconds
        self._adopt_plan()

    def _adopt_plan(self) -> None:
        """Route by a plan as soon as it is ready; the keys that it moves wait for their state."""
        if self._coming is None or (self.clock is not None and self.clock.now < self._coming[0]):
            return
        _, state, moves, report, seconds = self._coming
        self._coming = None
        # A key of the table that the report does not name may move as well; it has no state here.
        moving = np.isin(report.keys, moves.keys)
        self.rebalances.append(
            Rebalance(
                window=max(self.n_records - 1, 0) // self._window,
                plan_seconds=seconds,
                state_moved=float(report.state_sizes[moving].sum()),
                state_held=float(report.state_sizes.sum()),
                n_moves=moves.keys.size,
                n_entries=int(state.n_entries[0]) if hasattr(state, "n_entries") else 0,
            )
        )
        self.states = [state, *(copy_state(state) for _ in self.states[1:])]
        self._transfer(moves, report.keys, report.state_sizes)

    def _transfer(self, moves: Moves, keys: Keys, sizes: Floats) -> None:
        """Send the state of moving keys: each worker one key after the other."""
        if self.clock is None or not self.clock.timing.transfer or not moves.keys.size:
            return
        at = np.minimum(np.searchsorted(keys, moves.keys), keys.size - 1)
        size = np.where(keys[at] == moves.keys, sizes[at], 0.0)
        order = np.argsort(moves.origins, kind="stable")
        sent = np.cumsum(size[order])
        first = np.searchsorted(moves.origins[order], moves.origins[order])  # of the same origin
        sent -= (sent - size[order])[first]
        self.clock.hold(moves.keys[order], self.clock.now + sent * self.clock.timing.transfer)

    def _rescale(self) -> None:
        """Rescale all sources to the present workers; keys that change worker take their state."""
        keys, sizes = _state_sizes(self._history)
        moves = None
        for source, state in enumerate(self.states):
            self.states[source], moves = self._members.rescaled(state, keys)
        self._coming = None  # it was made for other workers
        if self.exchanges is not None:
            self.exchanges.change(lambda state: self._members.rescaled(state, keys)[0])
        if moves is not None:
            self._transfer(moves, keys, sizes)


def _state_sizes(history: deque[tuple[Keys, Floats]]) -> tuple[Keys, Floats]:
    """Return the records of each key over all remembered windows."""
    if not history:
        return np.empty(0, np.uint64), np.empty(0)
    keys, index = np.unique(np.concatenate([k for k, _ in history]), return_inverse=True)
    sizes = np.bincount(index, weights=np.concatenate([counts for _, counts in history]))
    return keys, sizes.astype(np.float64)
