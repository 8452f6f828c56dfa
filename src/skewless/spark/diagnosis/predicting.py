"""What each strategy would make of a sample of key hashes, by the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column

from skewless import registry
from skewless.arguments import shown
from skewless.arrays import Keys
from skewless.simulator import simulate
from skewless.strategy import AnyStrategy
from skewless.workloads.workload import CHUNK_SIZE, spans

#: What plain Spark does, and what everything is compared with.
BASELINE = "hash"
#: The limit: it sees what comes. Shown when asked for, never advised.
LIMIT = "ideal"
#: One or two of each idea; the others are mostly relatives of these.
WORTHWHILE = (
    BASELINE,
    "shuffle",
    "pkg",
    "w-choices",
    "fish",
    "pd-stream",
    "cascade",
    "cascade-ahead",
    "mixed",
)
_SOURCES = 4  # tasks that route side by side and do not know of each other
_MICRO_BATCHES = 20


@dataclass(frozen=True)
class Prediction:
    """What a strategy would do: see `skewless.metrics` for what the numbers are.

    `imbalance` and `replication` are of all records at once, as a batch job sees them, which takes
    1 + `imbalance` times as long as with perfect balance. `makespan` is that ratio for a stream:
    the same records as 20 micro-batches, each of which waits for its slowest worker. Strategies
    that move keys do so between them, and in a batch job not at all. Micro-batches of a sample
    are short, so chance adds to all makespans alike: compare them with each other.
    """

    strategy: str
    family: str
    imbalance: float
    replication: float
    makespan: float


@dataclass(frozen=True)
class Sample:
    """Key hashes in the order of the records: a workload."""

    name: ClassVar[str] = "sample"

    keys: Keys

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return int(self.keys.size)

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        """Yield the key hashes in order."""
        for first, size in spans(self.n_records, chunk_size):
            yield self.keys[first : first + size]


def chosen_strategies(wanted: str | Iterable[str | AnyStrategy] | None) -> list[AnyStrategy]:
    """Return the strategies by name, the baseline first whether it was asked for or not."""
    if wanted is None:
        names: Sequence[str | AnyStrategy] = WORTHWHILE
    elif isinstance(wanted, str):
        names = registry.names() if wanted == "all" else [wanted]
    elif isinstance(wanted, Iterable) and not isinstance(wanted, Column):
        names = list(wanted)
    else:
        raise ValueError(f"strategies must be names or strategies, or 'all', not {shown(wanted)}")
    made = [registry.strategy_of(name, "strategies") for name in names]
    rest = [strategy for strategy in made if strategy.name != BASELINE]
    return [registry.make(BASELINE), *rest]


def predict(
    keys: Keys, strategies: Iterable[AnyStrategy], *, n_workers: int, seed: int
) -> tuple[Prediction, ...]:
    """Return what each strategy does with these records."""
    window = max(1, -(-keys.size // _MICRO_BATCHES))
    predictions = []
    for strategy in strategies:
        run = simulate(
            strategy,
            Sample(keys),
            n_workers=n_workers,
            n_sources=_SOURCES,
            seed=seed,
            window=window,
        )
        told = run.summary()
        predictions.append(
            Prediction(
                strategy.name,
                strategy.traits.family,
                told["imbalance"],
                told["replication"],
                told["makespan_ratio"],
            )
        )
    return tuple(predictions)
