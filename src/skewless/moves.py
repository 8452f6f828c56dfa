"""What a controller of the moving family reads, a report, and what it returns, moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Keys, Workers


class Report(NamedTuple):
    """What was observed during one window, by key: the input of `rebalance`.

    A report may leave light keys out. `rest` then holds, by worker, the load of the keys that are
    left out: the load of a worker is the load of its keys plus its rest. A rest cannot be moved. A
    key that is left out may still have load.
    """

    keys: Keys  # distinct, ascending
    loads: Floats  # the cost of the key's records in this window
    state_sizes: Floats  # the cost of moving the key's state
    rest: Floats | None = None  # by worker; None: the keys account for everything
    #: The standard deviation of a worker's load that chance alone explains, as a fraction of the
    #: mean load. 0: not known.
    noise: float = 0.0


def rest_by_worker(report: Report, n_workers: int) -> Floats:
    """Return the load of each worker that no key of the report accounts for.

    >>> none = np.empty(0)
    >>> rest_by_worker(Report(np.empty(0, np.uint64), none, none), 3).tolist()
    [0.0, 0.0, 0.0]
    """
    if report.rest is None:
        return np.zeros(n_workers)
    if report.rest.shape != (n_workers,):
        raise ValueError(
            f"rest of a report must be one number per worker, {n_workers} in all, "
            f"not {report.rest.size}"
        )
    return report.rest


class Moves(NamedTuple):
    """Keys that change worker; their state moves with them."""

    keys: Keys
    origins: Workers
    targets: Workers


def moves_between(keys: Keys, before: Workers, after: Workers) -> Moves:
    """Return the moves of those `keys` whose worker changes, in the order of `keys`.

    >>> old, new = np.array([0, 1], np.int32), np.array([0, 2], np.int32)
    >>> moves_between(np.array([7, 8], np.uint64), old, new).keys.tolist()
    [8]
    """
    changed = np.flatnonzero(before != after)
    return Moves(keys[changed], before[changed], after[changed])
