"""How well one micro-batch was balanced, from the reports in the ledger. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from skewless import metrics
from skewless.arrays import Ints
from skewless.diagnosis.advice import HotKey
from skewless.spark.key_texts import ListedKey
from skewless.spark.ledger.entry_checks import require_report, require_worker_report, usable
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import SOURCES, WORKERS, state_plan_name
from skewless.spark.routing.worker_steps import steps_of
from skewless.state import require_that

_SHOWN_HOT_KEYS = 10
#: Seconds. If the busiest worker took less, its time is mostly noise, and times are not compared.
COMPARABLE_S = 0.05


@dataclass(frozen=True)
class WorkerBalance:
    """What one worker did in one micro-batch."""

    worker: int
    records: int
    seconds: float | None = None  # in combining
    pairs: int | None = None  # distinct keys, each of which is a replica here
    cost: float | None = None  # of its records, where they have weights


@dataclass(frozen=True)
class BatchBalance:
    """How one micro-batch was spread over the workers.

    `imbalance` is (max − mean) / mean of the records. `seconds_imbalance` is the same for the time,
    unless it is too short to compare. `cost_imbalance` is the same for the costs of the records, if
    they have weights. `replication` is replicas per key. Everything from `seconds_imbalance` on
    comes from the reports of workers: it is None after a `route` without `aggregate`, and while
    workers of the batch still run.

    Hot keys come from each worker's heaviest keys. Their records are exact if `unsure` is 0, which
    holds while no worker has more than a few thousand keys. Otherwise they are lower bounds.
    """

    batch: int
    records: int
    workers: tuple[WorkerBalance, ...]
    imbalance: float
    seconds_imbalance: float | None = None
    keys: int | None = None  # distinct over all workers
    replication: float | None = None
    keys_split: int | None = None  # keys on two workers or more
    replication_exact: bool | None = None  # else estimated from a sample of the keys, by hash
    hot_keys: tuple[HotKey, ...] | None = None
    cost_imbalance: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON values."""
        fields = dataclasses.asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


def read_balance(ledger: Ledger, batch: int, n_workers: int) -> BatchBalance | None:
    """Return the balance of one batch of a ledger; None while some workers of `process` work."""
    identity = ledger.identity() or {}
    found = read_reports(ledger, batch, n_workers, keeps_state="process" in identity)
    return found and batch_balance(batch, found.n_workers, found.sources, found.workers)


class Reports(NamedTuple):
    """The reports of a batch that count."""

    sources: dict[int, Entry]
    workers: dict[int, Entry]
    n_workers: int
    run: str  # the name of the run that wrote them, or nothing if there are none
    plan: Entry | None = None  # of `process`


def read_reports(
    ledger: Ledger, batch: int, n_workers: int, *, keeps_state: bool
) -> Reports | None:
    """Read the reports of a batch; None while some workers of `process` work, and once purged."""
    sources, workers = (dict(ledger.reports(kind, batch)) for kind in (SOURCES, WORKERS))
    report = next(iter((workers or sources).values()), None)
    run = "" if report is None else report.where.rsplit("/", 2)[1]
    if not keeps_state or not workers:
        return Reports(sources, workers, n_workers, run)
    plan = ledger.read(state_plan_name(batch, run))
    if plan is None:
        return None
    planned: Any = plan.about.get("workers")
    with usable(plan):
        text = f"workers must be a whole number of at least 1, not {planned!r}"
        require_that(type(planned) is int and planned >= 1, text)
    # All workers report, and their number may change.
    return None if len(workers) < planned else Reports(sources, workers, len(workers), run, plan)


def batch_balance(
    batch: int, n_workers: int, sources: Mapping[int, Entry], workers: Mapping[int, Entry]
) -> BatchBalance:
    """Return the balance of a batch from the reports of its sources and of its workers.

    `n_workers` counts where no source says how many workers there were.
    """
    if sources:  # all of a batch have the same workers
        n_workers = steps_of(next(iter(sources.values())), ((n_workers, None),))[-1][0]
    loads = np.zeros(n_workers, np.int64)
    for report in sources.values():
        require_report(report, n_workers)
        loads += report.arrays["loads"]
    for report in workers.values():
        require_worker_report(report)
    found = [report.arrays["costs"] for report in sources.values() if "costs" in report.arrays]
    summed = sum(found[1:], start=found[0]) if found else None
    costs: list[Any] = [None] * n_workers if summed is None else summed.tolist()
    cost_imbalance = None if summed is None else metrics.imbalance(summed)
    # A worker without records may not report; one with records reports when it is done.
    if not workers or not set(np.flatnonzero(loads).tolist()) <= workers.keys():
        pairs = zip(loads.tolist(), costs, strict=True)
        rows = tuple(WorkerBalance(i, n, cost=cost) for i, (n, cost) in enumerate(pairs))
        told = (batch, int(loads.sum()), rows, metrics.imbalance(loads))
        return BatchBalance(*told, cost_imbalance=cost_imbalance)
    nothing: dict[str, Any] = {"records": 0, "seconds": 0.0, "pairs": 0}
    abouts = [workers[one].about if one in workers else nothing for one in range(n_workers)]
    rows = tuple(
        WorkerBalance(worker, about["records"], float(about["seconds"]), about["pairs"], cost)
        for worker, (about, cost) in enumerate(zip(abouts, costs, strict=True))
    )
    n_records = sum(row.records for row in rows)
    seconds = [about["seconds"] for about in abouts]
    return BatchBalance(
        batch,
        n_records,
        rows,
        metrics.imbalance([row.records for row in rows]),
        metrics.imbalance(seconds) if max(seconds) >= COMPARABLE_S else None,
        *_replicas(list(workers.values())),
        tuple(hot for hot, _ in read_hot_keys(workers, n_records)),
        cost_imbalance,
    )


def _replicas(reports: list[Entry]) -> tuple[int, float, int, bool]:
    """Return distinct keys, replicas per key, keys that are split, and whether that is exact."""
    sampled_by = max(int(report.about["sampled_by"]) for report in reports)
    # Those that a worker would list if it listed one key in `sampled_by`.
    last = np.uint64(((1 << 64) - 1) // sampled_by)
    samples = [keys[keys <= last] for keys in (report.arrays["keys"] for report in reports)]
    counts: Ints = np.unique(np.concatenate(samples), return_counts=True)[1]
    replication = metrics.replication(int(counts.sum()), counts.size)
    n_split = int(np.count_nonzero(counts > 1)) * sampled_by
    # The number of pairs does not depend on the sample.
    n_pairs = sum(int(report.about["pairs"]) for report in reports)
    return round(n_pairs / replication), replication, n_split, sampled_by == 1


def read_hot_keys(
    workers: Mapping[int, Entry], n_records: int
) -> list[tuple[HotKey, list[tuple[int, int]]]]:
    """Return the heaviest keys, each with the workers that list it and its records there.

    The worker with most records comes first. Keys with the same text are distinguished by their
    hash.
    """
    texts = {
        key.hashed: key.text
        for report in workers.values()
        for key in starmap(ListedKey, report.about["top"])
    }
    reported = {worker: _heaviest(report) for worker, report in workers.items()}
    found = []
    for key, text in texts.items():
        counts = {worker: records.get(key, 0) for worker, (records, _) in reported.items()}
        unsure = sum(others for records, others in reported.values() if key not in records)
        n = sum(counts.values())
        places = sorted((-count, worker) for worker, count in counts.items() if count > 0)
        hot = HotKey(text, n, n / n_records if n_records else 0.0, len(places), unsure)
        found.append((-n, text, key, hot, [(worker, -count) for count, worker in places]))
    found.sort(key=lambda one: one[:3])
    return [(hot, placed) for _, _, _, hot, placed in found[:_SHOWN_HOT_KEYS]]


def _heaviest(report: Entry) -> tuple[dict[int, int], int]:
    """Return the records of the heaviest keys by hash, and the most that any other key has.

    Without counts, these are the listed keys.
    """
    records = {key.hashed: key.records for key in starmap(ListedKey, report.about["top"])}
    if "counted" in report.arrays:
        keys, counts = report.arrays["counted"], report.arrays["counted_records"]
        records = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    is_all = len(records) >= int(report.about["pairs"])
    return records, 0 if is_all else min(records.values(), default=0)
