"""The streams of PStream's evaluation: its synthetic ones, and what stands in for its traces."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import Size

_EXACT = 10_000  # this many ranks are added up one by one, the others by an integral
_AVERAGED = 10_000  # records over which the authors take the mean of latencies
_WINDOWS = 20  # of a stream, at least
_MERGES = 10  # of a stream: how often results are merged; the paper says every ten seconds or so


class Trace(NamedTuple):
    """A data set of the paper that cannot be had, by what is published about it."""

    title: str
    n_records: int
    n_keys: int
    top: float  # this part of the keys …
    share: float  # … has this part of the records


#: Table 3 and section 1. No share of the hashtags is published: that of the words stands in.
TRACES = {
    "TW": Trace("words of tweets", 658_000_000, 5_700_000, 0.03, 0.8),
    "ST": Trace("NASDAQ records", 274_000_000, 6_649, 0.08, 0.8),
    "HA": Trace("hashtags", 43_000_000, 3_400_000, 0.03, 0.8),
    "TX": Trace("taxi positions", 3_000_000_000, 8_000, 0.24, 0.8),
    "orders": Trace("passenger orders", 7_000_000, 8_000, 0.2, 0.8),
}

#: PStream's throughput differs by some 10 % from seed to seed: where that matters, means are over
#: these.
SEEDS = range(1, 7)

SERVICE = 1e-4  # seconds that a record takes a worker: the unit of all times
REDUCERS = 64
#: Records come as fast as back-pressure allows: the authors raise the speed of their source until
#: the throughput does not grow any more.
SATURATED = {"service": SERVICE, "pending": 4096, "queue": 4096}
#: The same with a stage that merges partial results; sources wait if it is two windows behind.
MERGED = {**SATURATED, "merge": SERVICE, "reducers": REDUCERS, "unmerged": 2}

#: For `data` of figures that have it.
MERGING = (
    " A partial result takes a reducer as long as a record takes a worker. With 64 reducers, which "
    "the paper does not name, shuffle grouping stops growing between 64 and 80 workers, and at 80 "
    "in the paper; no other number is fitted. Where keys have several workers at all, the results "
    "of all keys are merged, also of those that one worker has; in PStream those are final."
)

#: For `data` of figures.
STAND_IN = (
    "The trace cannot be had. A Zipf stream stands in, with the published number of keys and the "
    "exponent that gives the published share to the most frequent keys"
)
SYNTHETIC = "Zipf over 10 million keys, the paper's ZF"


def _weight(first: int, last: int, z: float) -> float:
    """Return the sum of i^−z over the ranks `first` … `last`."""
    cut = max(first - 1, min(last, _EXACT))
    exact = float((np.arange(first, cut + 1, dtype=np.float64) ** -z).sum())
    if cut == last:
        return exact
    low, high = cut + 0.5, last + 0.5
    if abs(1.0 - z) < 1e-12:
        return exact + float(np.log(high / low))
    return exact + float((high ** (1.0 - z) - low ** (1.0 - z)) / (1.0 - z))


def share_of_top(z: float, n_keys: int, n_top: int) -> float:
    """Return the share of the records that the first ranks of a Zipf stream have.

    >>> round(share_of_top(1.0, 3, 1), 3)
    0.545
    """
    return _weight(1, n_top, z) / _weight(1, n_keys, z)


@functools.cache
def fitted_z(n_keys: int, top: float, share: float) -> float:
    """Return the exponent with which a part `top` of the keys has a part `share` of the records.

    >>> fitted_z(5_700_000, 0.03, 0.8)
    1.0129
    """
    n_top = max(1, round(top * n_keys))
    low, high = 0.0, 5.0
    while high - low > 1e-6:
        z = (low + high) / 2
        low, high = (z, high) if share_of_top(z, n_keys, n_top) < share else (low, z)
    return round(low, 4)


def stand_in(name: str, size: Size) -> dict[str, Any]:
    """Return the parameters of the Zipf stream for a trace."""
    trace = TRACES[name]
    return {
        "z": fitted_z(trace.n_keys, trace.top, trace.share),
        "n_keys": trace.n_keys,
        "n_records": min(trace.n_records, size.records),
    }


def synthetic(z: float, size: Size) -> dict[str, Any]:
    """Return the parameters of the paper's ZF with this exponent."""
    return {"z": z, "n_keys": 10_000_000, "n_records": min(1_000_000_000, size.records)}


def routed(
    strategy: str,
    of: Mapping[str, Any],
    n_workers: int,
    size: Size,
    *,
    settings: Mapping[str, Any] | None = None,
    timing: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> Simulation:
    """Return the cell of one strategy on one Zipf stream.

    One source routes: PStream's predictor is one for all sources, and knows every record.
    """
    return Simulation(
        strategy,
        "zipf",
        settings=settings or {},
        of=of,
        n_workers=min(n_workers, size.workers),
        seed=seed,
        window=max(1, min(_AVERAGED, of["n_records"] // _WINDOWS)),
        timing=timing,
    )


def merged(strategy: str, of: Mapping[str, Any], n_workers: int, size: Size) -> Simulation:
    """Return the cell of a strategy with its merge stage.

    Where a key has one worker, its result is final, so hash and DKG have none.
    """
    return Simulation(
        strategy,
        "zipf",
        of=of,
        n_workers=min(n_workers, size.workers),
        window=merge_window(of),
        timing=SATURATED if strategy in ("hash", "dkg") else MERGED,
    )


def merge_window(of: Mapping[str, Any]) -> int:
    """Return the records after which results of a stream are merged."""
    return max(1, int(of["n_records"]) // _MERGES)


def levels(size: Size) -> list[int]:
    """Return the parallelism levels of a size: from 8 up to 128, or to what it allows.

    >>> from skewless.experiments.reproduction.figure import TINY
    >>> levels(TINY)
    [8, 16, 32]
    """
    return [n for n in (8, 16, 32, 64, 80, 128) if n <= size.workers]
