"""What a simulation leaves behind: counts. Every number is computed from them afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skewless import metrics
from skewless.arrays import Floats, Ints
from skewless.simulator.tally import Windows


@dataclass(frozen=True)
class Rebalance:
    """One call of the controller, at the end of a window."""

    plan_seconds: float
    state_moved: float
    state_held: float
    n_moves: int


@dataclass(frozen=True)
class Run:
    """The raw result of one simulation."""

    strategy: str
    parameters: dict[str, Any]
    workload: str
    n_workers: int
    n_sources: int
    seed: int
    window: int
    capacities: Floats
    n_records: int
    n_keys: int
    n_pairs: int
    exact: bool
    loads: Ints | Floats  # records, or what they cost where the workload has weights
    windows: Windows
    route_ns: int
    state_bytes: int
    rebalances: tuple[Rebalance, ...]

    def summary(self) -> dict[str, Any]:
        """Return the metrics by name, ready for JSON.

        Window figures are over whole windows: a last, shorter one would look unbalanced only
        because it is short. It counts when it is all there is, and it counts in the makespan.
        """
        windows = self.windows
        whole = windows.records == self.window
        if not whole.any():
            whole = np.ones_like(whole)
        fair = windows.costs[whole] / self.capacities.sum()
        balanced = np.ones_like(fair)  # as records that cost nothing are, wherever they go
        peaks = np.divide(windows.peaks[whole], fair, out=balanced, where=fair > 0)
        window_imbalance = peaks - 1.0
        window_keys = windows.keys[whole]
        window_replication = windows.pairs[whole] / window_keys
        moved = [r.state_moved / r.state_held for r in self.rebalances if r.state_held]
        return {
            "strategy": self.strategy,
            "parameters": self.parameters,
            "workload": self.workload,
            "workers": self.n_workers,
            "sources": self.n_sources,
            "seed": self.seed,
            "records": self.n_records,
            "keys": self.n_keys,
            "imbalance": metrics.imbalance(self.loads, self.capacities),
            "replication": metrics.replication(self.n_pairs, self.n_keys),
            "replication_exact": self.exact,
            "replication_limit": metrics.replication_limit(self.n_workers, self.n_keys),
            "window": self.window,
            "window_imbalance_mean": _mean(window_imbalance),
            "window_imbalance_max": float(window_imbalance.max(initial=0.0)),
            "window_replication_mean": _mean(window_replication) if whole.size else 1.0,
            "makespan_ratio": metrics.makespan_ratio(windows.costs, windows.peaks, self.capacities),
            "ns_per_record": self.route_ns / self.n_records if self.n_records else 0.0,
            "state_bytes": self.state_bytes,
            "moved_share_mean": _mean(np.array(moved)),
            "moves": sum(r.n_moves for r in self.rebalances),
            "plan_seconds_mean": _mean(np.array([r.plan_seconds for r in self.rebalances])),
            "loads": self.loads.tolist(),
        }


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else 0.0
