"""The controller: makes the plan of a batch from the plan and reports of an earlier one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import Floats, Keys
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt
from skewless.spark.ledger.names import run_name, state_plan_name
from skewless.spark.routing import requests
from skewless.spark.routing.requests import Decided
from skewless.spark.state.planning import spread_keys, state_plan
from skewless.spark.state.planning.placing import Placing
from skewless.spark.state.planning.spread_keys import SpreadKeys, SpreadRule
from skewless.spark.state.planning.state_plan import Moving, StatePlan, from_entry
from skewless.spark.state.planning.worker_reports import WorkerReport, read_reports
from skewless.spark.state.schemas import require_same_states, schema_text
from skewless.spark.state.versions.bases import base_of, require_newest_run, require_plan_in_use
from skewless.spark.state.versions.offset_log import OffsetLog
from skewless.spark.state.versions.version_files import KeptFiles
from skewless.strategy import AnyStrategy, Rebalances

#: The most keys that a strategy is told of one by one, besides those of the routing table.
_OBSERVED_KEYS = 1 << 14
#: A key with a smaller share of all loads counts as one without load.
_NOTHING = 1e-12
#: The last plans that workers of this process have used: a ring takes milliseconds to build.
_plans: KeptFiles[StatePlan] = KeptFiles(most_bytes=4)  # each counts as one


@dataclass(frozen=True)
class Controller:
    """How plans are made."""

    strategy: AnyStrategy  # which keys move, and where to
    workers: int  # of a query without state
    asked: int | None  # the number of workers that the user gave
    most: int  # workers that the query can have: its partitions
    interval: int = 1  # keys move in every `interval`-th batch
    delay: int | None = None  # of the watermark, in microseconds
    spread: SpreadRule | None = None  # which keys of a join are spread; None: this is no join

    def plan(
        self, ledger: Ledger, batch: int, seed: int, shape: Any, offsets: OffsetLog
    ) -> StatePlan:
        """Return the plan of this run for `batch`; the first task that needs it makes it."""
        name = state_plan_name(batch, ledger.run)
        entry = ledger.read(name)
        if entry is None:
            require_newest_run(ledger)
            made = self.next_plan(ledger, batch, seed, shape, offsets)
            made = replace(made, stamp=offsets.stamp(batch))
            entry = ledger.publish(name, state_plan.to_entry(made, seed))
        return from_entry(entry, self.strategy, seed)

    def published(self, ledger: Ledger, batch: int, seed: int) -> StatePlan:
        """Return the plan of this run for `batch`, which was published before records are sent."""
        name = state_plan_name(batch, ledger.run)
        entry = ledger.read(name)
        if entry is None:
            raise LedgerCorrupt(f"{ledger.place}/{name} is gone")
        used = entry.checksum, type(self.strategy), state_plan.strategy_text(self.strategy), seed
        return _plans.get(used, lambda: (from_entry(entry, self.strategy, seed), 1))

    def next_plan(
        self, ledger: Ledger, batch: int, seed: int, shape: Any, offsets: OffsetLog
    ) -> StatePlan:
        """Return the plan for `batch` from the version that it builds on."""
        base = base_of(ledger, batch, offsets)
        request = requests.latest_request(ledger)
        if base is None:
            now = _time(offsets, batch) if shape.follows_clock else None
            return replace(self.first_plan(seed, shape), watermark=now)
        entry = ledger.read(state_plan_name(base.batch, base.run))
        if entry is None:
            raise LedgerCorrupt(f"{ledger.place} has lost the plan of batch {base.batch}")
        last = from_entry(entry, self.strategy, seed)
        require_same_states(last.about, shape, f"the ledger in {ledger.place}")
        reports = read_reports(ledger, base)
        require_plan_in_use(ledger, base, last.checksum, {report.plan for report in reports})
        numbers = requests.decided(self.asked, self.most, request, last.n_workers, last.about)
        n_workers = numbers.n_workers
        are_others = n_workers != base.workers
        is_whole = are_others or not last.is_alike
        is_time = batch % self.interval == 0

        latest = _latest([last.latest, *(report.latest for report in reports)])
        second = _latest([last.latest_second, *(report.latest_second for report in reports)])
        any_time = _latest([latest, second])
        behind = latest
        if shape.processor.second_stream is not None:
            behind = None if latest is None or second is None else min(latest, second)

        spread, changes = last.spread, is_time and not is_whole
        if self.spread is not None:
            rule = replace(self.spread, within=self._within(last))
            spread = spread_keys.next_spread(
                rule, spread, reports, n_workers, last.watermark, any_time, changes=changes
            )
        moving = Moving(whole=is_whole)
        placing = last.placing
        if are_others:
            placing = placing.rescaled(n_workers)
        elif changes and isinstance(self.strategy, Rebalances):
            # By chance, a worker that gets m records on average gets m ± √m.
            n_records = sum(report.records for report in reports) / n_workers
            noise = 1.0 / math.sqrt(max(n_records, 1.0))
            seen = parted(observed(last.placing, reports), spread)
            placing = placing.rebalanced(seen.hashes, seen.loads, seen.sizes, seen.rest, noise)
            moving = Moving(*last.placing.changed(placing))
        about = self._about(numbers, shape, last)
        return StatePlan(
            placing=placing,
            base=base,
            moving=moving,
            watermark=_latest([_time(offsets, batch), last.watermark])
            if shape.follows_clock
            else self._watermark(last, behind),
            watermark_before=last.watermark,
            latest=latest,
            latest_second=second,
            about=about | _warned(last, numbers, run_name(ledger.run)),
            spread=spread,
        )

    def first_plan(self, seed: int, shape: Any) -> StatePlan:
        """Return the plan of a query that has no state yet."""
        placing = Placing.unlearned(self.strategy, self.workers, seed)
        # A request counts from the next batch on: this one may be a replay that runs after it.
        numbers = Decided(self.workers, requests.NONE_TAKEN)
        return StatePlan(placing, about=self._about(numbers, shape))

    def _about(self, numbers: Decided, shape: Any, last: StatePlan | None = None) -> dict[str, Any]:
        about: dict[str, Any] = {
            "asked": self.asked,
            "request": numbers.taken,
            "most": self.most,
            "schema": schema_text(shape),
            "ttl": shape.ttl,
        }
        if shape.meaning:
            about["meaning"] = dict(shape.meaning)
        if shape.timers is not None:
            about["timers"] = shape.timers
        ends = ("schema", "ttl", "timers")
        if last is not None and any(last.about.get(k) != about.get(k) for k in ends):
            about["renewed"] = True
        if self.spread is not None:
            about["within"] = self._within(last)
        return about

    def _within(self, last: StatePlan | None) -> int:
        """Return the longest `within` that this join has had: held rows may be that old."""
        assert self.spread is not None
        before = 0 if last is None else last.about.get("within", 0)
        return max(self.spread.within, before if type(before) is int else 0)

    def _watermark(self, last: StatePlan, latest: int | None) -> int | None:
        """Return the watermark in microseconds, cut to milliseconds as in Spark."""
        if self.delay is None or latest is None:
            return last.watermark
        now = max((latest // 1000 - self.delay // 1000) * 1000, -(1 << 62))
        return now if last.watermark is None else max(now, last.watermark)


class Observed(NamedTuple):
    """The known loads: the heaviest keys by hash, ascending, and the rest by worker."""

    hashes: Keys
    loads: Floats
    sizes: Floats
    rest: Floats


def observed(placing: Placing, reports: list[WorkerReport]) -> Observed:
    """Return the loads of the batch of these reports, in which keys were placed like this.

    The heaviest keys and those of the table are listed if they have load; the others are a rest.
    """
    hashes = np.unique(np.concatenate([report.hashes for report in reports]))
    loads, sizes, rest = np.zeros(hashes.size), np.ones(hashes.size), np.zeros(len(reports))
    for worker, report in enumerate(reports):
        at = np.searchsorted(hashes, report.hashes)
        loads[at] += report.costs
        sizes[at] = np.maximum(report.sizes, 1.0)
        rest[worker] = max(0.0, report.cost - float(report.costs.sum()))
    is_listed = np.isin(hashes, placing.entries()[0])
    has_load = loads > _NOTHING * max(float(loads.sum() + rest.sum()), 1e-300)
    heaviest = np.zeros(hashes.size, np.bool_)
    heaviest[np.lexsort((hashes, -loads))[:_OBSERVED_KEYS]] = True
    stays = has_load & (heaviest | is_listed)
    rest += np.bincount(placing.owners(hashes[~stays]), loads[~stays], rest.size)
    return Observed(hashes[stays], loads[stays], sizes[stays], rest)


def parted(seen: Observed, spread: SpreadKeys) -> Observed:
    """Return the loads as they will be when the newly spread keys are in parts."""
    if not (spread.before < np.abs(spread.parts)).any():
        return seen
    loads = dict(zip(seen.hashes.tolist(), seen.loads.tolist(), strict=True))
    for hashed, parts, before in zip(
        spread.hashes, np.abs(spread.parts).tolist(), spread.before.tolist(), strict=True
    ):
        if before < parts:
            every = spread_keys.all_parts(hashed, parts).tolist()
            share = sum(loads.get(one, 0.0) for one in every[:before]) / parts
            loads |= dict.fromkeys(every, share)
    hashes = np.array(sorted(loads), np.uint64)
    sizes = np.ones(hashes.size)
    sizes[np.searchsorted(hashes, seen.hashes)] = seen.sizes
    values = np.array([loads[one] for one in hashes.tolist()])
    return Observed(hashes, values, sizes, seen.rest)


def _warned(last: StatePlan, numbers: Decided, run: str) -> dict[str, Any]:
    """Warn the user once per run, and return what the plan must keep for that."""
    if numbers.warning is None:
        return {}
    if last.about.get("warned") != [run, numbers.warning]:
        requests.warn(numbers.warning)
    return {"warned": [run, numbers.warning]}


def _time(offsets: OffsetLog, batch: int) -> int | None:
    """Return the time at which Spark began the micro-batch, in microseconds."""
    stamp = offsets.stamp(batch)
    return None if stamp is None else stamp * 1000


def _latest(times: list[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)
