"""The streams of the paper, and the runs that its figures have in common.

The label of a cell has the paper's numbers; a smaller size measures fewer workers and records.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import Points, Results, Size

#: Instances of `v_join`, the operator behind the grouping.
WORKERS = (16, 32, 64, 128)
#: Instances of `v_project`, the operator before it (Table VI): each has a grouper of its own.
SOURCES = 8
#: What the paper compares in nearly all figures, and ours.
STRATEGIES = ("pkg", "w-choices", "dagreedy", "pd-stream", "cascade")
#: Exponents of the synthetic streams, which draw from this many keys (Table IV).
EXPONENTS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
DOMAIN = 10_000_000
SYNTHETIC_RECORDS = 10_000_000

# Replication depends on the length of a stream. Cells with a published number may therefore be
# longer than the others, by this factor: at the quick size they are as long as the paper's.
_LONGER = 25
_LONG_WINDOW = 1_000_000
_WINDOW = 10_000


class Stream(NamedTuple):
    """A stream of the paper: how many records and keys it has, and the share of the first key."""

    name: str
    n_records: int
    n_keys: int
    top_share: float


#: Table V.
DS = Stream("DS", 12_000_000, 2_400_000, 0.202)
HT = Stream("HT", 67_000_000, 2_200_000, 0.085)
REAL = (DS, HT)

#: What stands in for the real streams.
REAL_DATA = (
    "DS (DDoS flows) and HT (hashtags) are not at hand. Zipf streams with the published number of "
    "keys and the published share of the first key stand in for them (Table V). They draw from "
    "2.4 and 2.2 million keys; z is fitted to the shares 20.2 % and 8.5 %."
)
SYNTHETIC_DATA = (
    "Zipf over 10 million keys, as in the paper: up to 10 million records, and the number of "
    "distinct keys of its Table IV."
)


def harmonic(n_keys: int, z: float) -> float:
    """Return the sum of i^−z for i = 1 … n_keys, by Euler and Maclaurin beyond the first terms.

    >>> round(harmonic(3, 1.0), 6), round(harmonic(10_000_000, 1.0), 6)
    (1.833333, 16.695311)
    """
    n_exact = min(n_keys, 1_000)
    total = float((np.arange(1, n_exact + 1, dtype=np.float64) ** -z).sum())
    if n_keys == n_exact:
        return total
    low, high = float(n_exact), float(n_keys)
    area = math.log(high / low) if z == 1.0 else (high ** (1 - z) - low ** (1 - z)) / (1 - z)
    ends = (high**-z - low**-z) / 2
    slopes = z * (low ** (-z - 1) - high ** (-z - 1)) / 12
    return float(total + area + ends + slopes)


@functools.lru_cache(maxsize=64)
def fitted_z(n_keys: int, top_share: float) -> float:
    """Return the exponent, to four digits, at which the first of this many keys has this share.

    >>> fitted_z(2_400_000, 0.202), fitted_z(2_200_000, 0.085)
    (1.2205, 1.0383)
    """
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if 1 / harmonic(n_keys, middle) < top_share:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 4)


def real(stream: Stream, n_records: int) -> dict[str, Any]:
    """Return the parameters of the workload `zipf` that stands in for a real stream."""
    return {
        "z": fitted_z(stream.n_keys, stream.top_share),
        "n_keys": stream.n_keys,
        "n_records": min(stream.n_records, n_records),
    }


def synthetic(z: float, n_records: int) -> dict[str, Any]:
    """Return the parameters of the workload `zipf` for a synthetic stream."""
    return {"z": z, "n_keys": DOMAIN, "n_records": min(SYNTHETIC_RECORDS, n_records)}


def name_of(stream: Stream | float) -> str | float:
    """Return how labels call a stream: DS, HT, or by the exponent."""
    return stream.name if isinstance(stream, Stream) else stream


def label(strategy: str, stream: str | float, n_workers: int, seed: int, note: str = "") -> str:
    """Return the name of a cell; `stream` as `name_of` has it."""
    name = stream if isinstance(stream, str) else f"z={stream}"
    return " ".join([strategy, *([note] if note else []), name, f"n={n_workers}", f"seed={seed}"])


def runs(
    size: Size,
    strategies: Iterable[str],
    streams: Iterable[Stream | float],
    workers: Sequence[int] = WORKERS,
    *,
    note: str = "",
    long: bool = False,
    n_sources: int = SOURCES,
    settings: Mapping[str, Any] | None = None,
    **also: Any,
) -> dict[str, Simulation]:
    """Return one simulation per strategy, stream, number of workers and seed.

    Parameters
    ----------
    note
        What sets these cells apart from others of the same strategy, in the labels.
    long
        Make the streams as long as published even at the quick size.
    also
        Further parameters of `Simulation`.
    """
    n_records = size.records * (_LONGER if long else 1)
    cells = {}
    for stream in streams:
        for strategy in strategies:
            for n in workers:
                for seed in size.seeds:
                    name = label(strategy, name_of(stream), n, seed, note)
                    cells[name] = Simulation(
                        strategy,
                        "zipf",
                        settings=dict(settings or {}),
                        of=(
                            real(stream, n_records)
                            if isinstance(stream, Stream)
                            else synthetic(stream, n_records)
                        ),
                        n_workers=min(n, size.workers),
                        n_sources=n_sources,
                        seed=seed,
                        window=_LONG_WINDOW if long else _WINDOW,
                        **also,
                    )
    return cells


def mean(
    results: Results,
    strategy: str,
    stream: str | float,
    n_workers: int,
    column: str,
    note: str = "",
) -> float:
    """Return the mean of a column over the seeds that were measured."""
    values = column_of(results, strategy, stream, n_workers, column, note)
    return float(sum(values) / len(values))


def column_of(
    results: Results,
    strategy: str,
    stream: str | float,
    n_workers: int,
    column: str,
    note: str = "",
) -> list[Any]:
    """Return a column, one entry per seed that was measured."""
    begin = label(strategy, stream, n_workers, 0, note).removesuffix("0")
    values = [row[column] for name, row in results.items() if name.startswith(begin)]
    if not values:
        raise KeyError(f"no cell of this figure is called {begin}…")
    return values


def against_workers(
    results: Results, strategy: str, stream: str | float, column: str, scale: float = 1.0
) -> Points:
    """Return a curve over the number of workers."""
    return [(n, scale * mean(results, strategy, stream, n, column)) for n in WORKERS]


def against_skew(results: Results, strategy: str, n_workers: int, column: str) -> Points:
    """Return a curve over the exponents of the synthetic streams."""
    return [(z, mean(results, strategy, z, n_workers, column)) for z in EXPONENTS]
