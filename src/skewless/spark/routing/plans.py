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
batches still finds its state. The plan lists the workers and how they changed, so that a query can
be restarted with others. If measured speeds are asked for and the strategy uses them, the plan
holds how long the last batches of each worker took.

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

from skewless.arrays import Floats, Ints
from skewless.parameters import require_all_stay
from skewless.spark.ledger.entry_checks import corrupt, require_plan, require_report, restored_from
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerMismatch
from skewless.spark.ledger.state_changes import changes, fingerprint, with_changes
from skewless.spark.routing.bounded_counts import BoundedCounts, add, bounded_counts, heaviest
from skewless.spark.routing.plan_turns import made_or_awaited
from skewless.spark.routing.speeds import last_batches, seconds_per_record, uses_speeds
from skewless.spark.routing.worker_steps import Step, Steps, steps_about, steps_of
from skewless.state import Unsound, copy_state
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
#: What one record of weight 1 counts where records have weights.
_UNITS = float(1 << 20)
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

    def __post_init__(self) -> None:
        """Refuse a capacity of 0 where the strategy cannot use it."""
        if self.capacities is not None and not self.strategy.traits.any_may_leave:
            require_all_stay(self.strategy.name, np.array(self.capacities))

    @property
    def history(self) -> Steps:
        """All workers so far, the present ones last."""
        return self.steps or ((self.n_workers, self.capacities),)

    def start(self, source: int) -> Any:
        """Return the state of a source that has learned nothing."""
        (n_first, speeds), *later = self.history
        state = self.strategy.start(n_first, self.seed, source=source)
        if speeds is not None:
            state = self._rescaled(state, (n_first, speeds))
        for step in later:
            state = self._rescaled(state, step)
        return state

    def seen(self) -> BoundedCounts | None:
        """Return a counter for the keys of a batch, if the strategy learns from them."""
        return bounded_counts(REPORTED_KEYS) if isinstance(self.strategy, Rebalances) else None

    def begin(self, ledger: Ledger, batch: int, source: int) -> tuple[PlanMaker, Any]:
        """Return the maker for `batch`, with earlier workers, and the state of `source`."""
        plan = ledger.read_plan(batch)
        if plan is None:
            plan = made_or_awaited(ledger, batch, lambda: self.next_plan(ledger, batch))
            if batch % _PURGE_EVERY == 0:
                ledger.purge(batch - KEPT_BATCHES)
        require_plan(plan)
        now = self._after(self._steps_of(plan))
        if not _holds(plan, _SHARED):
            return now, now._own(ledger, plan, source)
        state = now._shared(plan, source)
        # A plan has all reports of the batch before, so no source is ahead of it. So a strategy
        # that condenses continues with the plan itself.
        if isinstance(self.strategy, Forks) and not isinstance(self.strategy, Condenses):
            is_idle = hasattr(self.strategy, "waiting")
            own = now.start(source) if is_idle else now._own(ledger, plan, source)
            return now, self.strategy.fork(state, own, source)
        return now, state

    def next_plan(self, ledger: Ledger, batch: int) -> Entry:
        """Return the plan for `batch`, from the last one before it and its reports."""
        last = ledger.latest_plan(before=batch)
        if last is None:
            begun = Entry({"sources": _ints([]), "reported": _ints([])}, {"after": -1})
            return Entry(begun.arrays, begun.about | steps_about(self.history))
        before, plan = last
        require_plan(plan)
        reported = dict(
            zip(plan.arrays["sources"].tolist(), plan.arrays["reported"].tolist(), strict=True)
        )
        now: list[int] = []
        reports = self._checked(ledger.each_report(before), now)
        first = next(reports, None)
        reports = reports if first is None else chain([first], reports)
        # The workers of that batch differ from the plan's if the query was restarted with others.
        then = self._with(self._steps_of(plan if first is None else first[1]))
        following = self._after(then.history)
        measured = self._measured(ledger, before, plan)
        next_plan = following._learned(then, plan, reports, measured)
        reported |= dict.fromkeys(now, before)
        sources = sorted(s for s, at in reported.items() if at >= batch - KEPT_BATCHES)
        next_plan.arrays["sources"] = _ints(sources)
        next_plan.arrays["reported"] = _ints([reported[source] for source in sources])
        next_plan.arrays.update(measured)
        next_plan.about["after"] = before
        next_plan.about.update(steps_about(following.history))
        return next_plan

    def _measured(self, ledger: Ledger, before: int, plan: Entry) -> dict[str, Floats]:
        """Read the times that the workers took, if they are used."""
        if not (self.measures_speeds and uses_speeds(self.strategy)):
            return {}
        return last_batches(plan, ledger.read_workers(before), self.n_workers)

    def _steps_of(self, entry: Entry) -> Steps:
        """Return the workers so far of an entry; LedgerCorrupt if one left that cannot leave."""
        steps = steps_of(entry, self.history)
        if not self.strategy.traits.any_may_leave:
            for _, speeds in steps:
                if speeds is not None and 0.0 in speeds:
                    text = f"worker_steps: no worker of {self.strategy.name!r} can have capacity 0"
                    raise corrupt(entry, Unsound(text))
        return steps

    def _with(self, steps: Steps) -> PlanMaker:
        """Return the maker for the workers of the last of these steps."""
        if steps == self.history:
            return self
        n_workers, capacities = steps[-1]
        return replace(self, n_workers=n_workers, capacities=capacities, steps=steps)

    def _after(self, steps: Steps) -> PlanMaker:
        """Return the maker for the same workers, after these steps."""
        n_last, last_speeds = steps[-1]
        own = self.capacities
        if n_last == self.n_workers and own in (None, last_speeds):
            return self._with(steps)
        if not isinstance(self.strategy, Rescales):
            raise LedgerMismatch(
                f"the ledger was written for workers={n_last}, not {self.n_workers}: strategy "
                f"{self.strategy.name!r} cannot change the number of workers. Use another ledger "
                f"folder, or workers={n_last}"
            )
        return self._with((*steps, (self.n_workers, own)))

    def _rescaled(self, state: Any, step: Step) -> Any:
        n_workers, speeds = step
        capacities = None if speeds is None else np.array(speeds)
        return self.strategy.rescale(state, n_workers, capacities)  # type: ignore[attr-defined]

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
        if seen is None:
            told = self._entry(_OWN, state)
        else:
            keys, counts = heaviest(seen, REPORTED_KEYS)
            told = Entry({"keys": keys, "counts": counts})
            if spent is not None:
                told.arrays["spent"] = spent
        sent = {"loads": loads} if costs is None else {"loads": loads, "costs": costs}
        return Entry(told.arrays | sent, told.about | steps_about(self.history) | about)

    def _checked(
        self, reports: Iterator[tuple[int, Entry]], sources: list[int]
    ) -> Iterator[tuple[int, Entry]]:
        """Yield the reports after a check, and append the source of each to `sources`."""
        with_keys = isinstance(self.strategy, Rebalances)
        for source, report in reports:
            n_workers = self._steps_of(report)[-1][0]
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
            state = then._shared(plan, 0) if _holds(plan, _SHARED) else then.start(0)
            report = _summed(
                (report for _, report in reports), self.strategy, state, then.n_workers
            )
            state, _ = self.strategy.rebalance(report, copy_state(state))
            return self._entry(_SHARED, self._advanced(state, then.history))
        if isinstance(self.strategy, Merges):
            parts = [self._part(report, _OWN, source) for source, report in reports]
            if not parts and self.history == self._steps_of(plan):
                return _only(plan, _SHARED)
            if not parts and not _holds(plan, _SHARED):
                return Entry({})
            merged = self._merged(parts) if parts else self._shared(plan, 0)
            seconds = seconds_per_record(measured) if measured else None
            if seconds is not None and hasattr(self.strategy, "observe"):
                self.strategy.observe(merged, seconds_per_record=seconds)
            return self._entry(_SHARED, merged)
        deque(reports, maxlen=0)  # only their sources are of interest
        return Entry({})

    def _told(self, state: Any) -> Any:
        """Return the state as the ledger keeps it: whole, or condensed if a merge needs less."""
        return self.strategy.condense(state) if isinstance(self.strategy, Condenses) else state

    def _merged(self, parts: list[Any]) -> Any:
        """Return the merged state of all sources from their reports."""
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
        try:
            whole = with_changes(base, {n[len(prefix) :]: array for n, array in found.items()})
        except Unsound as error:
            raise corrupt(entry, error) from None
        return restored_from(entry, self._told(self.start(source)), whole)

    def _state(self, entry: Entry, prefix: str, source: int) -> Any:
        """Return the state of an entry, rescaled from its workers to this maker's."""
        then = self._with(self._steps_of(entry))
        told = then._restored(entry, prefix, source)
        whole = then._merged([told]) if isinstance(self.strategy, Condenses) else told
        return self._advanced(whole, then.history)

    def _part(self, entry: Entry, prefix: str, source: int) -> Any:
        """Return the state that an entry keeps for merging, rescaled to this maker's workers."""
        if self._steps_of(entry) == self.history:
            return self._restored(entry, prefix, source)
        return self._told(self._state(entry, prefix, source))

    def _shared(self, plan: Entry, source: int) -> Any:
        """Return the state that a plan holds; it shares no array with another."""
        return self._state(plan, _SHARED, source)

    def _own(self, ledger: Ledger, plan: Entry, source: int) -> Any:
        """Return the state with which `source` ended its last batch."""
        at = np.flatnonzero(plan.arrays["sources"] == source)
        if at.size and not isinstance(self.strategy, Rebalances):
            report = ledger.read_report(int(plan.arrays["reported"][at[0]]), source)
            if report is not None:
                return self._state(report, _OWN, source)
        return self.start(source)


def cost_units(weights: Floats) -> Ints:
    """Return weights as whole numbers, so that their sums do not depend on the order of records.

    The unit is about a millionth. A weight below it counts as one unit, unless it is 0, and a
    weight above a million as a million.

    >>> cost_units(np.array([0.0, 1e-9, 0.5, 2.0])).tolist()
    [0, 1, 524288, 2097152]
    """
    units = np.clip(np.ceil(weights * _UNITS), 0.0, _UNITS * _UNITS)
    return units.astype(np.int64)


def _holds(entry: Entry, prefix: str) -> bool:
    return prefix + _BASE in entry.about or any(name.startswith(prefix) for name in entry.arrays)


def _only(entry: Entry, prefix: str) -> Entry:
    """Build an entry of only the arrays and values whose names begin with a prefix."""
    arrays = {name: array for name, array in entry.arrays.items() if name.startswith(prefix)}
    about = {name: value for name, value in entry.about.items() if name.startswith(prefix)}
    return Entry(arrays, about)


def _summed(reports: Iterator[Entry], strategy: AnyStrategy, state: Any, n_workers: int) -> Report:
    """Return the keys of all sources with their loads; the state of every key weighs the same.

    The load of each worker is known exactly. The part that no listed key accounts for is its rest:
    sources leave out light keys, and so does the sum over all sources. Of m records on average, a
    worker gets m ± √m by chance.
    """
    counts = bounded_counts(_PLANNED_KEYS)
    loads = np.zeros(n_workers)
    n_records = 0
    for report in reports:
        add(counts, report.arrays["keys"], report.arrays["counts"])
        loads += report.arrays.get("spent", report.arrays["loads"])
        n_records += int(report.arrays["loads"].sum())
    keys, amounts = heaviest(counts, 2 * _PLANNED_KEYS)
    owners = np.full(keys.size, -1, np.int32)
    strategy.route(keys, copy_state(state), owners)
    rest = np.maximum(loads - np.bincount(owners, weights=amounts, minlength=n_workers), 0.0)
    costs = amounts.astype(np.float64)
    noise = float(max(n_records / n_workers, 1.0) ** -0.5)
    return Report(keys, costs, np.ones(keys.size), rest if rest.any() else None, noise)


def _ints(values: Any) -> Any:
    return np.array(values, np.int64)
