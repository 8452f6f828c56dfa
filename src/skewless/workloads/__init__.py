"""Workloads: keys in stream order, synthetic ones from a seed and real ones from files.

>>> make("zipf", z="1.5", n_records="1e3")
Zipf(z=1.5, n_keys=100000, n_records=1000)
"""

from __future__ import annotations

from typing import Any

from skewless import parameters
from skewless.plumbing.arguments import shown
from skewless.workloads.drifting import Alternating, Burst, EvolvingZipf, PerSource, ShiftingZipf
from skewless.workloads.fluctuating_zipf import FluctuatingZipf
from skewless.workloads.trace import Trace
from skewless.workloads.workload import CHUNK_SIZE, Ranked, Weighted, Workload
from skewless.workloads.zipf import Zipf

__all__ = [
    "ALL",
    "CHUNK_SIZE",
    "Alternating",
    "Burst",
    "EvolvingZipf",
    "FluctuatingZipf",
    "PerSource",
    "Ranked",
    "ShiftingZipf",
    "Trace",
    "Weighted",
    "Workload",
    "Zipf",
    "get",
    "make",
    "names",
]

#: Every workload of the package. A new one is written here and nowhere else.
ALL: tuple[type[Workload], ...] = (
    Zipf,
    EvolvingZipf,
    FluctuatingZipf,
    Alternating,
    ShiftingZipf,
    PerSource,
    Burst,
    Trace,
)


def names() -> list[str]:
    """Return the names of all workloads."""
    return [workload.name for workload in ALL]


def get(name: str) -> type[Workload]:
    """Return the workload of that name."""
    if not isinstance(name, str):
        raise ValueError(f"workload must be one of {', '.join(names())}, not {shown(name)}")
    for workload in ALL:
        if workload.name == name:
            return workload
    raise ValueError(parameters.nearest(name, names(), "workload"))


def make(name: str, **settings: Any) -> Workload:
    """Return the workload of that name with these parameters; text is read as they declare."""
    return parameters.make(get(name), settings)
