"""What a worker reports about a batch: costs of keys, sizes of states, and the latest time.

The heaviest keys are listed one by one, all others are summed up. Reports are kept as the first
attempt of a task wrote them, because a plan may depend on the seconds that it measured.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless.arrays import Floats, Ints, Keys
from skewless.spark.key_texts import ListedKey
from skewless.spark.ledger.entry_checks import corrupt, require_worker_report, row_of
from skewless.spark.ledger.files import Entry, LedgerCorrupt, from_bytes, to_bytes
from skewless.spark.ledger.folder import open_folder, shown
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import member_name, run_name
from skewless.spark.state.versions.bases import Base
from skewless.state import MOST_COUNTED, MOST_WEIGHT, Unsound, require_that, require_within

#: The most keys that a worker lists one by one.
HEAVY_KEYS = 1 << 12
_SAMPLED_KEYS = 1 << 13  # for the number of replicas, as other workers report them
_TOP = 5

#: What is wrong if several workers share a partition.
NOT_A_PARTITION = (
    "each worker of process must have its own partition: a coalesce after process, or a union, "
    "prevents that. Use repartition instead of coalesce, and write each side of a union separately"
)


def _nothing() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class WorkerReport:
    """What the controller needs of a report."""

    hashes: Keys
    costs: Floats
    sizes: Floats
    cost: float  # of all keys
    latest: int | None  # time of a record, in microseconds
    latest_second: int | None = None  # the same for the second stream, if there is one
    records: int = 0
    #: Of each key, its records of the first and of the second stream, where keys may be spread.
    firsts: Ints = field(default_factory=_nothing)
    seconds: Ints = field(default_factory=_nothing)


def report_entry(
    hashes: Keys,
    records: Any,
    costs: Floats,
    sizes: Any,
    texts: Any,
    about: dict[str, Any],
    sides: tuple[Ints, Ints] | None = None,
    listed: Keys | None = None,
) -> Entry:
    """Return the report of a batch; one number per key in all arrays.

    `texts` gives the text of a key by its row; `about` holds `records`, `seconds`, `latest`,
    `late`, and what is `held`. If keys may be spread, `sides` are the records of each stream. Keys
    with a hash in `listed` are always listed, even light ones: the next plan needs to know that
    they still exist.
    """
    heavy = np.sort(np.lexsort((hashes, -costs))[:HEAVY_KEYS])
    if listed is not None and listed.size:
        heavy = np.union1d(heavy, np.flatnonzero(np.isin(hashes, listed)))
    seen = np.flatnonzero(records)  # the others are there because their state expired
    first = seen[np.lexsort((hashes[seen], -records[seen]))[:_TOP]].tolist()
    top = [ListedKey(texts(row), int(records[row]), int(hashes[row])) for row in first]
    sampled, share = hashes[seen], 0
    while sampled.size > _SAMPLED_KEYS:
        share += 1
        sampled = sampled[sampled < np.uint64(1 << (64 - share))]
    # Two keys with the same hash live together, so their costs and sizes are summed.
    distinct, place = np.unique(hashes[heavy], return_inverse=True)
    arrays = {
        "keys": np.unique(sampled),
        "heavy": distinct,
        "costs": np.bincount(place, costs[heavy], distinct.size).astype(np.float64),
        "sizes": np.bincount(place, sizes[heavy], distinct.size).astype(np.float64),
    }
    if sides is not None:
        for name, records_of in zip(("firsts", "seconds"), sides, strict=True):
            sums = np.bincount(place, records_of[heavy], distinct.size)
            arrays[name] = sums.astype(np.int64)
    counted = {
        "pairs": int(seen.size),
        "sampled_by": 1 << share,
        "top": [key.as_json() for key in top],
        "cost": float(costs.sum()),
    }
    return Entry(arrays, about | counted)


def keep_report(
    ledger: Ledger, batch: int, worker: int, report: Entry, attempt: int | None = None
) -> None:
    """Write the report of a worker, unless an earlier attempt of this run did.

    Raises RuntimeError if the same attempt has written it before: then one task works for several
    workers, and would return the results of one of them several times. Plans do not read the number
    of the attempt.
    """
    name = member_name("workers", batch, run_name(ledger.run), worker)
    token = uuid.uuid4().hex
    files = open_folder(ledger.folder)
    mine = to_bytes(Entry(report.arrays, report.about | {"attempt": attempt, "written": token}))
    there = files.create(name, mine)
    if attempt is None or there == mine:
        return
    if from_bytes(there, f"{shown(ledger.folder)}/{name}").about.get("attempt") == attempt:
        raise RuntimeError(NOT_A_PARTITION)
    # The report is that of another attempt, which may have failed for this very reason. So this
    # attempt leaves a trace file, which is deleted with the folder.
    trace = f"{name}.attempt-{attempt}"
    if files.create(trace, token.encode()) != token.encode():
        raise RuntimeError(NOT_A_PARTITION)


def read_report(ledger: Ledger, base: Base, worker: int) -> WorkerReport:
    """Read a worker's report from the ledger, or raise LedgerCorrupt."""
    name = member_name("workers", base.batch, base.run, worker)
    where = f"{shown(ledger.folder)}/{name}"
    data = open_folder(ledger.folder).read(name)
    if data is None:
        raise LedgerCorrupt(f"{where} is gone, and the next plan needs it")
    return checked_report(from_bytes(data, where))


def checked_report(entry: Entry) -> WorkerReport:
    """Check an entry and build the worker's report, or raise LedgerCorrupt."""
    require_worker_report(entry)
    try:
        hashes = row_of(entry, "heavy", np.uint64)
        costs, sizes = (row_of(entry, name, np.float64) for name in ("costs", "sizes"))
        require_that(
            hashes.size == costs.size == sizes.size,
            "heavy, costs and sizes must have the same length",
        )
        require_that((hashes[1:] > hashes[:-1]).all(), "heavy must ascend")
        require_within("costs", costs, 0, MOST_WEIGHT)
        require_within("sizes", sizes, 0, MOST_WEIGHT)
        firsts, seconds = (_records_of(entry, name, hashes.size) for name in ("firsts", "seconds"))
        cost = entry.about.get("cost")
        latest, second = entry.about.get("latest"), entry.about.get("latest_second")
        require_that(isinstance(cost, int | float) and 0 <= cost <= MOST_WEIGHT, "cost must be one")
        for time in (latest, second):
            known = time is None or (type(time) is int and -(1 << 63) <= time < 1 << 63)
            require_that(known, "latest must be microseconds, or none")
    except Unsound as error:
        raise corrupt(entry, error) from None
    records = int(entry.about["records"])
    total = float(entry.about["cost"])
    return WorkerReport(hashes, costs, sizes, total, latest, second, records, firsts, seconds)


def _records_of(entry: Entry, name: str, n_keys: int) -> Ints:
    """Return the records of one stream by key; zeros if the report does not list them."""
    array = entry.arrays.get(name, np.zeros(n_keys, np.int64))
    is_row = array.dtype == np.int64 and array.shape == (n_keys,)
    require_that(is_row, f"{name} must be one whole number for each heavy key")
    require_within(name, array, 0, MOST_COUNTED)
    return array
