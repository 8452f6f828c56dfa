"""Pd-Stream: the figures and tables of its evaluation.

The axes of a cell have the paper's numbers; a smaller size measures fewer workers and records.

What the models assume is said in `texts.toml`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import Measurement, Paper, Size, named
from experiments.reproduction.fitting import fitted_keys, fitted_z
from experiments.reproduction.papers.pd_stream import counting
from experiments.reproduction.table import Entry, Table

#: Instances of `v_project`, the operator before the grouping (Table VI).
SOURCES = 8
#: The streams of Table V: records, distinct keys, and the share of the first key.
STREAMS = {"DS": (12_000_000, 2_400_000, 0.202), "HT": (67_000_000, 2_200_000, 0.085)}
_SYNTHETIC_KEYS = _SYNTHETIC_RECORDS = 10_000_000
# Replication depends on the length of a stream. Cells with a published number may therefore be
# longer than the others, by this factor: at the quick size they are as long as the paper's.
_LONGER = 25
_N_PERIODS = 8
_SERVICE = 16 / 445
_PENDING = 32  # records of a source under way: enough to keep 128 workers busy
#: Table III, in per cent.
_TABLE_III = (
    25.0, 34.9, 43.1, 50.3, 56.9, 63.0, 68.7, 73.9, 78.8, 83.4, 87.5, 91.2, 94.5, 97.1, 99.0, 99.9
)  # fmt: skip


def stream_of(
    stream: str, z: float, n_records: int, drifting: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the workload for a stream of Table V, or a synthetic one, and its parameters.

    No Zipf stream has the keys of DS and the share of its first key: what is not of that key is
    Zipf with z = 1.0, the least of Table IV. `drifting`: it gets other hot keys eight times, all at
    once; DS another first key.
    """
    if not stream:
        n_records = min(_SYNTHETIC_RECORDS, n_records)
        return "zipf", {"z": z, "n_keys": _SYNTHETIC_KEYS, "n_records": n_records}
    published, n_distinct, share = STREAMS[stream]
    n_records = min(published, n_records)
    period = max(1, n_records // (_N_PERIODS if drifting else 1))
    if stream == "DS":
        n_keys = fitted_keys(n_distinct, round((1 - share) * published), z=1.0)
        of = {"z": 1.0, "n_keys": n_keys, "n_records": n_records}
        return "burst", {**of, "period": period, "duration": period, "share": share}
    n_keys = fitted_keys(n_distinct, published, share=share)
    of, z = {"n_keys": n_keys, "n_records": n_records}, fitted_z(n_keys, share)
    if drifting:
        return "shifting-zipf", {**of, "z_min": z, "z_max": z, "period": period}
    return "zipf", {**of, "z": z}


def simulated(
    size: Size,
    *,
    strategy: str,
    workers: int,
    seed: int,
    stream: str = "",
    z: float = 0.0,
    timing: Mapping[str, Any] | None = None,
    long: bool = False,
    part: int = 1,
    knows_all: bool = False,
    drifting: bool = False,
    **fields: Any,
) -> Simulation:
    """Return one strategy on one stream.

    `long`: as long as published even at the quick size. `part`: as many times shorter. `timing`: in
    virtual time, with what this changes. `knows_all`: it knows the whole stream ahead.
    `drifting`: as in `stream_of`.
    """
    n_records = size.records * (_LONGER if long else 1) // part
    workload, of = stream_of(stream, z, n_records, drifting)
    window = 1_000_000 if long else 10_000
    window = min(window, of["period"]) if drifting else window
    clock = {"service": _SERVICE, "pending": _PENDING, "merge": _SERVICE / 20}
    clock |= {"reducers": 4, "unmerged": 1}
    return Simulation(
        strategy,
        workload,
        of=of,
        n_workers=min(workers, size.workers),
        seed=seed,
        window=window,
        horizon=size.records if knows_all else 0,
        timing=None if timing is None else {**clock, **timing},
        **{"n_sources": SOURCES, **fields},
    )


def counted(
    size: Size, *, cell: str, workers: int, seed: int, stream: str = "", z: float = 0.0, **own: Any
) -> Measurement:
    """Build a cell of `counting` that routes a stream."""
    own["workload"], own["of"] = stream_of(stream, z, size.records)
    own |= {"n_workers": min(workers, size.workers), "n_sources": SOURCES, "seed": seed}
    measurement: Measurement = getattr(counting, cell)(**own)
    return measurement


def sampling(size: Size, *, alpha: int, seed: int) -> Measurement:
    """Build the cell that counts windows without a hot key.

    Windows without the key are rare and come in runs: they need more records than other cells.
    """
    return counting.sampling(alpha, min(128, size.workers), 5 * size.records, seed)


def probabilities(size: Size, *, confidence: float, seed: int) -> Measurement:
    """Build the cell of the probability table for a sampling window of 16 records."""
    return counting.probabilities(16, confidence)


def distinct(size: Size, *, z: float, seed: int) -> Measurement:
    """Return the keys of a synthetic stream."""
    n_records = min(size.records, _SYNTHETIC_RECORDS)
    return counting.distinct(z, _SYNTHETIC_KEYS, n_records, _SYNTHETIC_RECORDS, seed)


def _excess(entry: Entry) -> float:
    """Return by how many records the fullest worker is above the mean."""
    row = entry.row
    return float(row["imbalance"] * row["records"] / row["workers"])


def _as_published(entry: Entry) -> float:
    """Return the imbalance that these records would be in a stream of the published length."""
    published = STREAMS.get(entry.axes.get("stream", ""), (_SYNTHETIC_RECORDS,))[0]
    return float(_excess(entry) * entry.axes["workers"] / published)


def _held(table: Table, **axes: Any) -> float:
    """Return the copies of a window, and the table entries of all sources."""
    copies = table.mean("window_replication_mean", **axes)
    keys = table.mean("window_keys", case="router", **axes)
    return copies * keys + SOURCES * table.mean("entries", case="router", **axes)


def _over_time(table: Table, **axes: Any) -> list[float]:
    """Return the throughput of each window but the first, before which nothing was merged."""
    return table.series("window_throughput", **axes)[1:]


def _variation(table: Table, **axes: Any) -> float:
    """Return the standard deviation over time, relative to the mean."""
    rates = _over_time(table, **axes)
    return float(np.std(rates) / np.mean(rates))


def _ahead(table: Table, other: str, **axes: Any) -> float:
    """Return the part of the windows in which Pd-Stream has more throughput than another."""
    both = (_over_time(table, strategy=name, **axes) for name in ("pd-stream", other))
    return float(np.mean([ours > others for ours, others in zip(*both, strict=True)]))


def _peak_latency(table: Table, **axes: Any) -> float:
    """Return the largest latency of a window relative to the mean."""
    latencies = 1 / np.array(_over_time(table, **axes))
    return float(latencies.max() / latencies.mean())


def _off(table: Table, **axes: Any) -> float:
    """Return the largest difference from Table III, in points of a per cent."""
    return max(
        abs(100 * table.mean(str(count), **axes) - published)
        for count, published in enumerate(_TABLE_III, start=1)
    )


PAPER = Paper(
    "pd-stream",
    "Pd-Stream",
    named(simulated, counted, sampling, probabilities, distinct),
    columns={
        **named(_excess, _as_published),
        # If the window of 2n records is scanned as well.
        "looks_with_scan": lambda entry: float(entry.row["looks"] + 2 * entry.row["workers"]),
        "later_throughput": lambda entry: float(np.mean(entry.row["window_throughput"][1:])),
        "workers_of_8": lambda entry: float(math.floor(8 * entry.row["6"])),
        "keys_off": lambda entry: abs(float(entry.row["keys"] / entry.row["expected_keys"]) - 1),
    },
    calls=named(_held, _variation, _ahead, _peak_latency, _off),
)
