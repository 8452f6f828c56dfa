"""Diagnoses keys: how many there are, which are heavy, how they drift, and what would help.

Also ranks the columns of a file by how uneven hashing by them would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skewless.arrays import Ints, Keys
from skewless.diagnosis.advice import HotKey, HotKeys
from skewless.diagnosis.costs import Costs
from skewless.diagnosis.ways import Job, SampledKeys, chosen_strategies, predict
from skewless.metrics import imbalance
from skewless.simulator.tally import ReplicaCounter
from skewless.strategies import Hash
from skewless.workloads import Trace
from skewless.workloads.trace import columns_of
from skewless.workloads.workload import Workload

#: The number of heaviest keys in the list, and in each part for measuring drift.
TOP = 20
#: The number of parts into which a stream is cut to measure drift.
PARTS = 10
#: A key with a smaller share of a part is not heavy there. Rare keys come and go by chance.
_HEAVY = 0.001
#: Nor is one with less than this part of a worker's fair share: it hardly matters where it goes.
_PART_OF_FAIR_SHARE = 0.1
#: The number of heaviest keys in the curve.
CURVE = 1_000
_POINTS = 40  # of the curve
_MOST_KEYS = 1 << 21  # counted exactly; beyond, light keys are forgotten
#: Records whose keys are kept in memory for the predictions: 8 bytes each.
MOST_ROUTED = 8_000_000
#: Each source keeps something for each worker, so that sources times workers are bounded.
_MOST_STATES, _FEWEST_SOURCES = 1_000_000, 4
_LEAST_KEYS = 2  # of a column that could be a key
_MOST_DISTINCT = 0.5  # of the records: a column with more is an identifier, if no value is heavy


class KeyFacts(NamedTuple):
    """Counts of the keys of a stream."""

    # The numbers of records and keys; with millions of keys, an estimate.
    n_records: int
    n_keys: int
    n_above_fair_share: int  # keys with more than a worker's fair share
    # The hash and the records of the heaviest keys, at most `CURVE` of them, in order. Among equal
    # ones the smaller hash comes first.
    heaviest: tuple[tuple[int, int], ...]
    # 0 if the heavy keys stay the same, 1 if all change: the mean Jaccard distance of the heaviest
    # keys of each part to those of the next. Two parts without heavy keys are the same.
    drift: float

    @property
    def shares(self) -> list[tuple[int, float]]:
        """The hash and the share of the records of the heaviest keys."""
        return [(key, records / self.n_records) for key, records in self.heaviest]

    @property
    def curve(self) -> list[tuple[int, float]]:
        """The share of the keys at some ranks, which are even on a logarithmic scale."""
        n_keys = len(self.heaviest)
        ranks = np.unique(np.geomspace(1, max(n_keys, 1), _POINTS).round().astype(int)).tolist()
        return [(rank, self.shares[rank - 1][1]) for rank in ranks if rank <= n_keys]


class KeyCounts(NamedTuple):
    """The keys of a stream and how often each occurs; light ones may be missing."""

    keys: Keys
    counts: Ints
    n_records: int
    n_keys: int  # all of them: exact, or an estimate where there are millions

    def heaviest(self, most: int, least: float = 0.0) -> tuple[tuple[int, int], ...]:
        """Return the heaviest keys with at least `least` records, in order, with their records."""
        # Keys are in order, so a stable sort puts the smaller hash first among equal ones.
        first = np.argsort(-self.counts, kind="stable")[:most]
        first = first[self.counts[first] >= least]
        return tuple(zip(self.keys[first].tolist(), self.counts[first].tolist(), strict=True))


def count_facts(workload: Workload, *, n_workers: int) -> KeyFacts:
    """Return counts of the keys, made piece by piece in bounded memory."""
    counted = count_keys(workload.chunks(0))
    if not counted.n_records:
        raise ValueError("the input has no records")
    size = -(-counted.n_records // PARTS)
    least = max(_HEAVY, _PART_OF_FAIR_SHARE / n_workers) * size
    parts = (count_keys([chunk]).heaviest(TOP, least) for chunk in workload.chunks(0, size))
    steps = pairwise({key for key, _ in part} for part in parts)
    distances = [len(one ^ other) / max(len(one | other), 1) for one, other in steps]
    return KeyFacts(
        n_records=counted.n_records,
        n_keys=counted.n_keys,
        n_above_fair_share=int((counted.counts * n_workers > counted.n_records).sum()),
        heaviest=counted.heaviest(CURVE),
        drift=float(np.mean(distances)) if distances else 0.0,
    )


def count_keys(chunks: Iterable[Keys]) -> KeyCounts:
    """Return how often each key occurs; with millions of keys, light ones are forgotten."""
    keys: Keys = np.empty(0, np.uint64)
    counts: Ints = np.empty(0, np.int64)
    n_records = 0
    distinct = ReplicaCounter(_MOST_KEYS)
    for chunk in chunks:
        n_records += chunk.size
        distinct.add(chunk, np.zeros(chunk.size, np.int32))
        new, times = np.unique(chunk, return_counts=True)
        both = np.concatenate([keys, new])
        keys, index = np.unique(both, return_inverse=True)
        counts = np.bincount(index, np.concatenate([counts, times]), keys.size).astype(np.int64)
        if keys.size > _MOST_KEYS:
            kept = np.argpartition(counts, -_MOST_KEYS // 2)[-_MOST_KEYS // 2 :]
            kept.sort()
            keys, counts = keys[kept], counts[kept]
    return KeyCounts(keys, counts, n_records, round(distinct.counts()[0]))


class KeyReport(NamedTuple):
    """The counts of the keys of a stream, and what each way of partitioning would do with them."""

    facts: KeyFacts
    found: HotKeys

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        facts, found = self
        return {
            "n_records": facts.n_records,
            "n_keys": facts.n_keys,
            "n_workers": found.workers,
            "top_keys": facts.shares[:TOP],
            "top_key_texts": [key.key for key in found.keys],
            "n_above_fair_share": facts.n_above_fair_share,
            "drift": facts.drift,
            "curve": facts.curve,
            "n_simulated": found.sampled,
            "predictions": [asdict(one) for one in found.predictions],
            "skewed": found.skewed,
            "advice": found.advice,
        }

    def __str__(self) -> str:
        """Return the tables and the advice, with the counts before them."""
        return (
            f"{self.facts.n_keys:,} keys; {self.facts.n_above_fair_share} above the fair share of "
            f"one of {self.found.workers} workers; drift {self.facts.drift:.2f} (0: the heavy keys "
            f"stay the same, 1: all change)\n{self.found}"
        )


def first_keys(workload: Workload, most: int = MOST_ROUTED) -> Keys:
    """Return the key hashes of the first records of a stream, at most this many."""
    kept: list[Keys] = []
    for chunk in workload.chunks(0):
        kept.append(chunk[:most])
        most -= kept[-1].size
        if not most:
            break
    return np.concatenate(kept)


def diagnose_keys(
    workload: Workload,
    *,
    n_workers: int,
    n_slots: int | None = None,
    costs: Costs | None = None,
    window: int = 10_000,
    goes_on: bool = False,
) -> KeyReport:
    """Count the keys of a stream, and route its first records for the predictions.

    These count as partitions of equal size, one for each worker, or fewer if there are very many
    workers. `n_slots`: tasks that run at the same time; None: as many as workers. `costs`: of the
    work, if they are known. `window`: records of a micro-batch. `goes_on`: whether there may be
    more records; of a trace that is known.
    """
    facts, keys = count_facts(workload, n_workers=n_workers), first_keys(workload)
    names: Mapping[int, tuple[Any, ...]] = {}
    if isinstance(workload, Trace):
        names = workload.values(np.array([key for key, _ in facts.heaviest[:TOP]], np.uint64))
        goes_on = facts.n_records == workload.limit
    slots = n_workers if n_slots is None else n_slots
    n_sources = max(_FEWEST_SOURCES, min(n_workers, _MOST_STATES // n_workers))
    cuts = np.linspace(0, keys.size, n_sources + 1).astype(np.int64)
    sample = SampledKeys(keys, tuple(np.diff(cuts).tolist()))
    job = Job(sample, n_workers, slots, facts.n_records, costs, window=window)
    found = HotKeys(
        records=facts.n_records,
        keys=tuple(
            HotKey(_text(names.get(key, "?")), records, records / facts.n_records)
            for key, records in facts.heaviest[:TOP]
        ),
        workers=n_workers,
        sampled=keys.size,
        predictions=predict(job, chosen_strategies(None)),
        slots=slots,
        partitions=n_sources,
        costs=costs,
        n_too_heavy=facts.n_above_fair_share,
        goes_on=goes_on,
    )
    return KeyReport(facts, found)


def _text(parts: Iterable[Any]) -> str:
    return "/".join(
        part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in parts
    )


class Candidate(NamedTuple):
    """A column that could be a key."""

    column: str
    type: str
    n_records: int
    n_keys: int
    top_share: float
    imbalance: float  # of hashing


def rank_columns(
    path: str,
    *,
    n_workers: int,
    format: str = "auto",
    limit: int = 1_000_000,
    delimiter: str = "auto",
) -> list[Candidate]:
    """Return the columns that could be keys, the most uneven one first.

    Columns of measured values and of times are left out, and so are columns with one value. Columns
    with more values than half of the records are left out too, unless one of the values is above
    the fair share of a worker. Only the first `limit` records are read.
    """
    found = []
    # Types that do not hold names: nested ones, times and measured values.
    kinds = pa.types
    others = (kinds.is_floating, kinds.is_nested, kinds.is_null, kinds.is_temporal)
    reading = {"format": format, "limit": limit, "delimiter": delimiter}
    for column, kind in columns_of(path, format, delimiter).items():
        if any(is_other(kind) for is_other in others):
            continue
        trace = Trace(path=path, key=(column,), **reading)  # type: ignore[arg-type]
        counted = count_keys(trace.chunks(0))
        n_keys = counted.n_keys
        if n_keys < _LEAST_KEYS:
            continue
        top_share = float(counted.counts.max() / counted.n_records)
        is_distinct = n_keys > max(_MOST_DISTINCT * counted.n_records, _LEAST_KEYS)
        if is_distinct and top_share * n_workers <= 1.0:
            continue
        workers = np.empty(counted.keys.size, np.int32)
        strategy = Hash()
        strategy.route(counted.keys, strategy.start(n_workers, 0), workers)
        uneven = imbalance(np.bincount(workers, counted.counts, n_workers))
        found.append(Candidate(column, str(kind), counted.n_records, n_keys, top_share, uneven))
    return sorted(found, key=lambda one: -one.imbalance)
