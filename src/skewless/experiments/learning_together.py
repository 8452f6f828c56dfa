"""Sources that learn together: alone, merged often, by a protocol with delay, and on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skewless import registry
from skewless.arrays import Ints
from skewless.experiments.tables import Row, markdown
from skewless.simulator import Sync, simulate
from skewless.strategy import Merges
from skewless.workloads import Zipf

N_WORKERS = 32
N_SOURCES = 8
STREAM = Zipf(z=1.4, n_keys=100_000, n_records=1_000_000)
SEED = 3
#: Records of the micro-batches on Spark, in turn.
UNEVEN = (1, 40_000, 7, 100_003, 25_000, 60_001)
_SYNC = 10_007  # a prime: no window or epoch of a strategy ends where a merge happens
_DELAY = 500  # rounds: each source routes this many records while a message is under way

VARIANTS = ("one source", "alone", "merged", "with delay", "on Spark")


def systems() -> list[str]:
    """Return the names of the strategies whose sources can learn together."""
    return [name for name in registry.names() if isinstance(registry.make(name), Merges)]


def measure(names: Sequence[str], stream: Zipf = STREAM) -> Iterator[Row]:
    """Yield one raw record per strategy and way of learning, without Spark."""
    for name in names:
        for variant, n_sources, sync in (
            ("one source", 1, 0),
            ("alone", N_SOURCES, 0),
            ("merged", N_SOURCES, _SYNC),
        ):
            run = simulate(
                registry.make(name),
                stream,
                n_workers=N_WORKERS,
                n_sources=n_sources,
                seed=SEED,
                sync=sync,
            ).summary()
            yield record(name, variant, run["imbalance"], run["replication"])
        strategy = registry.make(name)
        if strategy.traits.decides == "record":
            yield _with_delay(strategy, stream)


def micro_batches(stream: Zipf = STREAM) -> Iterator[list[Ints]]:
    """Yield the keys of each source in each micro-batch on Spark: uneven, and some have none.

    They are ranks, not hashes: Spark hashes keys itself. Hashing twice would make another stream,
    whose cold keys share other workers.
    """
    keys = np.concatenate(list(stream.ranks(SEED)))
    begin = number = 0
    while begin < keys.size:
        batch = keys[begin : begin + UNEVEN[number % len(UNEVEN)]]
        yield [batch[source::N_SOURCES] for source in range(N_SOURCES)]
        begin += batch.size
        number += 1


def record(name: str, variant: str, imbalance: float, replication: float | None) -> Row:
    """Return a raw record."""
    return {
        "strategy": name,
        "variant": variant,
        "imbalance": imbalance,
        "replication": replication,
    }


def _with_delay(strategy: Any, stream: Zipf) -> Row:
    """Return what Dalton's protocol gives: messages take time, and the interval adapts."""
    run = simulate(
        strategy,
        stream,
        n_workers=N_WORKERS,
        n_sources=N_SOURCES,
        seed=SEED,
        sync=Sync(
            interval=2_000 * N_SOURCES,
            delay=_DELAY * N_SOURCES,
            adaptive=True,
            shortest=500 * N_SOURCES,
        ),
    ).summary()
    return record(strategy.name, "with delay", run["imbalance"], run["replication"])


def table(records: Sequence[Row]) -> str:
    """Return a row per strategy: imbalance and replicas per key of each way."""
    cells = {(r["strategy"], r["variant"]): r for r in records}
    names = dict.fromkeys(r["strategy"] for r in records)
    rows = []
    for name in names:
        row: list[object] = [f"`{name}`"]
        for variant in VARIANTS:
            cell = cells.get((name, variant))
            if cell is None:
                row.append("")
            elif cell["replication"] is None:
                row.append(f"{cell['imbalance']:.2g}")
            else:
                row.append(f"{cell['imbalance']:.2g} / {cell['replication']:.3f}")
        rows.append(row)
    headings = (
        "strategy",
        "one source",
        f"{N_SOURCES} sources alone",
        f"merged every {_SYNC:,} records",
        "messages with delay",
        "on Spark, uneven batches",
    )
    return markdown(headings, rows)
