"""All strategies side by side on two streams: the table of docs/strategies/README.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import typer
from rich.progress import track

from benchmarks.records import Report, Row, markdown
from skewless import registry
from skewless.simulator import simulate
from skewless.strategy import Merges, Rebalances, Rescales, Weighs
from skewless.workloads import EvolvingZipf, Workload, Zipf

SETTINGS: dict[str, Any] = {"n_workers": 64, "n_sources": 4}
SYNC = 10_000  # records between two merges of what the sources learned
STREAMS: dict[str, Workload] = {
    "skewed": Zipf(z=1.4, n_keys=100_000, n_records=2_000_000),
    "drifting": EvolvingZipf(z=1.4, n_keys=100_000, n_records=2_000_000, period=500_000),
}


def measure(names: Sequence[str], streams: dict[str, Workload] = STREAMS) -> Iterator[Row]:
    """Yield one raw record per stream and strategy; strategies that merge run with merges too."""
    for stream, workload in streams.items():
        for name in names:
            strategy = registry.make(name)
            for sync in (0, SYNC) if isinstance(strategy, Merges) else (0,):
                run = simulate(strategy, workload, seed=1, sync=sync, **SETTINGS)
                yield {"stream": stream, "sync": sync, **run.summary()}


def table(records: Sequence[Row]) -> str:
    """Return a row per strategy: what it is, and its balance and replicas on both streams.

    A strategy that moves keys is measured by window on both. Over the whole stream a giant key that
    was moved from worker to worker would look balanced, though it never was.
    """
    by_cell = {(r["stream"], r["strategy"], r.get("sync", 0)): r for r in records}
    rows = []
    for name, sync in dict.fromkeys((r["strategy"], r.get("sync", 0)) for r in records):
        strategy = registry.get(name)()
        fan_out = strategy.traits.fan_out
        skewed, drifting = by_cell["skewed", name, sync], by_cell["drifting", name, sync]
        moves = strategy.traits.family == "moving"
        rows.append(
            [
                f"[`{name}`]({name}.md)" + (", merged" if sync else ""),
                strategy.traits.family,
                "up to n" if fan_out is None else fan_out,
                f"{skewed['window_imbalance_mean' if moves else 'imbalance']:.2g}",
                f"{skewed['replication']:.3f}",
                f"{drifting['window_imbalance_mean']:.2g}",
                f"{drifting['window_replication_mean']:.3f}",
            ]
        )
    limit = next(iter(by_cell.values()))["replication_limit"]
    rows.append(["the limit", "", "", "0", f"{limit:.3f}", "0", ""])
    of_streams = "imbalance | replicas per key | drifting: imbalance | drifting: replicas per key"
    return markdown(f"strategy | family | workers per key | {of_streams}", rows)


def abilities(records: Sequence[Row] = ()) -> str:
    """Return a row per strategy: what it can do on Spark, and what only in the simulator.

    It says what the methods and traits of a strategy say, by which the contract chooses its checks.
    """
    from skewless.spark.routing.arguments import uses_capacities
    from skewless.spark.state.planning.placing import can_place

    rows = []
    for name in registry.names():
        strategy = registry.make(name)
        has = {
            "keyed state": can_place(strategy),
            "sources learn together": isinstance(strategy, Merges),
            "keys move by plans": isinstance(strategy, Rebalances),
            "other numbers of workers": isinstance(strategy, Rescales),
            "moving only keys that must": strategy.traits.minimal_rescale,
            "speeds": uses_capacities(strategy),
            "weights": isinstance(strategy, Weighs),
        }
        only = [what for method, what in IN_THE_SIMULATOR.items() if hasattr(strategy, method)]
        cells = ["yes" if able else "–" for able in has.values()]
        rows.append([f"[`{name}`]({name}.md)", *cells, ", ".join(only) or "–"])
    return markdown(["strategy", *has, "only in the simulator"], rows)


#: What the simulator uses of a strategy, and Spark does not, by the method.
IN_THE_SIMULATOR = {"forwards": "key forwarding in streams", "waiting": "backlogs between windows"}
PAGE = "docs/strategies/README.md"
REPORT = Report("overview.jsonl", {(PAGE, "strategies"): table, (PAGE, "abilities"): abilities})


def main() -> None:
    """Run all strategies side by side and write the raw records and their table."""
    names = registry.names()
    REPORT.write(track(measure(names), "simulating", total=len(names) * len(STREAMS)))


if __name__ == "__main__":
    typer.run(main)
