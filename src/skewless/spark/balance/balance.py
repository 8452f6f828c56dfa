"""How well one micro-batch was balanced, from what its tasks left in the ledger. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skewless import metrics
from skewless.arrays import Ints, Keys
from skewless.spark.ledger.entry_checks import require_report, require_worker_report
from skewless.spark.ledger.ledger import Entry, Ledger

_SHOWN_HOT_KEYS = 10


@dataclass(frozen=True)
class HotKey:
    """A key with many records."""

    key: str  # as text; the parts of a composite key with commas between them
    records: int
    share: float  # of all records
    workers: int | None = None  # that have it, as far as somebody looked


@dataclass(frozen=True)
class WorkerBalance:
    """What one worker did in one micro-batch."""

    worker: int
    records: int
    seconds: float | None = None  # in combining
    pairs: int | None = None  # distinct keys, each of which is a replica here


@dataclass(frozen=True)
class BatchBalance:
    """How one micro-batch was spread over the workers.

    `imbalance` is (max − mean) / mean of the records, `seconds_imbalance` the same of the time;
    `replication` is replicas per key. What only workers know, everything from `seconds_imbalance`
    on, is None after a `route` without `aggregate`, and while workers of the batch still run.

    Hot keys come from each worker's few heaviest: their records and workers are at least those.
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

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON values."""
        fields = dataclasses.asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


def read_balance(ledger: Ledger, batch: int, n_workers: int) -> BatchBalance:
    """Return the balance of one batch of a ledger."""
    sources, workers = ledger.read_reports(batch), ledger.read_workers(batch)
    if "process" in (ledger.identity() or {}) and workers:
        n_workers = len(workers)  # all of them report, and their number changes
    return batch_balance(batch, n_workers, sources, workers)


def batch_balance(
    batch: int, n_workers: int, sources: Mapping[int, Entry], workers: Mapping[int, Entry]
) -> BatchBalance:
    """Return the balance of a batch from the reports of its sources and of its workers."""
    loads = np.zeros(n_workers, np.int64)
    for report in sources.values():
        require_report(report, n_workers)
        loads += report.arrays["loads"]
    for report in workers.values():
        require_worker_report(report)
    # A worker without records may have nothing to say; one with records reports when it is done.
    if not workers or not set(np.flatnonzero(loads).tolist()) <= workers.keys():
        rows = tuple(WorkerBalance(w, records) for w, records in enumerate(loads.tolist()))
        return BatchBalance(batch, int(loads.sum()), rows, metrics.imbalance(loads))
    rows = tuple(_row(worker, workers.get(worker)) for worker in range(n_workers))
    n_records = sum(row.records for row in rows)
    replicas = _replicas(list(workers.values()))
    return BatchBalance(
        batch,
        n_records,
        rows,
        metrics.imbalance([row.records for row in rows]),
        metrics.imbalance([row.seconds or 0.0 for row in rows]),
        *replicas,
        hot_keys=_hot_keys(list(workers.values()), n_records),
    )


def _row(worker: int, report: Entry | None) -> WorkerBalance:
    if report is None:
        return WorkerBalance(worker, 0, 0.0, 0)
    about = report.about
    return WorkerBalance(
        worker, int(about["records"]), float(about["seconds"]), int(about["pairs"])
    )


def _replicas(reports: list[Entry]) -> tuple[int, float, int, bool]:
    """Return distinct keys, replicas per key, keys that are split, and whether that is exact."""
    sampled_by = max(int(report.about["sampled_by"]) for report in reports)
    samples = [_sampled(report.arrays["keys"], sampled_by) for report in reports]
    counts: Ints = np.unique(np.concatenate(samples), return_counts=True)[1]
    replication = metrics.replication(int(counts.sum()), counts.size)
    n_split = int(np.count_nonzero(counts > 1)) * sampled_by
    # How many pairs there are is known whatever the sample.
    n_pairs = sum(int(report.about["pairs"]) for report in reports)
    return round(n_pairs / replication), replication, n_split, sampled_by == 1


def _sampled(keys: Keys, sampled_by: int) -> Keys:
    """Return the keys that a worker which lists one key in `sampled_by` would list."""
    return keys if sampled_by == 1 else keys[keys < np.uint64((1 << 64) // sampled_by)]


def _hot_keys(reports: list[Entry], n_records: int) -> tuple[HotKey, ...]:
    """Return the heaviest keys; two keys of the same text are told apart by their hash."""
    counts: dict[int, int] = {}
    places: dict[int, int] = {}
    texts: dict[int, str] = {}
    for report in reports:
        for text, count, key in report.about["top"]:
            counts[key] = counts.get(key, 0) + int(count)
            places[key] = places.get(key, 0) + 1
            texts[key] = text
    heaviest = sorted(counts, key=lambda key: (-counts[key], texts[key], key))[:_SHOWN_HOT_KEYS]
    return tuple(
        HotKey(texts[key], counts[key], counts[key] / n_records, places[key]) for key in heaviest
    )
