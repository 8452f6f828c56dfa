"""The settings of the paper (table II), and what a smaller size makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import Size
from skewless.experiments.reproduction.papers.mixed.fitting import same_head
from skewless.experiments.reproduction.papers.mixed.planning import Planning
from skewless.experiments.tables import Row

Z = 0.85
N_KEYS = 1_000_000
N_WORKERS = 15
TOLERANCE = 0.08
STATE_WINDOWS = 5
N_SOURCES = 10

#: The phases as the paper writes them. Our defaults pin keys that no worker can hold, and fill
#: workers that have too little.
LITERAL: dict[str, Any] = {"pin_giants": False, "two_sided": False}

FAMILY = ("mixed", "min-table", "min-mig", "mixed-bf")

DATA = (
    "Fluctuating Zipf as in section V, expected loads of whole intervals. Smaller sizes have fewer "
    "keys, z such that the hottest key keeps its share, and a smaller bound on the table."
)


def n_keys(size: Size, published: int = N_KEYS, records_per_key: int = 20) -> int:
    """Return how many keys there are: a million, or one per this many records of the size."""
    return min(published, size.records // records_per_key)


def n_intervals(size: Size, published: int = 50) -> int:
    """Return how many intervals are measured."""
    return min(published, max(4, size.records // 40_000))


def up_to(most: float, xs: Iterable[float]) -> tuple[float, ...]:
    """Return those that are not above `most`."""
    return tuple(x for x in xs if x <= most)


def table_bound(keys: int, published: int = 3_000) -> int:
    """Return the bound on the table for fewer keys.

    The published bound lies just below what MinTable needs for 40 workers (about 3,500 entries for
    a million keys, 150 for 20,000 keys with the same head). A smaller bound stays just below.

    >>> table_bound(1_000_000), table_bound(20_000)
    (3000, 150)
    """
    share = float((min(keys, N_KEYS) / N_KEYS) ** 0.766)
    return max(1, round(published * share))


def planning(size: Size, strategy: str, seed: int, **changed: Any) -> Planning:
    """Return a cell of plans with the defaults of the paper, except for what is changed.

    Settings of the strategy go by their names (`tolerance`, `beta`, `max_entries`).
    """
    keys = changed.pop("n_keys", None) or n_keys(size)
    cell: dict[str, Any] = {
        "z": same_head(Z, N_KEYS, keys),
        "n_keys": keys,
        "n_workers": min(N_WORKERS, size.workers),
        "state_windows": STATE_WINDOWS,
        "n_intervals": n_intervals(size),
        "seed": seed,
    }
    settings = dict(LITERAL) if strategy in FAMILY else {}
    if strategy in ("mixed", "mixed-bf"):
        settings["max_entries"] = table_bound(keys)
    for name, value in changed.items():
        (cell if name in Planning.__dataclass_fields__ else settings)[name] = value
    return Planning(strategy, settings, **cell)


def cascade(size: Size, seed: int, **changed: Any) -> Simulation:
    """Return Cascade on the same kind of stream, for the further curve of a figure.

    It moves no state: what it costs instead are replicas of keys.
    """
    keys = changed.pop("n_keys", None) or n_keys(size)
    workers = changed.pop("n_workers", None) or min(N_WORKERS, size.workers)
    intervals = n_intervals(size)
    interval = max(1_000, size.records // 4 // intervals)
    of = {
        "z": same_head(Z, N_KEYS, keys),
        "n_keys": keys,
        "n_records": interval * intervals,
        "interval": interval,
        "n_workers": workers,
    }
    return Simulation(
        "cascade", "fluctuation", of=of | changed, n_workers=workers, window=interval, seed=seed
    )


def extra_replicas(row: Row) -> float:
    """Return what Cascade pays instead of moves: replicas beyond one per key."""
    return float(row["replication"]) - 1.0


def window_skewness(row: Row) -> float:
    """Return max / mean of a simulation, as the paper measures skewness."""
    return 1.0 + float(row["window_imbalance_mean"])
