"""The raw result of a simulation: counts and times. Every metric is computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless import metrics
from skewless.arrays import Floats, Ints
from skewless.simulator.forwarding import Merging
from skewless.simulator.syncing import Exchange
from skewless.simulator.tally import Windows
from skewless.simulator.timed.clock import WindowTimes
from skewless.simulator.timed.under_way import latency_quantile


@dataclass(frozen=True)
class Rebalance:
    """A plan of the controller that came into use, whether it changed anything or not."""

    window: int  # in which it came into use
    plan_seconds: float  # of this machine
    state_moved: float
    state_held: float
    n_moves: int
    n_entries: int  # of the routing table, by the new plan

    @property
    def planned(self) -> bool:
        """Whether it changed anything."""
        return self.n_moves > 0

    @property
    def moved_share(self) -> float:
        """Migration cost: state moved / state held."""
        return self.state_moved / self.state_held if self.state_held else 0.0


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
    times: WindowTimes | None = None  # where the run had a clock
    inferred: Floats | None = None  # [window, worker]: the queues that the strategy inferred
    syncs: tuple[Exchange, ...] = ()  # exchanges between sources, in records of the stream
    merging: tuple[Merging, ...] = ()  # by whole window, where key forwarding was counted

    def summary(self) -> dict[str, Any]:
        """Return the metrics by name, ready for JSON.

        Window figures are over whole windows: a last, shorter one would look unbalanced only
        because it is short. It counts when it is all there is, and it counts in the makespan.
        """
        windows = self.windows
        ratios, replication = self._whole_windows()
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
            "load_stddev": metrics.load_stddev(self.loads),
            "load_difference": metrics.load_difference(self.loads),
            "max_load_ratio": metrics.imbalance(self.loads, self.capacities) + 1.0,
            "replication": metrics.replication(self.n_pairs, self.n_keys),
            "replication_exact": self.exact,
            "replication_limit": metrics.replication_limit(self.n_workers, self.n_keys),
            "window": self.window,
            "window_imbalance_mean": _mean(ratios - 1.0),
            "window_imbalance_max": float((ratios - 1.0).max(initial=0.0)),
            "window_max_load_ratio_mean": _mean(ratios) if ratios.size else 1.0,
            "window_replication_mean": _mean(replication) if replication.size else 1.0,
            "makespan_ratio": metrics.makespan_ratio(
                windows.costs, windows.peaks, windows.capacity
            ),
            "ns_per_record": self.route_ns / self.n_records if self.n_records else 0.0,
            "state_bytes": self.state_bytes,
            **self._plans(),
            **({} if self.times is None else _times(self.times)),
            **self._inference(),
            **self._together(),
            "loads": self.loads.tolist(),
        }

    def _inference(self) -> dict[str, float]:
        """Compare inferred queues with the true ones, in records, if both are known."""
        if self.inferred is None or self.times is None or not self.inferred.size:
            return {}
        errors = self.inferred - self.times.queues[: len(self.inferred)]
        return {
            "queue_inferred_mean": float(self.inferred.mean()),
            "queue_inferred_error": float(np.abs(errors).mean()),
        }

    def _together(self) -> dict[str, Any]:
        """Return the metrics of exchanges between sources and of key forwarding, if any."""
        found: dict[str, Any] = {}
        if self.syncs:
            found["syncs"] = len(self.syncs)
            found["sync_interval"] = self.syncs[-1].interval
            found["sync_late"] = sum(sync.n_late for sync in self.syncs)
        if self.merging:
            n_pairs = sum(one.n_pairs for one in self.merging)
            found["merged_pairs_share"] = sum(one.n_merged_pairs for one in self.merging) / n_pairs
            found["forwarded_wrongly"] = sum(one.n_wrong for one in self.merging)
        return found

    def by_window(self) -> dict[str, list[Any]]:
        """Return the metrics of each whole window, and of each plan that came into use."""
        ratios, replication = self._whole_windows()
        return {
            "window_imbalance": (ratios - 1.0).tolist(),
            "window_max_load_ratio": ratios.tolist(),
            "window_replication": replication.tolist(),
            "window_moved_share": [r.moved_share for r in self.rebalances],
            "window_planned": [r.planned for r in self.rebalances],
            "window_table_entries": [r.n_entries for r in self.rebalances],
            **({} if self.times is None else _window_times(self.times)),
        }

    def _whole_windows(self) -> tuple[Floats, Floats]:
        """Return max / mean of the loads, and replicas per key, of each whole window."""
        windows = self.windows
        whole = windows.records == self.window
        if not whole.any():
            whole = np.ones_like(whole)
        fair = windows.costs[whole] / windows.capacity[whole]
        balanced = np.ones_like(fair)  # as records that cost nothing are, wherever they go
        ratios = np.divide(windows.peaks[whole], fair, out=balanced, where=fair > 0)
        return ratios, windows.pairs[whole] / windows.keys[whole]

    def _plans(self) -> dict[str, Any]:
        """Summarise the rebalances: over all windows, and over those that had a plan."""
        planned = [r for r in self.rebalances if r.planned]
        last = self.rebalances[-1] if self.rebalances else None
        return {
            "plans": len(planned),
            "moved_share_mean": _mean([r.moved_share for r in self.rebalances]),
            "planned_moved_share_mean": _mean([r.moved_share for r in planned]),
            "moves": sum(r.n_moves for r in self.rebalances),
            "plan_seconds_mean": _mean([r.plan_seconds for r in self.rebalances]),
            "planned_plan_seconds_mean": _mean([r.plan_seconds for r in planned]),
            "table_entries": last.n_entries if last else 0,
        }


def _times(times: WindowTimes) -> dict[str, Any]:
    """Return the times, in virtual seconds."""
    n_windows = times.first.size
    n_done = int(times.latencies.sum())
    begin = float(times.first.min()) if n_windows else 0.0
    end = float(times.last.max(initial=0.0))
    return {
        "execution_seconds": end - begin,
        "merged_seconds": float(times.merged.max(initial=begin)) - begin,
        "throughput": n_done / (end - begin) if end > begin else 0.0,
        "latency_mean": float(times.latency_sum.sum()) / max(n_done, 1),
        "latency_p50": latency_quantile(times.latencies, 0.50),
        "latency_p95": latency_quantile(times.latencies, 0.95),
        "latency_p99": latency_quantile(times.latencies, 0.99),
        "latency_max": float(times.latency_max.max(initial=0.0)),
        "queue_mean": float(times.queues.mean()) if n_windows else 0.0,
        "queue_max": int(times.queues.max(initial=0)),
    }


def _window_times(times: WindowTimes) -> dict[str, list[Any]]:
    """Return the times of each window; rates count from the end of the one before."""
    begin = float(times.first.min(initial=np.inf))
    done = times.latencies.sum(axis=1)
    spans = np.diff(np.concatenate([[begin], np.maximum.accumulate(times.last)]))
    rates: NDArray[np.float64] = np.divide(done, spans, out=np.zeros(done.size), where=spans > 0)
    return {
        "window_throughput": rates.tolist(),
        "window_latency_mean": (times.latency_sum / np.maximum(done, 1)).tolist(),
        "window_latency_p99": [latency_quantile(row, 0.99) for row in times.latencies],
        "window_seconds": (times.last - begin).tolist(),
        "window_queue_max": times.queues.max(axis=1).tolist(),
    }


def _mean(values: list[float] | Floats) -> float:
    return float(np.mean(values)) if len(values) else 0.0
