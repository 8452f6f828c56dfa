"""What a routing decision costs: ns per record, as a ratio to `hash` in the same repetition."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from time import perf_counter_ns

import numpy as np

from skewless import registry
from skewless.arrays import Keys
from skewless.experiments.tables import Row, markdown
from skewless.strategy import AnyStrategy
from skewless.workloads import Zipf

WORKERS = (16, 64, 128, 1024)
EXPONENTS = (0.8, 1.4, 2.0)


def measure(
    names: Sequence[str],
    *,
    n_records: int = 500_000,
    n_keys: int = 100_000,
    repetitions: int = 5,
    workers: Sequence[int] = WORKERS,
    exponents: Sequence[float] = EXPONENTS,
    seed: int = 1,
) -> Iterator[Row]:
    """Yield one raw record per strategy, setting and repetition.

    Repetitions are the outermost loop and strategies the innermost: what disturbs the machine for
    a while disturbs all strategies alike, and `hash` runs beside each of them.
    """
    streams = {
        z: np.concatenate(list(Zipf(z=z, n_keys=n_keys, n_records=n_records).chunks(seed)))
        for z in exponents
    }
    strategies = [registry.make(name) for name in names]
    for repetition in range(repetitions):
        for z, keys in streams.items():
            for n_workers in workers:
                for strategy in strategies:
                    yield {
                        "strategy": strategy.name,
                        "workers": n_workers,
                        "z": z,
                        "repetition": repetition,
                        "records": n_records,
                        "ns_per_record": _ns_per_record(strategy, keys, n_workers, seed),
                    }


def _ns_per_record(strategy: AnyStrategy, keys: Keys, n_workers: int, seed: int) -> float:
    """Return the time of the second half of the stream: the first one warms up state and caches."""
    half = keys.size // 2
    out = np.empty(half, np.int32)
    state = strategy.start(n_workers, seed)
    strategy.route(keys[:half], state, out)
    begin = perf_counter_ns()
    strategy.route(keys[half : 2 * half], state, out)
    return (perf_counter_ns() - begin) / half


def median_ratios(records: Sequence[Row], to: str = "hash") -> dict[tuple[str, int, float], float]:
    """Return by (strategy, workers, z) the median over repetitions of the ratio to `to`."""
    base = {
        (r["workers"], r["z"], r["repetition"]): r["ns_per_record"]
        for r in records
        if r["strategy"] == to
    }
    ratios: dict[tuple[str, int, float], list[float]] = {}
    for r in records:
        cell = (r["strategy"], r["workers"], r["z"])
        ratio = r["ns_per_record"] / base[r["workers"], r["z"], r["repetition"]]
        ratios.setdefault(cell, []).append(ratio)
    return {cell: statistics.median(values) for cell, values in ratios.items()}


def table_to_pkg(records: Sequence[Row], n_workers: int) -> str:
    """Return the ratios to `pkg`, as the papers give them: a column per exponent."""
    ratios = median_ratios(records, to="pkg")
    exponents = sorted({r["z"] for r in records})
    names = list(dict.fromkeys(r["strategy"] for r in records))
    return markdown(
        ["strategy", *(f"z = {z}" for z in exponents)],
        ([name, *(f"{ratios[name, n_workers, z]:.1f}" for z in exponents)] for name in names),
    )


def table(records: Sequence[Row], z: float) -> str:
    """Return the ratios at one exponent: a row per strategy, a column per number of workers."""
    ratios = median_ratios(records)
    workers = sorted({r["workers"] for r in records})
    names = list(dict.fromkeys(r["strategy"] for r in records))
    return markdown(
        ["strategy", *(f"n = {n}" for n in workers)],
        ([name, *(f"{ratios[name, n, z]:.1f}" for n in workers)] for name in names),
    )
