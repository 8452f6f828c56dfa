"""Diagnoses the keys of a stream: how skewed they are, how they drift, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from skewless import registry
from skewless.diagnosis.key_facts import TOP, KeyFacts, count_facts
from skewless.diagnosis.salting import Salting
from skewless.metrics import imbalance_by_chance
from skewless.simulator import simulate
from skewless.strategy import AnyStrategy
from skewless.workloads.workload import Workload

#: Strategies of each kind: by hash, without regard to keys, and aware of hot keys.
COMPARED = ("hash", "shuffle", "pkg", "pd-stream", "cascade", "cascade-ahead", "mixed")
#: If hashing has less imbalance than this, besides that by chance, nothing needs to change.
HARMLESS = 0.2
#: Numbers of salts that people commonly use.
SALTS = (4, 16)
_POINTS = 40  # of the curve
_FEWEST_PER_WORKER = 20  # records; with fewer, loads differ by chance
#: Advice for every skewed stream.
MERGED_ALREADY = (
    "If all you compute is sum, count, min, max or the like, plain Spark combines before the "
    "shuffle, and skew hardly hurts."
)


@dataclass(frozen=True)
class Measured:
    """What a strategy would do."""

    strategy: str
    slowest: float  # load of the fullest worker / fair share, mean over windows
    replicas: float  # workers per key, mean over windows
    replicas_in_all: float


@dataclass(frozen=True)
class KeyReport:
    """What the keys of a stream look like."""

    n_records: int
    n_keys: int
    n_workers: int
    top_keys: tuple[tuple[int, float], ...]  # hash and share of the records
    n_above_fair_share: int  # keys with more than a worker's fair share
    drift: float  # of the heaviest keys from one tenth of the stream to the next: 0 none, 1 all
    measured: tuple[Measured, ...]
    drifts: tuple[float, ...]  # the same for each tenth but the first
    curve: tuple[tuple[int, float], ...]  # rank and share of some of the heaviest keys
    n_simulated: int  # records in the simulations of `measured`: all, or the first ones
    window: int  # records

    @property
    def skewed(self) -> bool:
        """Whether hashing would leave one worker with much more than the others."""
        return self._is_uneven(self.of("hash"))

    @property
    def chance(self) -> float:
        """The imbalance that even keys have by chance, with few records per worker and window."""
        return imbalance_by_chance(min(self.window, self.n_simulated), self.n_workers)

    def _is_uneven(self, one: Measured) -> bool:
        return one.slowest - 1.0 > HARMLESS + self.chance

    def of(self, strategy: str) -> Measured:
        """Return the measurements of one of the strategies."""
        return next(one for one in self.measured if one.strategy == strategy)

    @property
    def advice(self) -> str:
        """What to do, in a few sentences."""
        if self.n_records < _FEWEST_PER_WORKER * self.n_workers:
            return (
                f"{self.n_records:,} records are too few for {self.n_workers} workers to tell "
                "skew from chance."
            )
        hashing = self.of("hash").slowest
        if not self.skewed:
            return (
                f"Hashing is even enough: the fullest worker has {hashing:.2f} times its fair "
                f"share, and even keys would have about {1.0 + self.chance:.2f} by chance. Keep "
                "plain Spark."
            )
        split, moved = self.of("cascade-ahead"), self.of("mixed")
        lines = [
            f"With hashing the fullest worker has {hashing:.2f} times its fair share. Where a "
            "key's results can be merged (`aggregate`, or `route` before a function of your own, "
            f'strategy="cascade-ahead"), it would have {split.slowest:.2f} at '
            f"{split.replicas:.2f} workers per key.",
        ]
        heavy = self.n_above_fair_share
        keys = "one key is" if heavy == 1 else f"{heavy} keys are"
        because = f", because {keys} too heavy for one worker" if heavy else ""
        if moved.slowest < hashing:
            lines.append(
                'Where they cannot (`process`, strategy="mixed"), it would have '
                f"{moved.slowest:.2f}{because if self._is_uneven(moved) else ''}."
            )
        else:
            lines.append(f"Where they cannot, moving keys does not help{because}.")
        lines.append(
            f"If only records cost something, and no key does, repartition({self.n_workers}) "
            f"spreads them as well. {MERGED_ALREADY}"
        )
        return " ".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        return asdict(self) | {"skewed": self.skewed, "advice": self.advice}


def diagnose_keys(
    workload: Workload, *, n_workers: int, window: int = 10_000, n_sources: int = 4, seed: int = 0
) -> KeyReport:
    """Return how the keys of a stream are distributed, and what strategies would do with them."""
    facts = count_facts(workload, n_workers=n_workers, seed=seed)
    return report_on(
        facts, workload, n_workers=n_workers, window=window, n_sources=n_sources, seed=seed
    )


def report_on(
    facts: KeyFacts,
    workload: Workload,
    *,
    n_workers: int,
    window: int = 10_000,
    n_sources: int = 4,
    seed: int = 0,
) -> KeyReport:
    """Return the same from counted keys; strategies are simulated on `workload`.

    `workload` may be the beginning of the stream that was counted.
    """
    strategies: dict[str, AnyStrategy] = {name: registry.make(name) for name in COMPARED}
    strategies |= {f"salt-{salts}": Salting(salts) for salts in SALTS}
    measured = []
    n_simulated = 0
    for name, strategy in strategies.items():
        run = simulate(
            strategy,
            workload,
            n_workers=n_workers,
            n_sources=n_sources,
            seed=seed,
            window=window,
        ).summary()
        n_simulated = run["records"]
        measured.append(
            Measured(
                name,
                run["window_max_load_ratio_mean"],
                run["window_replication_mean"],
                run["replication"],
            )
        )
    shares = [(key, records / facts.n_records) for key, records in facts.heaviest]
    return KeyReport(
        n_records=facts.n_records,
        n_keys=facts.n_keys,
        n_workers=n_workers,
        top_keys=tuple(shares[:TOP]),
        n_above_fair_share=facts.n_above_fair_share,
        drift=facts.drift,
        measured=tuple(measured),
        drifts=facts.drifts,
        curve=_curve([share for _, share in shares]),
        n_simulated=n_simulated,
        window=window,
    )


def _curve(shares: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Return the share of the keys at some ranks, which are even on a logarithmic scale.

    >>> _curve([0.5, 0.3, 0.2])
    ((1, 0.5), (2, 0.3), (3, 0.2))
    """
    ranks = np.unique(np.geomspace(1, max(len(shares), 1), _POINTS).round().astype(int))
    return tuple((rank, shares[rank - 1]) for rank in ranks.tolist() if rank <= len(shares))
