"""What a worker reports about a batch: costs of keys, sizes of states, and the latest time.

The heaviest keys are listed one by one, all others are summed up. Reports are kept as the first
attempt of a task wrote them, because a plan may depend on the seconds that it measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless.arrays import Floats, Ints, Keys
from skewless.spark.key_texts import ListedKey
from skewless.spark.ledger.entry_checks import require_worker_report, row_of, rows_of, usable
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt
from skewless.spark.state.versions.bases import Base
from skewless.state import MOST_COUNTED, MOST_WEIGHT, require_that, require_within

#: The most keys that a worker lists one by one.
HEAVY_KEYS = 1 << 12
_SAMPLED_KEYS = 1 << 13  # for the number of replicas, as other workers report them
_TOP = 5


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
    plan: str | None = None  # the checksum of the plan that the worker used; None: of no plan
    #: Of each key, its records of the first and of the second stream, where keys may be spread.
    firsts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    seconds: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    #: And what was done for them, in units of a record; of all keys.
    work: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    all_work: int = 0


def report_entry(
    hashes: Keys,
    records: Any,
    costs: Floats,
    sizes: Any,
    texts: Any,
    about: dict[str, Any],
    sides: tuple[Ints, Ints, Ints] | None,
    listed: Keys,
) -> Entry:
    """Return the report of a batch; one number per key in all arrays.

    `texts` gives the text of a key by its row; `about` holds `records`, `seconds`, `latest`,
    `late`, and what is `held`. If keys may be spread, `sides` are the records of each stream, and
    what was done for them. Keys with a hash in `listed` are always listed, even light ones: the
    next plan needs to know that they still exist.
    """
    heavy = np.lexsort((hashes, -costs))[:HEAVY_KEYS]
    heavy = np.union1d(heavy, np.flatnonzero(np.isin(hashes, listed)))
    seen = np.flatnonzero(records)  # the others are there because their state expired
    first = seen[np.lexsort((hashes[seen], -records[seen]))[:_TOP]].tolist()
    top = [ListedKey(texts(row), int(records[row]), int(hashes[row])).as_json() for row in first]
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
        for name, of_key in zip(("firsts", "seconds", "work"), sides, strict=True):
            arrays[name] = np.bincount(place, of_key[heavy], distinct.size).astype(np.int64)
        about = about | {"work": int(sides[2].sum())}
    counted = {
        "pairs": int(seen.size),
        "sampled_by": 1 << share,
        "top": top,
        "cost": float(costs.sum()),
    }
    return Entry(arrays, about | counted)


def read_reports(ledger: Ledger, base: Base) -> list[WorkerReport]:
    """Read the reports of all workers from the ledger, or raise LedgerCorrupt."""
    found = []
    for worker in range(base.workers):
        name = base.version(worker).file
        entry = ledger.read(name)
        if entry is None:
            raise LedgerCorrupt(f"{ledger.place}/{name} is gone, and the next plan needs it")
        found.append(checked_report(entry))
    return found


def checked_report(entry: Entry) -> WorkerReport:
    """Check an entry and build the worker's report, or raise LedgerCorrupt."""
    require_worker_report(entry)
    with usable(entry):
        kinds = {"heavy": np.uint64, "costs": np.float64, "sizes": np.float64}
        hashes, costs, sizes = rows_of(entry, kinds)
        require_within("costs", costs, 0, MOST_WEIGHT)
        require_within("sizes", sizes, 0, MOST_WEIGHT)
        names = ("firsts", "seconds", "work")
        first, second_stream, work = (_records_of(entry, name, hashes.size) for name in names)
        cost, plan = entry.about.get("cost"), entry.about.get("plan")
        latest, second = entry.about.get("latest"), entry.about.get("latest_second")
        require_that(isinstance(cost, int | float) and 0 <= cost <= MOST_WEIGHT, "cost must be one")
        require_that(plan is None or isinstance(plan, str), "plan must be a checksum, or none")
        done = entry.about.get("work", 0)
        require_that(type(done) is int and 0 <= done <= MOST_COUNTED, "work must be a number")
        for time in (latest, second):
            known = time is None or (type(time) is int and -(1 << 63) <= time < 1 << 63)
            require_that(known, "latest must be microseconds, or none")
    numbers = float(entry.about["cost"]), latest, second, int(entry.about["records"])
    return WorkerReport(hashes, costs, sizes, *numbers, plan, first, second_stream, work, done)


def _records_of(entry: Entry, name: str, n_keys: int) -> Ints:
    """Return the records of one stream by key, or the work; zeros if the report lists none."""
    if name not in entry.arrays:
        return np.zeros(n_keys, np.int64)
    array = row_of(entry, name, np.int64, n_keys)
    require_within(name, array, 0, MOST_COUNTED)
    return array
