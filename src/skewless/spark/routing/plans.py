"""Plans: what all sources of a query route by during one micro-batch, made from reports.

A plan is a pure function of the plan before it and of the reports of that batch. Whichever task
needs it first makes it and publishes it; all others, and every replay of the batch, read it. That
task holds one report in memory at a time if the strategy rebalances, and all reports if it merges.

What a plan holds depends on what the strategy can do:

- it merges: the merged state of all sources;
- it rebalances: the state after a rebalance with the heaviest keys of the last batch, and with the
  load of each worker that those keys do not account for;
- neither: nothing; each source continues from its last report.

A plan also names, for each source, the batch of its last report. So a source that skipped some
batches still finds its state. The plan lists the workers and how they changed: a query can be
restarted with others, and `scale_to` changes them between two micro-batches. If measured speeds are
asked for and the strategy uses them, the plan holds how long the last batches of each worker took.

Spark's stages are barriers: when a micro-batch begins, nothing of the one before is waiting. So a
strategy that infers the backlog of workers begins each micro-batch with idle workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from skewless.arrays import Floats, Ints, Workers
from skewless.spark.ledger.entry_checks import require_plan, require_report, restored_from, usable
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerMismatch
from skewless.spark.ledger.names import SOURCES, WORKERS, plan_name
from skewless.spark.ledger.state_changes import changes, fingerprint, with_changes
from skewless.spark.routing import requests, worker_steps
from skewless.spark.routing.bounded_counts import BoundedCounts, add, bounded_counts, heaviest
from skewless.spark.routing.plan_turns import latest_plan, made_or_awaited
from skewless.spark.routing.speeds import last_batches, seconds_per_record, uses_speeds
from skewless.spark.routing.worker_steps import Step, Steps, Wishes, steps_of
from skewless.state import copy_state
from skewless.strategies.rescaling import places
from skewless.strategy import AnyStrategy, Condenses, Forks, Merges, Rebalances, Report, Rescales

#: Batches whose files are kept before the one that runs. Spark replays the last one or two; the
#: others let `explain_balance` look back.
KEPT_BATCHES = 32
_PURGE_EVERY = 8
_SHARED = "shared."
_OWN = "own."
_BASE = "base"  # a checksum of the state whose changes are held

#: The most keys that a source reports for a batch, the heaviest of them; 16 bytes each. Twice as
#: many are counted exactly. With more, each is counted too low by at most 1/32,768 of the records.
REPORTED_KEYS = 1 << 15
#: The same for the keys of all sources together: the controller sees at most twice as many.
_PLANNED_KEYS = 1 << 17


@dataclass(frozen=True)
class PlanMaker:
    """How a router decides: the strategy, and everything that makes its decisions repeatable."""

    strategy: AnyStrategy
    n_workers: int
    seed: int = 0
    capacities: tuple[float, ...] | None = None  # relative speeds; None: not given
    steps: Steps = ()  # earlier workers, then these; empty: only these
    measures_speeds: bool = False  # use the times that workers report, if the strategy can
    given: Wishes | None = None  # what this run asks for; None: these workers

    @property
    def wishes(self) -> Wishes:
        """What this run asks for, whichever workers it has now."""
        return self.given or Wishes(self.n_workers, self.n_workers, self.capacities)

    @property
    def history(self) -> Steps:
        """All workers so far, the present ones last."""
        return self.steps or ((self.n_workers, self.capacities),)

    def start(self, source: int) -> Any:
        """Return the state of a source that has learned nothing."""
        (n_first, speeds), *later = self.history
        state = self.strategy.start(n_first, self.seed, source=source)
        for step in later if speeds is None else self.history:
            state = self._rescaled(state, step)
        return state

    def seen(self) -> BoundedCounts | None:
        """Return a counter for the keys of a batch, if the strategy learns from them."""
        return bounded_counts(REPORTED_KEYS) if isinstance(self.strategy, Rebalances) else None

    def begin(self, ledger: Ledger, batch: int, source: int) -> tuple[PlanMaker, Any]:
        """Return the maker for `batch`, with earlier workers, and the state of `source`."""
        plan = ledger.read(plan_name(batch))
        if plan is None:
            plan = made_or_awaited(ledger, batch, lambda: self.next_plan(ledger, batch))
            if batch % _PURGE_EVERY == 0:
                ledger.purge(batch - KEPT_BATCHES)
                requests.purge_requests(ledger)
        require_plan(plan)
        now, _ = self._next(plan, None)
        if not _is_shared(plan):
            return now, now._own(ledger, plan, source)
        state = now._state(plan, _SHARED, source)
        # A plan has all reports of the batch before, so no source is ahead of it. So a strategy
        # that condenses continues with the plan itself.
        if isinstance(self.strategy, Forks) and not isinstance(self.strategy, Condenses):
            is_idle = hasattr(self.strategy, "waiting")
            own = now.start(source) if is_idle else now._own(ledger, plan, source)
            return now, self.strategy.fork(state, own, source)
        return now, state

    def next_plan(self, ledger: Ledger, batch: int) -> Entry:
        """Return the plan for `batch`, from the last one before it and its reports."""
        last = latest_plan(ledger, before=batch)
        if last is None:
            # A request counts from the next batch on: this one may be a replay that runs after it.
            about = {"after": -1, "request": requests.NONE_TAKEN} | self._about()
            return Entry({name: np.empty(0, np.int64) for name in ("sources", "reported")}, about)
        before, plan = last
        require_plan(plan)
        reported = dict(
            zip(plan.arrays["sources"].tolist(), plan.arrays["reported"].tolist(), strict=True)
        )
        now: list[int] = []
        reports = self._checked(ledger.reports(SOURCES, before), now)
        first = next(reports, None)
        reports = reports if first is None else chain([first], reports)
        # The workers of that batch differ from the plan's if the query was restarted with others.
        told = plan if first is None else first[1]
        then = self._with(steps_of(told, self.history))
        request = requests.latest_request(ledger)
        following, numbers = self._next(told, request, plan.about.get("request"))
        measured: dict[str, Floats] = {}
        if self.measures_speeds and uses_speeds(self.strategy):
            times = dict(ledger.reports(WORKERS, before))
            measured = last_batches(plan, times, following.n_workers)
        next_plan = following._learned(then, plan, reports, measured)
        reported |= dict.fromkeys(now, before)
        sources = sorted(s for s, at in reported.items() if at >= batch - KEPT_BATCHES)
        next_plan.arrays["sources"] = np.array(sources, np.int64)
        next_plan.arrays["reported"] = np.array([reported[one] for one in sources], np.int64)
        next_plan.arrays.update(measured)
        next_plan.about.update({"after": before, "request": numbers.taken} | following._about())
        if numbers.warning is not None:
            next_plan.about["warned"] = numbers.warning
            if plan.about.get("warned") != numbers.warning:
                requests.warn(numbers.warning)
        return next_plan

    def _about(self) -> dict[str, Any]:
        """Describe the workers for an entry: so far, asked for, and possible."""
        asked, most, speeds = self.wishes
        about = {"asked": asked, "most": most, "speeds": speeds and list(speeds)}
        about |= worker_steps.steps_about(self.history)
        return about | {"rescales": isinstance(self.strategy, Rescales)}

    def _with(self, steps: Steps) -> PlanMaker:
        """Return the maker for the workers of the last of these steps."""
        if steps == self.history:
            return self
        n_workers, speeds = steps[-1]
        return replace(self, n_workers=n_workers, capacities=speeds, steps=steps, given=self.wishes)

    def _next(
        self, told: Entry, request: tuple[int, int] | None, taken: Any = None
    ) -> tuple[PlanMaker, requests.Decided]:
        """Return the maker for the workers that follow those of an entry, and what decided them."""
        steps = steps_of(told, self.history)
        n_last, last_speeds = steps[-1]
        asked, most, speeds = self.wishes
        before = {"asked": told.about.get("asked", n_last), "request": taken}
        # A run without a number goes on as if it had asked for that of the run before.
        asked = before["asked"] if asked is None else asked
        following = replace(self, given=Wishes(asked, most, speeds))
        numbers = requests.decided(asked, most, request, n_last, before)
        if speeds is not None and not any(speeds[: numbers.n_workers]):
            numbers = requests.others_able(numbers, (n_last, asked, most), most, speeds)
        n_workers = numbers.n_workers
        own = worker_steps.kept_speeds(steps, n_workers) if speeds is None else speeds[:n_workers]
        if n_workers == n_last and own in (None, last_speeds):
            return following._with(steps), numbers
        if not isinstance(self.strategy, Rescales):
            raise LedgerMismatch(
                f"the ledger was written for workers={n_last}, not {n_workers}: strategy "
                f"{self.strategy.name!r} cannot change the number of workers. Use another ledger "
                f"folder, or workers={n_last}"
            )
        return following._with((*steps, (n_workers, own))), numbers

    def _places(self, step: Step) -> Workers | None:
        """Return the workers by the numbers that the strategy has for them; None: the same."""
        is_able = self.strategy.traits.any_may_leave or step[1] is None
        return None if is_able else places(np.array(step[1]))

    def _rescaled(self, state: Any, step: Step) -> Any:
        (n_workers, speeds), there = step, self._places(step)
        capacities = None if speeds is None else np.array(speeds)
        if capacities is not None and there is not None:
            n_workers, capacities = there.size, capacities[there]
        return self.strategy.rescale(state, n_workers, capacities)  # type: ignore[attr-defined]

    def workers_of(self, numbers: Workers) -> Workers:
        """Return the workers that a strategy means by its numbers: others may have left."""
        there = self._places(self.history[-1])
        return numbers if there is None else there[numbers]

    def _advanced(self, state: Any, steps: Steps) -> Any:
        """Return a state that went through `steps` so far, rescaled to this maker's workers."""
        if steps == self.history:
            return state
        is_past = self.history[: len(steps)] == steps
        for step in self.history[len(steps) :] if is_past else self.history[-1:]:
            state = self._rescaled(state, step)
        return state

    def report(
        self,
        state: Any,
        loads: Ints,
        seen: BoundedCounts | None,
        about: dict[str, Any],
        spent: Ints | None = None,
        costs: Floats | None = None,
    ) -> Entry:
        """Return the report of a source after a batch: its state, or the heaviest of its keys.

        The load of keys that are left out is in the loads of their workers. Loads are records. If
        records have weights, `costs` is the cost by worker. `spent` is the same in whole units, and
        `seen` counts those units by key.
        """
        told = self._entry(_OWN, state) if seen is None else Entry({})
        if seen is not None:
            told.arrays["keys"], told.arrays["counts"] = heaviest(seen, REPORTED_KEYS)
        sent = {"loads": loads, "costs": costs, "spent": spent}
        told.arrays.update({name: row for name, row in sent.items() if row is not None})
        return Entry(told.arrays, told.about | self._about() | about)

    def _checked(
        self, reports: Iterator[tuple[int, Entry]], sources: list[int]
    ) -> Iterator[tuple[int, Entry]]:
        """Yield the reports after a check, and append the source of each to `sources`."""
        with_keys = isinstance(self.strategy, Rebalances)
        for source, report in reports:
            n_workers = steps_of(report, self.history)[-1][0]
            require_report(report, n_workers, with_keys=with_keys)
            sources.append(source)
            yield source, report

    def _learned(
        self,
        then: PlanMaker,
        plan: Entry,
        reports: Iterator[tuple[int, Entry]],
        measured: Mapping[str, Floats],
    ) -> Entry:
        """Return the state for the next plan, if sources share one.

        The reports are about the workers of `then`.
        """
        if isinstance(self.strategy, Rebalances):
            state = then._state(plan, _SHARED, 0) if _is_shared(plan) else then.start(0)
            report = then._summed((report for _, report in reports), state)
            state, _ = self.strategy.rebalance(report, copy_state(state))
            return self._entry(_SHARED, self._advanced(state, then.history))
        if isinstance(self.strategy, Merges):
            parts = [self._part(report, source) for source, report in reports]
            if not parts and self.history == steps_of(plan, self.history):
                return _only(plan, _SHARED)
            if not parts and not _is_shared(plan):
                return Entry({})
            merged = self._merged(parts) if parts else self._state(plan, _SHARED, 0)
            seconds = seconds_per_record(measured) if measured else None
            if seconds is not None and hasattr(self.strategy, "observe"):
                self.strategy.observe(merged, seconds_per_record=seconds)
            return self._entry(_SHARED, merged)
        deque(reports, maxlen=0)  # only their sources are of interest
        return Entry({})

    def _summed(self, reports: Iterator[Entry], state: Any) -> Report:
        """Return the keys of all sources with their loads; the state of every key weighs the same.

        The load of each worker is known exactly. The part that no listed key accounts for is its
        rest: sources leave out light keys, and so does the sum over all sources. Of m records on
        average, a worker gets m ± √m by chance.
        """
        counts = bounded_counts(_PLANNED_KEYS)
        loads = np.zeros(self.n_workers)
        n_records = 0
        for report in reports:
            add(counts, report.arrays["keys"], report.arrays["counts"])
            loads += report.arrays.get("spent", report.arrays["loads"])
            n_records += int(report.arrays["loads"].sum())
        there = self._places(self.history[-1])
        loads = loads if there is None else loads[there]
        keys, amounts = heaviest(counts, 2 * _PLANNED_KEYS)
        owners = np.full(keys.size, -1, np.int32)
        self.strategy.route(keys, copy_state(state), owners)
        rest = np.maximum(loads - np.bincount(owners, weights=amounts, minlength=loads.size), 0.0)
        costs = amounts.astype(np.float64)
        noise = float(max(n_records / loads.size, 1.0) ** -0.5)
        return Report(keys, costs, np.ones(keys.size), rest if rest.any() else None, noise)

    def _told(self, state: Any) -> Any:
        """Return the state as the ledger keeps it: whole, or condensed if a merge needs less."""
        return self.strategy.condense(state) if isinstance(self.strategy, Condenses) else state

    def _merged(self, parts: list[Any]) -> Any:
        if isinstance(self.strategy, Condenses):
            return self.strategy.merge_condensed(parts, self.start(0))
        return self.strategy.merge(parts)  # type: ignore[attr-defined]

    def _entry(self, prefix: str, state: Any) -> Entry:
        """Build the ledger's entry of a state: its changes from a fresh state."""
        base, checksum = self._base
        found = {prefix + name: array for name, array in changes(self._told(state), base).items()}
        return Entry(found, {prefix + _BASE: checksum})

    @cached_property
    def _base(self) -> tuple[Any, int]:
        """The state whose changes the ledger holds, and its checksum; its arrays never change."""
        base = self._told(self.start(0))
        return base, fingerprint(base)

    def _restored(self, entry: Entry, prefix: str, source: int) -> Any:
        """Return the state of `source` that an entry holds; it shares no array with another.

        The entry is about this maker's workers.
        """
        base, checksum = self._base
        if entry.about.get(prefix + _BASE) != checksum:
            raise LedgerMismatch(
                f"{entry.where or 'the ledger'} was written by another version of this strategy, "
                "which starts with another state: use another ledger folder and checkpoint, or "
                "the version that wrote it"
            )
        found = _only(entry, prefix).arrays
        with usable(entry):
            whole = with_changes(base, {n[len(prefix) :]: array for n, array in found.items()})
        return restored_from(entry, self._told(self.start(source)), whole)

    def _state(self, entry: Entry, prefix: str, source: int) -> Any:
        """Return the state of an entry, rescaled from its workers to this maker's."""
        then = self._with(steps_of(entry, self.history))
        told = then._restored(entry, prefix, source)
        whole = then._merged([told]) if isinstance(self.strategy, Condenses) else told
        return self._advanced(whole, then.history)

    def _part(self, report: Entry, source: int) -> Any:
        """Return the state that a report keeps for merging, rescaled to this maker's workers."""
        if steps_of(report, self.history) == self.history:
            return self._restored(report, _OWN, source)
        return self._told(self._state(report, _OWN, source))

    def _own(self, ledger: Ledger, plan: Entry, source: int) -> Any:
        """Return the state with which `source` ended its last batch."""
        at = np.flatnonzero(plan.arrays["sources"] == source)
        if at.size and not isinstance(self.strategy, Rebalances):
            name = ledger.counted(SOURCES, int(plan.arrays["reported"][at[0]])).get(source)
            report = None if name is None else ledger.read(name)
            if report is not None:
                return self._state(report, _OWN, source)
        return self.start(source)


def _is_shared(plan: Entry) -> bool:
    return _SHARED + _BASE in plan.about or any(name.startswith(_SHARED) for name in plan.arrays)


def _only(entry: Entry, prefix: str) -> Entry:
    """Build an entry of only the arrays and values whose names begin with a prefix."""
    arrays = {name: array for name, array in entry.arrays.items() if name.startswith(prefix)}
    about = {name: value for name, value in entry.about.items() if name.startswith(prefix)}
    return Entry(arrays, about)
