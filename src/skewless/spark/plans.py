"""Plans: what all sources of a query route by during one micro-batch, made from reports.

A plan is a pure function of the plan before it and of the reports of that batch. Whichever task
needs it first makes it and publishes it; all others, and every replay of the batch, read it.

What a plan holds depends on what the strategy can do:

- it merges: the state that knows what all sources know;
- it rebalances: the state after the controller has seen the keys and loads of the last batch;
- neither: nothing, and each source goes on from its own last report.

A plan also says for each source in which batch it reported last, so that a source that keeps
something of its own finds it after a while away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skewless.arrays import Ints, Keys
from skewless.spark.entry_checks import require_plan, require_report, restored_from
from skewless.spark.ledger import Entry, Ledger
from skewless.state import named_arrays
from skewless.strategy import AnyStrategy, Forks, Merges, Rebalances, Report

#: Batches whose files are kept behind the one that runs. Spark replays the last one or two; the
#: rest is for people who look at the balance afterwards.
KEPT_BATCHES = 32
_PURGE_EVERY = 8
_SHARED = "shared."
_OWN = "own."


@dataclass(frozen=True)
class Routing:
    """How a router decides: the strategy, and all that makes its decisions repeatable."""

    strategy: AnyStrategy
    n_workers: int
    seed: int = 0

    def start(self, source: int) -> Any:
        """Return the state of a source that knows nothing."""
        return self.strategy.start(self.n_workers, self.seed, source=source)

    def resume(self, ledger: Ledger, batch: int, source: int) -> Any:
        """Return the state with which `source` begins `batch`."""
        plan = ledger.read_plan(batch)
        if plan is None:
            plan = ledger.publish_plan(batch, self.next_plan(ledger, batch))
            if batch % _PURGE_EVERY == 0:
                ledger.purge(batch - KEPT_BATCHES)
        fresh = self.start(source)
        require_plan(plan)
        shared = _part(plan, _SHARED)
        keeps_own = isinstance(self.strategy, Forks) or not shared
        own = self._own(ledger, plan, source, fresh) if keeps_own else fresh
        if not shared:
            return own
        state = restored_from(plan, fresh, shared)
        if isinstance(self.strategy, Forks):
            return self.strategy.fork(state, own, source)
        return state

    def next_plan(self, ledger: Ledger, batch: int) -> Entry:
        """Return the plan for `batch`, from the last one before it and its reports."""
        last = ledger.latest_plan(before=batch)
        if last is None:
            return Entry({"sources": _ints([]), "reported": _ints([])}, {"after": -1})
        before, plan = last
        require_plan(plan)
        reports = ledger.read_reports(before)
        for report in reports.values():
            require_report(report, self.n_workers, with_keys=isinstance(self.strategy, Rebalances))
        reported = dict(
            zip(plan.arrays["sources"].tolist(), plan.arrays["reported"].tolist(), strict=True)
        )
        reported |= dict.fromkeys(reports, before)
        reported = {s: at for s, at in reported.items() if at >= batch - KEPT_BATCHES}
        shared = _part(plan, _SHARED)
        if isinstance(self.strategy, Rebalances):
            state = self.start(0)
            state = restored_from(plan, state, shared) if shared else state
            state, _ = self.strategy.rebalance(_summed(reports), state)
            shared = dict(named_arrays(state))
        elif isinstance(self.strategy, Merges) and reports:
            states = [
                restored_from(report, self.start(source), _part(report, _OWN))
                for source, report in sorted(reports.items())
            ]
            shared = dict(named_arrays(self.strategy.merge(states)))
        arrays = {_SHARED + name: array for name, array in shared.items()}
        sources = sorted(reported)
        arrays["sources"] = _ints(sources)
        arrays["reported"] = _ints([reported[source] for source in sources])
        return Entry(arrays, {"after": before})

    def report(self, state: Any, loads: Ints, seen: Sequence[Keys], about: dict[str, Any]) -> Entry:
        """Return what a source tells after a batch: its state, or the keys that it saw."""
        arrays = {"loads": loads}
        if isinstance(self.strategy, Rebalances):
            keys = np.concatenate([np.empty(0, np.uint64), *seen])
            arrays["keys"], arrays["counts"] = np.unique(keys, return_counts=True)
        else:
            arrays |= {_OWN + name: array for name, array in named_arrays(state)}
        return Entry(arrays, about)

    def _own(self, ledger: Ledger, plan: Entry, source: int, fresh: Any) -> Any:
        at = np.flatnonzero(plan.arrays["sources"] == source)
        if not at.size or isinstance(self.strategy, Rebalances):
            return fresh
        report = ledger.read_report(int(plan.arrays["reported"][at[0]]), source)
        return fresh if report is None else restored_from(report, fresh, _part(report, _OWN))


def _part(entry: Entry, prefix: str) -> dict[str, Any]:
    return {
        name[len(prefix) :]: array
        for name, array in entry.arrays.items()
        if name.startswith(prefix)
    }


def _summed(reports: dict[int, Entry]) -> Report:
    """Return the keys of all sources with their loads; the state of every key weighs the same."""
    if not reports:
        none = np.empty(0)
        return Report(np.empty(0, np.uint64), none, none)
    keys = np.concatenate([report.arrays["keys"] for report in reports.values()])
    counts = np.concatenate([report.arrays["counts"] for report in reports.values()])
    distinct, positions = np.unique(keys, return_inverse=True)
    loads = np.bincount(positions, weights=counts, minlength=distinct.size)
    return Report(distinct, loads.astype(np.float64, copy=False), np.ones(distinct.size))


def _ints(values: Any) -> Any:
    return np.array(values, np.int64)
