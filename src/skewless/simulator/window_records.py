"""The windows of a run as rows of a table, for files and further analysis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from skewless.simulator.run import Run


def window_table(run: Run) -> pa.Table:
    """Return one row per window: loads, times, queues, and what a plan changed.

    Times are virtual seconds and null for a run without a clock. Loads are null unless the run
    kept them. `latencies` counts records by bucket; bucket i begins at 2^(i / 8) nanoseconds.
    """
    windows, times = run.windows, run.times
    n_windows = windows.records.size
    plans = {plan.window: plan for plan in run.rebalances}
    by_window = [plans.get(number) for number in range(n_windows)]

    def planned(column: str, kind: pa.DataType) -> pa.Array:
        return pa.array([None if p is None else getattr(p, column) for p in by_window], kind)

    def timed(column: str, kind: pa.DataType) -> pa.Array:
        values: Any = [None] * n_windows if times is None else getattr(times, column).tolist()
        return pa.array(values, kind)

    floats, whole = pa.float64(), pa.int64()
    inferred: Any = [None] * n_windows
    if run.inferred is not None:
        inferred[: len(run.inferred)] = run.inferred.tolist()
    loads: Any = [None] * n_windows if windows.loads is None else windows.loads.tolist()
    return pa.table(
        {
            "strategy": pa.array([run.strategy] * n_windows, pa.string()),
            "workers": pa.array([run.n_workers] * n_windows, whole),
            "sources": pa.array([run.n_sources] * n_windows, whole),
            "seed": pa.array([run.seed] * n_windows, pa.uint64()),
            "window": pa.array(np.arange(n_windows), whole),
            "records": pa.array(windows.records, whole),
            "cost": pa.array(windows.costs, floats),
            "largest_load": pa.array(windows.peaks, floats),
            "capacity": pa.array(windows.capacity, floats),
            "keys": pa.array(windows.keys, whole),
            "pairs": pa.array(windows.pairs, whole),
            "loads": pa.array(loads, pa.list_(floats)),
            "planned": planned("planned", pa.bool_()),
            "plan_seconds": planned("plan_seconds", floats),
            "moves": planned("n_moves", whole),
            "moved_share": planned("moved_share", floats),
            "table_entries": planned("n_entries", whole),
            "first_emission": timed("first", floats),
            "last_completion": timed("last", floats),
            "merged": timed("merged", floats),
            "latency_sum": timed("latency_sum", floats),
            "latency_max": timed("latency_max", floats),
            "latencies": timed("latencies", pa.list_(whole)),
            "queues": timed("queues", pa.list_(whole)),
            "lost": timed("lost", whole),
            "replayed": timed("replayed", whole),
            "inferred_queues": pa.array(inferred, pa.list_(floats)),
        }
    )


def write_windows(runs: Sequence[Run], path: Path) -> None:
    """Write the windows of all runs into one Parquet file."""
    pyarrow.parquet.write_table(pa.concat_tables([window_table(run) for run in runs]), path)
