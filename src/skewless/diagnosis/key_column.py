"""Diagnoses the keys of a stream: how skewed they are, how they drift, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import Keys
from skewless.diagnosis.advice import HotKey, HotKeys
from skewless.diagnosis.costs import Costs
from skewless.diagnosis.job import Job, SampledKeys
from skewless.diagnosis.key_facts import TOP, KeyFacts
from skewless.diagnosis.ways import chosen_strategies, predict
from skewless.workloads.workload import Workload

#: Records whose keys are kept in memory for the predictions: 8 bytes each.
MOST_ROUTED = 8_000_000
#: Each source keeps something for each worker, so that sources times workers are bounded.
_MOST_STATES, _FEWEST_SOURCES = 1_000_000, 4


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
            "drifts": facts.drifts,
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


def first_keys(workload: Workload, seed: int = 0, most: int = MOST_ROUTED) -> Keys:
    """Return the key hashes of the first records of a stream, at most this many."""
    kept: list[Keys] = []
    for chunk in workload.chunks(seed):
        kept.append(chunk[:most])
        most -= kept[-1].size
        if not most:
            break
    return np.concatenate(kept)


def report_on(
    facts: KeyFacts,
    keys: Keys,
    *,
    n_workers: int,
    n_slots: int | None = None,
    costs: Costs | None = None,
    window: int = 10_000,
    texts: Mapping[int, str] | None = None,
    goes_on: bool = False,
    seed: int = 0,
) -> KeyReport:
    """Build the report on a stream from the counts of its keys.

    `keys` are the hashes of its first records, which are routed for the predictions. They count as
    partitions of equal size, one for each worker, or fewer if there are very many workers.
    `n_slots`: tasks that run at the same time; None: as many as workers. `costs`: of the work, if
    they are known. `window`: records of a micro-batch. `texts`: the heaviest keys by hash, as
    people read them. `goes_on`: whether there may be more records than were counted.
    """
    slots = n_workers if n_slots is None else n_slots
    n_sources = max(_FEWEST_SOURCES, min(n_workers, _MOST_STATES // n_workers))
    cuts = np.linspace(0, keys.size, n_sources + 1).astype(np.int64)
    sample = SampledKeys(keys, tuple(np.diff(cuts).tolist()))
    job = Job(sample, n_workers, slots, facts.n_records, costs, seed, window=window)
    known = texts or {}
    heaviest = tuple(
        HotKey(known.get(key, "?"), records, records / facts.n_records)
        for key, records in facts.heaviest[:TOP]
    )
    found = HotKeys(
        records=facts.n_records,
        keys=heaviest,
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
