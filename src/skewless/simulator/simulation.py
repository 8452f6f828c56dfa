"""The sources of one run: what they decide, what happens to them, and what has been counted."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.simulator.clock import Clock
from skewless.simulator.cooperation import take_over
from skewless.simulator.membership import Membership
from skewless.simulator.records import Records, decide, joined
from skewless.simulator.run import Rebalance
from skewless.simulator.tally import Tally, Windows
from skewless.state import copy_state
from skewless.strategy import (
    AnyStrategy,
    Begins,
    Infers,
    Moves,
    Observes,
    Rebalances,
    Report,
    RescalesKeys,
    Waits,
)

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
        state_windows: int,
        sync: int,
        sync_delay: int,
        horizon: int,
    ) -> None:
        """Begin with these states, before the first record."""
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
        self._sync = sync  # records from one merge of the states to the next; 0: never
        self._sync_delay = sync_delay
        self._next_sync = sync
        self._answer: tuple[int, Any] | None = None  # from which record on, and what all know
        self._horizon = horizon  # records from the beginning of one interval to the next
        self._next_begin = 0
        # A plan that is being made: when it is ready, and how long this machine took.
        self._coming: tuple[float, Any, Moves, Report, float] | None = None
        self._n_warm_plans = 0
        if membership.needs_telling:
            self._rescale()
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile (or load) the kernels, so that their first call is not measured."""
        weights = np.ones(1) if self.tally.weighted else None
        record = Records(np.zeros(1, np.uint64), weights)
        decide(self.strategy, record, copy_state(self.states[0]), np.zeros(1, np.int32))

    def process(self, records: Records) -> None:
        """Route these records, as far as nothing has to be decided that later ones tell."""
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
        if self._keeps_history or self.clock is not None:
            cuts.append(end_of_window)
        if self._sync:
            cuts.append(self._next_sync)
        if self._answer is not None:
            cuts.append(self._answer[0])
        if self._members.next_event is not None:
            cuts.append(max(self._members.next_event, self.n_records + 1))
        if self._coming is not None:
            cuts.append(self.n_records + max(self._window // _STEPS, 1))
        return min(cuts) if cuts else None

    def _process(self, records: Records) -> None:
        for event in self._members.due(self.n_records):
            tells = self._members.apply(event)
            if self.clock is not None and event.kind == "stop":
                self.clock.stop(event.worker, event.value)
            elif self.clock is not None and event.kind != "leave":
                self.clock.set_capacity(event.worker, event.value)
            self.tally.set_capacities(self._members.capacities)
            if tells:
                self._rescale()
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
        self._synchronise()

    def _route(self, records: Records) -> Workers:
        n_records = records.keys.size
        workers = np.full(n_records, -1, np.int32)
        n_sources = len(self.states)
        for source, state in enumerate(self.states):
            first = (source - self.n_records) % n_sources
            share = records.part(slice(first, None, n_sources))
            out = np.full(share.keys.size, -1, np.int32)
            begin = perf_counter_ns()
            decide(self.strategy, share, state, out)
            self.route_ns += perf_counter_ns() - begin
            workers[first::n_sources] = out
        self.n_records += n_records
        n_workers = self.tally.loads.size
        if n_records and not 0 <= workers.min() <= workers.max() < n_workers:
            raise RuntimeError(f"{self.strategy.name} sent a record outside 0 … {n_workers - 1}")
        return workers

    def _begin(self) -> None:
        """Begin an interval when it is due."""
        if isinstance(self.strategy, Begins) and self.n_records >= self._next_begin:
            for state in self.states:
                self.strategy.begin(state, -(-self._horizon // len(self.states)))
            self._next_begin = (self.n_records // self._horizon + 1) * self._horizon

    def _end_window(self) -> None:
        """Let the strategy learn what only a whole window tells."""
        if self.clock is not None and isinstance(self.strategy, Infers):
            self.inferred.append(
                np.sum([self.strategy.waiting(state) for state in self.states], axis=0)
            )
        if self.clock is not None and isinstance(self.strategy, Observes):
            self._tell_speeds(self.strategy, self.clock.seconds_per_record())
        if not self._keeps_history:
            return
        window = joined(self._in_window)
        self._in_window = []
        keys, index, counts = np.unique(window.keys, return_inverse=True, return_counts=True)
        self._history.append((keys, counts.astype(np.float64)))
        costs = counts if window.weights is None else np.bincount(index, window.weights)
        if isinstance(self.strategy, Rebalances):
            self._plan(self.strategy, _report(self._history, costs.astype(np.float64)))

    def _tell_speeds(self, strategy: Observes[Any], seconds: Floats) -> None:
        """Tell all sources how long a record took; where none came, as long as on average."""
        known = np.isfinite(seconds)
        if strategy.wants_speeds and known.any():
            seconds = np.where(known, seconds, seconds[known].mean())
            for state in self.states:
                strategy.observe(state, seconds_per_record=seconds)

    def _synchronise(self) -> None:
        """Send what the sources know to each other when it is due, and let answers arrive."""
        strategy: Any = self.strategy
        if self._sync and self.n_records >= self._next_sync:
            self._next_sync = (self.n_records // self._sync + 1) * self._sync
            if self._answer is None:  # else the sources still wait for the last one
                self._answer = self.n_records + self._sync_delay, strategy.merge(self.states)
                if self._sync_delay and isinstance(strategy, Waits):
                    for state in self.states:
                        strategy.wait(state)
        if self._answer is not None and self.n_records >= self._answer[0]:
            merged = self._answer[1]
            self._answer = None
            self.states = [take_over(strategy, merged, s, i) for i, s in enumerate(self.states)]

    # Plans of the moving family.

    def _plan(self, strategy: Rebalances[Any], report: Report) -> None:
        """Make a plan. With a clock it takes time; no other is made meanwhile."""
        if self._coming is not None:
            return
        state, moves, seconds = self._timed_plan(strategy, report)
        ready = 0.0
        if self.clock is not None:
            timing = self.clock.timing
            ready = self.clock.now + timing.plan + timing.plan_per_key * report.keys.size
        self._coming = ready, state, moves, report, seconds
        self._adopt_plan()

    def _timed_plan(self, strategy: Rebalances[Any], report: Report) -> tuple[Any, Moves, float]:
        """Return a plan and its time; the first ones are made twice: compiling is not timed."""
        for _ in range(2):
            begin = perf_counter_ns()
            state, moves = strategy.rebalance(report, copy_state(self.states[0]))
            seconds = (perf_counter_ns() - begin) / 1e9
            warm = 2 if moves.keys.size else 1
            if self._n_warm_plans >= warm:
                break
            self._n_warm_plans = warm
        return state, moves, seconds

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
                n_entries=_entries(state),
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
        """Tell all sources of the workers of now; keys that change worker take their state."""
        keys, sizes = _state_sizes(self._history)
        moves = None
        for source, state in enumerate(self.states):
            self.states[source], moves = self._members.rescaled(state, keys)
        self._coming = None  # it was made for other workers
        if self._answer is not None:
            at, merged = self._answer
            self._answer = at, self._members.rescaled(merged, keys)[0]
        if moves is not None:
            self._transfer(moves, keys, sizes)


def _entries(state: Any) -> int:
    """Return how many keys the routing table of a moving strategy has."""
    return int(state.n_entries[0]) if hasattr(state, "n_entries") else 0


def _state_sizes(history: deque[tuple[Keys, Floats]]) -> tuple[Keys, Floats]:
    """Return the records of each key over all remembered windows."""
    if not history:
        return np.empty(0, np.uint64), np.empty(0)
    keys, index = np.unique(np.concatenate([k for k, _ in history]), return_inverse=True)
    sizes = np.bincount(index, weights=np.concatenate([counts for _, counts in history]))
    return keys, sizes.astype(np.float64)


def _report(history: deque[tuple[Keys, Floats]], last_costs: Floats) -> Report:
    """Return cost in the last window and state over all remembered ones, by key."""
    keys, sizes = _state_sizes(history)
    last_keys, _ = history[-1]
    loads = np.zeros(keys.size)
    loads[np.searchsorted(keys, last_keys)] = last_costs
    return Report(keys, loads, sizes)
