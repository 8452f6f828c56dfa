"""Figures of Mixed (Fang et al.): plans of the moving family, and what they do to a stream.

`planning` makes plans, and runs systems in virtual time, on 15 cores. Smaller sizes have fewer
keys, so a smaller bound on the table, and most of them another z.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import Measurement, Paper, Size, named
from experiments.reproduction.fitting import fitted_z, same_head
from experiments.reproduction.papers.mixed.planning import (
    N_KEYS,
    Planning,
    Timed,
    clocked,
    compacting,
    literal,
    table_bound,
)
from experiments.reproduction.table import Entry, Table

_Z = 0.85
_N_WORKERS = 15
_N_SOURCES = 10
_FAMILY = ("mixed", "min-table", "min-mig", "mixed-bf")
_MOVING = ("mixed", "min-table", "readj")

#: Seconds of an interval when no worker idles (section IV).
_INTERVAL = 10.0
#: Records of one source that may be under way (section V, for PKG).
_PENDING = 50
#: What moving the state of one record takes, relative to its service; not published. Little: the
#: authors slow the service down until the processors are what limits the system.
_TRANSFER = 1 / 100
#: What merging one partial result takes, relative to a record; not published.
_MERGE = 1 / 10


def n_keys(size: Size, published: int = N_KEYS, records_per_key: int = 20) -> int:
    """Count the keys: a million, or one per this many records of the size."""
    return min(published, size.records // records_per_key)


def n_intervals(size: Size, published: int = 50) -> int:
    """Count the intervals to measure."""
    return min(published, max(4, size.records // 40_000))


def planned(
    size: Size,
    *,
    strategy: str,
    seed: int,
    workers: int = _N_WORKERS,
    windows: int = 5,
    keys: int = 0,
    most_keys: int = N_KEYS,
    z: float = 0.0,
    f: float = 1.0,
    intervals: int = 0,
    bound: int = 0,
    **settings: float,
) -> Planning:
    """Return plans with the defaults of the paper, except for what is given.

    `bound`: of the table. `settings`: parameters of the strategy by their names.
    """
    keys = keys or n_keys(size, most_keys)
    as_written = literal(strategy) if strategy in _FAMILY else {}
    bounded = strategy in ("mixed", "mixed-bf")
    entries = {"max_entries": bound or table_bound(keys)} if bounded else {}
    return Planning(
        strategy,
        {**as_written, **entries, **settings},
        z=z or same_head(_Z, N_KEYS, keys),
        n_keys=keys,
        f=f,
        n_workers=min(workers, size.workers),
        state_windows=windows,
        n_intervals=intervals or n_intervals(size),
        seed=seed,
    )


def needed(size: Size, *, strategy: str, workers: int, seed: int) -> Planning:
    """Return one plan for as many keys as published: the smallest table that is enough."""
    keys = N_KEYS if size.workers >= workers else n_keys(size)
    given = {"workers": workers, "keys": keys, "windows": 1, "intervals": 1}
    return planned(size, strategy=strategy, seed=seed, **given)


def adjusted(size: Size, *, strategy: str, tolerance: float, seed: int) -> Planning:
    """Return many plans for few keys: how a table grows."""
    keys = min(10_000, max(100, size.records // 2_000))
    intervals = min(20_000, max(60, size.records // 800))
    z = same_head(_Z, 10_000, keys)
    given = {"keys": keys, "intervals": intervals, "z": z, "tolerance": tolerance}
    return planned(size, strategy=strategy, seed=seed, **given)  # type: ignore[arg-type]


def compacted(size: Size, *, strategy: str, degree: int, seed: int) -> Measurement:
    """Return plans over vectors, with R = `degree`; 0: over single keys."""
    own = planned(size, strategy=strategy, seed=seed)
    return compacting(degree, own.z, own.n_keys, own.n_workers, n_intervals(size, 20), seed)


def clocked_plans(
    size: Size, *, strategy: str, seed: int, tolerance: float = 0.08, degree: int = 0
) -> Measurement:
    """Return plans by the clock, beside those of MinTable, and over vectors with R = `degree`."""
    one = planned(size, strategy=strategy, seed=seed, tolerance=tolerance)
    other = planned(size, strategy="min-table", seed=seed, tolerance=tolerance)
    vectors = {"compact": True, "discretisation": max(degree, 1).bit_length() - 1}
    plans: dict[str, Any] = {
        strategy: {"strategy": strategy, **one.settings},
        "min-table": {"strategy": "min-table", **other.settings},
        "compact": {"strategy": strategy, **one.settings, **vectors},
    }
    return clocked(plans, one.z, one.n_keys, one.n_workers, seed)


def hashed(size: Size, *, seed: int, workers: int = _N_WORKERS, keys: int = 0) -> Planning:
    """Return the loads of a hash: of most keys for these workers, or of these keys."""
    given = {"keys": keys or n_keys(size, records_per_key=4), "z": _Z if keys else 0.0}
    once = {"f": 0.0, "windows": 1, "intervals": 1, "ring": True}
    return planned(size, strategy="hash", seed=seed, workers=workers, **given, **once)  # type: ignore[arg-type]


def cascade(
    size: Size, *, strategy: str, seed: int, f: float | None = None, **given: Any
) -> Simulation:
    """Return Cascade on the same kind of stream, whatever is given for plans.

    It moves no state: what it costs instead are replicas of keys.
    """
    own = planned(size, strategy=strategy, seed=seed, **given)
    interval = max(1_000, size.records // 4 // own.n_intervals)
    of = {"z": own.z, "n_keys": own.n_keys, "n_workers": own.n_workers, "interval": interval}
    of |= {"n_records": interval * own.n_intervals} | ({} if f is None else {"f": f})
    return Simulation(
        strategy, "fluctuation", of=of, n_workers=own.n_workers, window=interval, seed=seed
    )


def _stream(size: Size, stream: str, f: float) -> tuple[int, float, float]:
    """Return keys, exponent and change of a stream of section V, or of what stands in for it."""
    if stream == "stock":  # abrupt changes of 1,036 stocks
        return 1_036, fitted_z(1_036, 0.04), 1.0
    if stream == "tpch":  # customers of 1 GB of TPC-H; z and f are published
        return n_keys(size, published=150_000), 0.8, 1.0
    if stream == "social":  # slow changes of 180,000 words
        return n_keys(size, published=180_000), _Z, 0.2
    return n_keys(size), _Z, f


def timed(
    size: Size,
    *,
    system: str,
    seed: int,
    stream: str = "",
    f: float = 0.0,
    tolerance: float = 0.08,
    transfer: float = _TRANSFER,
    merge: float = _MERGE,
    joins: bool = False,
    windows: int = 10,
    steady: int = 5,
) -> Timed:
    """Return one of the compared systems on 15 cores, over ten intervals; loads change after five.

    `joins`: loads do not change, but a 16th core comes after five intervals. `windows`, `steady`:
    so many intervals, and so many until loads change.
    """
    keys, z, change = _stream(size, stream, f)
    strategy = {"ideal": "shuffle", "storm": "hash"}.get(system, system)
    n_records = size.records // 2
    window = n_records // windows
    service = _INTERVAL * _N_WORKERS / window
    timing = {"service": service, "pending": _PENDING, "transfer": transfer * service}
    settings: dict[str, Any] = {
        **({"ring": True} if strategy == "hash" else {}),
        **({"tolerance": tolerance} if strategy in _MOVING else {}),
        **(literal(strategy) if strategy in _FAMILY else {}),
        **({"max_entries": table_bound(keys)} if strategy == "mixed" else {}),
    }
    total = _N_WORKERS + joins
    events = [{"at": n_records // 2, "worker": _N_WORKERS, "kind": "join"}] if joins else []
    if system == "pkg":
        # As many cores merge as that takes. This strategy cannot rescale: it has all workers from
        # the start.
        reducers = math.ceil(merge * _N_WORKERS)
        timing |= {"merge": service * merge, "reducers": reducers, "unmerged": 2}
        total, events, window = total - reducers, [], max(1, window // 10)
    interval = n_records if joins else n_records * steady // windows
    of = {"z": z, "n_keys": keys, "f": change, "n_workers": _N_WORKERS}
    return Timed(
        strategy,
        "fluctuation",
        settings,
        {**of, "n_records": n_records, "interval": interval},
        timing=timing,
        steps_per_second=3.0 * keys,
        n_workers=total,
        n_sources=_N_SOURCES,
        window=window,
        events=events,
        seed=seed,
    )


def _throughput_from(entry: Entry, share: float) -> float:
    """Return records per second, without the windows of the first part of the stream."""
    ends = entry.row["window_seconds"]
    begin = round(len(ends) * share)
    return float(entry.row["records"] * (1.0 - share) / (ends[-1] - ends[begin - 1]))


def _tenth(entry: Entry) -> int:
    """Count the adjustments of a tenth of a run."""
    return max(1, len(entry.row["entries"]) // 10)


def _late_share(entry: Entry) -> float:
    """Return the mean share of the keys in the table, over the last tenth of the adjustments."""
    return float(np.mean(entry.row["entries"][-_tenth(entry) :]) / entry.row["n_keys"])


def _enough(table: Table, **axes: Any) -> float:
    """Return the smallest bound with which little moves: less than midway between the extremes."""
    bounds = table.values("bound", **axes)
    moved = [table.mean("moved", bound=bound, **axes) for bound in bounds]
    midway = (moved[0] + moved[-1]) / 2
    fitting = (bound for bound, share in zip(bounds, moved, strict=True) if share < midway)
    return float(next(fitting, bounds[-1]))


PAPER = Paper(
    "mixed",
    "Mixed",
    named(planned, needed, adjusted, compacted, clocked_plans, hashed, cascade, timed),
    columns={
        # Without the first two intervals, in which plans replace the hash.
        "steady": lambda entry: _throughput_from(entry, 0.2),
        "at_the_end": lambda entry: _throughput_from(entry, 0.8),
        "after_join": lambda entry: _throughput_from(entry, 0.5),
        "default_bound": lambda entry: float(table_bound(int(entry.row["n_keys"]))),
        "spread": lambda entry: max(entry.row["average_loads"]) / min(entry.row["average_loads"]),
        "early_entries": lambda entry: float(np.mean(entry.row["entries"][: _tenth(entry)])),
        **named(_late_share),
    },
    calls=named(_enough),
)
