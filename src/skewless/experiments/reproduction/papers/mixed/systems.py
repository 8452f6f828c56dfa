"""The systems that the paper compares, on 15 cores in virtual time, and their streams."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from skewless.experiments.reproduction.figure import Size
from skewless.experiments.reproduction.papers.mixed import defaults
from skewless.experiments.reproduction.papers.mixed.fitting import fitted_z
from skewless.experiments.reproduction.papers.mixed.timed import Timed
from skewless.experiments.tables import Row

#: Seconds of an interval when no worker idles (section IV).
INTERVAL = 10.0
#: Records of one source that may be under way (section V, for PKG).
_PENDING = 50
#: What moving the state of one record takes, relative to its service; not published. Little: the
#: authors slow the service down until the processors are what limits the system.
TRANSFER = 1 / 100
#: What merging one partial result takes, relative to a record; not published.
MERGE = 1 / 10

TIME = (
    " Virtual time: an interval takes 10 s when no worker idles. A plan takes as long as its "
    "counted steps. A second has three steps for each key, so a plan of Mixed takes about one "
    "second, which the authors state as the most."
)


class Stream(NamedTuple):
    """A stream of section V, or what stands in for it."""

    n_keys: int
    z: float
    f: float


def synthetic(size: Size, f: float) -> Stream:
    """Return the stream of the paper's generator."""
    return Stream(defaults.n_keys(size), defaults.Z, f)


def social(size: Size) -> Stream:
    """Return slow changes of 180,000 words."""
    return Stream(defaults.n_keys(size, published=180_000), defaults.Z, 0.2)


def stock(size: Size) -> Stream:
    """Return abrupt changes of 1,036 stocks."""
    return Stream(1_036, fitted_z(0.04, 1_036), 1.0)


MOVING = ("mixed", "min-table", "readj")
_STRATEGIES = {
    "ideal": "shuffle",
    "storm": "hash",
    "mixed": "mixed",
    "min-table": "min-table",
    "readj": "readj",
    "pkg": "pkg",
    "cascade": "cascade",
}


def timed(
    curve: str,
    stream: Stream,
    n_records: int,
    seed: int,
    *,
    tolerance: float = defaults.TOLERANCE,
    transfer: float = TRANSFER,
    merge: float = MERGE,
    joins: bool = False,
) -> Timed:
    """Return one of the compared systems on 15 cores, over ten intervals; loads change after five.

    `joins`: loads do not change, but a 16th core comes after five intervals.
    """
    strategy = _STRATEGIES[curve]
    window = n_records // 10
    workers = defaults.N_WORKERS
    service = INTERVAL * workers / window
    timing: dict[str, Any] = {
        "service": service,
        "pending": _PENDING,
        "transfer": transfer * service,
    }
    settings: dict[str, Any] = {"ring": True} if strategy == "hash" else {}
    if strategy in MOVING:
        settings["tolerance"] = tolerance
    if strategy in defaults.FAMILY:
        settings |= defaults.LITERAL
    if strategy == "mixed":
        settings["max_entries"] = defaults.table_bound(stream.n_keys)
    total = workers + 1 if joins else workers
    event = {"at": n_records // 2, "worker": workers, "kind": "join"}
    events: tuple[dict[str, Any], ...] = (event,) if joins else ()
    if curve == "pkg":
        # As many cores merge as that takes. This strategy cannot rescale: it has all workers from
        # the start.
        reducers = math.ceil(merge * workers)
        timing |= {"merge": service * merge, "reducers": reducers, "unmerged": 2}
        total, events, window = total - reducers, (), max(1, window // 10)
    return Timed(
        strategy,
        {
            "z": stream.z,
            "n_keys": stream.n_keys,
            "n_records": n_records,
            "interval": n_records if joins else n_records // 2,
            "f": stream.f,
            "n_workers": workers,
        },
        timing,
        settings,
        steps_per_second=3.0 * stream.n_keys,
        n_workers=total,
        n_sources=defaults.N_SOURCES,
        window=window,
        events=events,
        seed=seed,
    )


def _throughput_from(row: Row, share: float) -> float:
    """Return records per second, without the windows of the first part of the stream."""
    ends = row["window_seconds"]
    begin = round(len(ends) * share)
    return float(row["records"] * (1.0 - share) / (ends[-1] - ends[begin - 1]))


def steady(row: Row) -> float:
    """Return the throughput without the first two intervals, in which plans replace the hash."""
    return _throughput_from(row, 0.2)


def at_the_end(row: Row) -> float:
    """Return the throughput of the last two intervals."""
    return _throughput_from(row, 0.8)


def after_join(row: Row) -> float:
    """Return the throughput of the second half."""
    return _throughput_from(row, 0.5)
