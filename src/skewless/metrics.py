"""What we measure, one definition each: pure functions from counts to numbers.

`loads` are records (or their cost) per worker; `capacities` are the workers' relative speeds, all
equal when None. Where capacities differ, a worker's load counts in units of its speed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats


def relative_loads(loads: ArrayLike, capacities: ArrayLike | None = None) -> Floats:
    """Return each load divided by its fair share: 1.0 everywhere is perfect balance.

    >>> relative_loads([30, 10, 20]).tolist()
    [1.5, 0.5, 1.0]
    >>> relative_loads([40, 20], capacities=[2, 1]).tolist()
    [1.0, 1.0]
    """
    load = np.asarray(loads, np.float64)
    capacity = np.ones_like(load) if capacities is None else np.asarray(capacities, np.float64)
    fair = load.sum() * capacity / capacity.sum()
    relative: Floats = np.divide(load, fair, out=np.ones_like(load), where=fair > 0)
    return relative


def imbalance(loads: ArrayLike, capacities: ArrayLike | None = None) -> float:
    """Return (max − mean) / mean, eq. 4 of Pd-Stream; 0 is perfect balance, or no load at all.

    >>> imbalance([30, 10, 20])
    0.5
    """
    return float(relative_loads(loads, capacities).max() - 1.0)


def imbalance_by_chance(n_records: float, n_workers: int) -> float:
    """Return about the imbalance of records that are sent to workers at random.

    It is the largest of n deviations of the normal distribution, in units of the mean.

    >>> round(imbalance_by_chance(10_000, 16), 3), imbalance_by_chance(100, 1)
    (0.094, 0.0)
    """
    return math.sqrt(2.0 * math.log(n_workers) * n_workers / max(n_records, 1))


def load_stddev(loads: ArrayLike) -> float:
    """Return the standard deviation of the loads, as PStream reports it."""
    return float(np.std(np.asarray(loads, np.float64)))


def load_difference(loads: ArrayLike) -> float:
    """Return max − mean of the loads, eq. 1 of Dalton.

    >>> load_difference([30, 10, 20])
    10.0
    """
    load = np.asarray(loads, np.float64)
    return float(load.max() - load.mean())


def replication(n_pairs: float, n_keys: float) -> float:
    """Return replicas per key: distinct (key, worker) pairs / distinct keys, eq. 7 of Pd-Stream."""
    return n_pairs / n_keys if n_keys else 1.0


def replication_limit(n_workers: int, n_keys: int) -> float:
    """Return the replication that suffices for imbalance 0, if all records are known beforehand.

    Lay the keys end to end and cut the line into n equal parts (McNaughton's wrap-around rule):
    only the n − 1 keys under a cut have one more replica.

    >>> replication_limit(5, 8)
    1.5
    """
    return 1.0 + (n_workers - 1) / n_keys if n_keys else 1.0


def makespan_ratio(
    window_records: ArrayLike, window_peaks: ArrayLike, window_capacities: ArrayLike
) -> float:
    """Return the total time of all windows, one after the other, over that of perfect balance.

    A window ends when its slowest worker ends: `window_peaks` are max(load / capacity) per window,
    and `window_capacities` the sums of all capacities. Perfect balance spreads records like a
    fluid, so even it is not always reached exactly.

    >>> makespan_ratio([10, 10], [6.0, 5.0], [2.0, 2.0])
    1.1
    """
    records = np.asarray(window_records, np.float64)
    ideal = float(np.sum(records / np.asarray(window_capacities, np.float64)))
    return float(np.sum(window_peaks) / ideal) if ideal else 1.0
