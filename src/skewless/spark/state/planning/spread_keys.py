"""Keys of a join that are spread over parts: which keys, into how many parts, and how long.

A record of one stream goes to one part of its key, a record of the other stream to all parts. So
each pair is found in one part. A part is placed like a key. Part 0 is the key itself. When a key
gets new parts, these begin with a copy of the rows of the stream whose records go to all parts.
Nothing else has to move: rows of the other stream stay where they are, and match the records that
arrive there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Ints, Keys
from skewless.keys import hash_keys
from skewless.spark.ledger.entry_checks import rows_of
from skewless.spark.ledger.files import Entry
from skewless.spark.ledger.ledger import LedgerMismatch
from skewless.spark.state.planning.worker_reports import WorkerReport
from skewless.state import require_that, require_within

_LOGGER = logging.getLogger("skewless")
#: A key with fewer records in a micro-batch, or in a batch DataFrame, is not detected as hot.
LEAST_RECORDS = 1_000
#: The fewest records of the spread side for each part: their number varies by chance.
_FEWEST_OF_PART = 4
#: The most keys that are spread: they are looked up one by one for each record.
MOST_KEYS = 256
_MOST_PARTS = 1 << 20
#: What workers report about keys that may be spread.
_REPORTED = {"hashes": np.uint64, "firsts": np.int64, "seconds": np.int64, "work": np.int64}
#: The arrays that a plan keeps in the ledger.
ARRAYS = {"hashes": np.uint64, "parts": np.int32, "before": np.int32, "seen": np.int64}


@dataclass(frozen=True, eq=False)
class SpreadKeys:
    """The keys that are spread in a batch, by the hashes of their parts 0, which ascend.

    If the number of parts is below 0, the records of the second stream are spread, and those of the
    first one go to all parts.
    """

    hashes: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    parts: Any = field(default_factory=lambda: np.empty(0, np.int32))
    #: Without a sign, in the version that the batch reads; 1: not spread.
    before: Any = field(default_factory=lambda: np.empty(0, np.int32))
    #: In microseconds: no row that is held of the key is later than this.
    seen: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def part_hashes(self) -> Keys:
        """Return the hashes of all parts of all keys, ascending."""
        found = [all_parts(h, abs(p)) for h, p in zip(self.hashes, self.parts, strict=True)]
        return np.unique(np.concatenate([np.empty(0, np.uint64), *found]))


@dataclass(frozen=True)
class SpreadRule:
    """Which keys are spread.

    `may`: whether records of the first stream, and of the second one, can be spread. They cannot if
    the *other* stream's records are returned without a match: these must be in one part only.
    """

    may: tuple[bool, bool]
    within: int  # how far apart the records of a pair may be, in microseconds
    least: int = LEAST_RECORDS  # records or pairs of a key in a micro-batch, to spread it

    def parts_of(
        self,
        first: int,
        second: int,
        mean: float,
        n_workers: int,
        work: int = 0,
        mean_work: float = 0.0,
    ) -> int:
        """Return into how many parts a key is spread, by its records and pairs; 1: not at all.

        The side with more records is spread, if it may be. A part gets half of the average load of
        a worker. The records of the other side are repeated. If the key is hot by its records,
        extra copies are at most as many as the spread records. If it is hot by its pairs, which
        `work` counts, copies cost little beside them.
        """
        sides = [(first, second, 1), (second, first, -1)]
        allowed = [side for side, may in zip(sides, self.may, strict=True) if may]
        if not allowed:
            return 1
        spread, repeated, sign = max(allowed, key=lambda side: side[0])
        parts, records, least = 1, first + second, max(self.least, 1)
        if records >= least and records > mean:
            parts = min(n_workers, int(np.ceil(2 * spread / mean)))
            if repeated:
                parts = min(parts, 1 + spread // repeated)
        if work >= least and work > max(mean_work, records):
            wanted = int(np.ceil(2 * work / mean_work))
            parts = max(parts, min(n_workers, wanted, spread // _FEWEST_OF_PART))
        return sign * parts if parts > 1 else 1


def all_parts(hashed: Any, n_parts: int) -> Keys:
    """Return the hashes of the parts of one key, whose part 0 has this hash."""
    numbers = np.arange(n_parts, dtype=np.int32)
    return part_hashes(np.full(n_parts, hashed, np.uint64), numbers)


def part_hashes(hashes: Keys, numbers: Any) -> Keys:
    """Return the hashes of parts, as the JVM computes them from the hash of the key's part 0."""
    numbers = np.asarray(numbers, np.int32)
    found = hash_keys(pa.array(hashes.view(np.int64)), pa.array(numbers))
    return np.where(numbers == 0, hashes, found)


def next_spread(
    rule: SpreadRule,
    last: SpreadKeys,
    reports: Sequence[WorkerReport],
    n_workers: int,
    watermark: int | None,
    latest: int | None,
    *,
    changes: bool = True,
) -> SpreadKeys:
    """Return the keys that are spread in the next batch.

    A key stays spread for as long as a row of it may be held. A row is forgotten when the watermark
    is `within` later. So a key without new records is released when the watermark of the batch that
    has just ended was `within` later than `seen`.

    `last`, `reports` and `watermark` are of the batch that has just ended, and `latest` is the
    latest time of any record so far. `changes`: whether keys may be spread now, or into more parts.
    """
    found = [
        np.concatenate([np.empty(0, kind), *(getattr(report, name) for report in reports)])
        for name, kind in _REPORTED.items()
    ]
    order = np.argsort(found[0], kind="stable")
    hashes, firsts, seconds, work = (one[order] for one in found)
    mean = sum(report.records for report in reports) / n_workers
    mean_work = sum(report.all_work for report in reports) / n_workers
    rows: dict[int, tuple[int, int, int]] = {}  # by hash: parts, before, seen
    for hashed, parts, seen in zip(last.hashes, last.parts, last.seen, strict=True):
        at = np.isin(hashes, all_parts(hashed, abs(int(parts))))
        n_first, n_second = int(firsts[at].sum()), int(seconds[at].sum())
        until = int(seen)
        if n_first + n_second:
            until = until if latest is None else max(until, latest)
        elif watermark is not None and watermark >= until + rule.within:
            continue
        if parts > 0:
            n_second = int(seconds[at].max(initial=0))
        else:
            n_first = int(firsts[at].max(initial=0))
        done, wanted = int(work[at].sum()), 1
        if changes:
            wanted = rule.parts_of(n_first, n_second, mean, n_workers, done, mean_work)
        grows = wanted * int(parts) > 0 and abs(wanted) >= 1.5 * abs(int(parts))
        rows[int(hashed)] = wanted if grows else int(parts), abs(int(parts)), until
    if changes and latest is not None:
        known = np.isin(hashes, last.part_hashes())
        heavy = np.flatnonzero(~known & ((firsts + seconds > mean) | (work > mean_work)))
        largest = np.argsort(-np.maximum(firsts + seconds, work)[heavy], kind="stable")
        for row in heavy[largest].tolist():
            n_first, n_second, done = int(firsts[row]), int(seconds[row]), int(work[row])
            parts = rule.parts_of(n_first, n_second, mean, n_workers, done, mean_work)
            if parts != 1 and len(rows) < MOST_KEYS:
                rows[int(hashes[row])] = parts, 1, latest
            elif parts != 1:
                _LOGGER.warning("join: a hot key is not spread: %d are, the limit", MOST_KEYS)
                break
    columns = list(zip(*((key, *rows[key]) for key in sorted(rows)), strict=True)) or [()] * 4
    keys, parts_of, before, last_seen = (
        np.array(column, kind) for column, kind in zip(columns, ARRAYS.values(), strict=True)
    )
    spread = SpreadKeys(keys, parts_of, before, last_seen)
    require_allowed(rule, spread)  # no rows of released keys are held any more
    return spread


def require_allowed(rule: SpreadRule, spread: SpreadKeys) -> None:
    """Raise LedgerMismatch if keys are spread in a way that this join does not allow."""
    for number, name, flags in (0, "left", spread.parts > 0), (1, "right", spread.parts < 0):
        if flags.any() and not rule.may[number]:
            raise LedgerMismatch(
                f"how: records of the {name} side are spread for {int(flags.sum())} hot keys in "
                f"this ledger, which only 'inner' and {name!r} allow: use one of these, or another "
                "ledger and checkpoint"
            )


def spread_from(entry: Entry) -> SpreadKeys:
    """Read the spread keys of a plan in the ledger, or raise Unsound; older plans have none."""
    if not any(f"spread.{name}" in entry.arrays for name in ARRAYS):
        return SpreadKeys()
    names = {f"spread.{name}": dtype for name, dtype in ARRAYS.items()}
    hashes, parts, before, seen = rows_of(entry, names)
    require_that(hashes.size <= MOST_KEYS, f"spread keys must be at most {MOST_KEYS}")
    require_within("spread.parts", np.abs(parts), 2, _MOST_PARTS)
    require_within("spread.before", before, 1, _MOST_PARTS)
    require_that((before <= np.abs(parts)).all(), "spread.before must be at most spread.parts")
    return SpreadKeys(hashes, parts, before, seen)
