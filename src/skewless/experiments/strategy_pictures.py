"""What each strategy does to one drifting stream: the records of the pictures on their pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from skewless import registry
from skewless.experiments.tables import Row
from skewless.metrics import relative_loads
from skewless.simulator import simulate
from skewless.workloads import EvolvingZipf, Workload

BASELINE = "hash"
WINDOW = 10_000


class Setting(NamedTuple):
    """A stream and a number of workers."""

    about: str
    workload: Workload
    n_workers: int


#: Strategies that move keys cannot help a key that is heavier than a worker's share, so they get a
#: stream without one.
SETTINGS = {
    "splitting": Setting(
        "Zipf 1.4, 16 workers",
        EvolvingZipf(z=1.4, n_keys=10_000, n_records=400_000, period=100_000),
        16,
    ),
    "moving": Setting(
        "Zipf 0.9, 8 workers",
        EvolvingZipf(z=0.9, n_keys=10_000, n_records=400_000, period=100_000),
        8,
    ),
}


def measure(names: Sequence[str]) -> Iterator[Row]:
    """Yield one record per strategy, and the baseline on the same stream in it."""
    baselines: dict[str, Row] = {}
    for name in names:
        family = registry.make(name).traits.family
        if family not in baselines:
            baselines[family] = _run(BASELINE, family)
        own = _run(name, family)
        yield {
            "strategy": name,
            "about": SETTINGS[family].about,
            **own,
            "baseline": baselines[family],
        }


def _run(name: str, family: str) -> Row:
    _, workload, n_workers = SETTINGS[family]
    strategy = registry.make(name)
    run = simulate(strategy, workload, n_workers=n_workers, seed=1, window=WINDOW, keep_loads=True)
    loads = np.asarray(run.windows.loads)
    return {
        "loads": [float(load) for load in loads[-1]],
        "peaks": [round(float(relative_loads(window).max()), 4) for window in loads],
    }
