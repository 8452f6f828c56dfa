"""The figures and tables of PStream.

Chen, Zhang, Jin: PStream: a popularity-aware differentiated distributed stream processing system,
IEEE Transactions on Computers 2021.

PStream's throughput differs by some 10 % from seed to seed: where that matters, means are over six.
"""

from __future__ import annotations

import math
from statistics import mean, variance
from typing import Any

import numpy as np

from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import Measurement, Paper, Size, named
from experiments.reproduction.fitting import fitted_keys, fitted_z, share_of_top
from experiments.reproduction.papers.pstream import counting
from experiments.reproduction.papers.pstream.rivals import SplitSimulation
from experiments.reproduction.table import Entry, Table

#: Data sets that cannot be had (Table 3 and section 1): records, distinct keys, and which part of
#: these has 80 % of the records. No share of the hashtags is published: it is that of the words.
TRACES = {
    "TW": (658_000_000, 5_700_000, 0.03),  # words of tweets
    "ST": (274_000_000, 6_649, 0.08),  # NASDAQ records
    "HA": (43_000_000, 3_400_000, 0.03),  # hashtags
    "TX": (3_000_000_000, 8_000, 0.24),  # taxi positions
    "orders": (7_000_000, 8_000, 0.2),  # passenger orders
}
_KEYS = 10_000_000  # of the paper's ZF
_AVERAGED = 10_000  # records over which the authors take the mean of latencies
_WINDOWS = 20  # of a stream, at least
_MERGES = 10  # of a stream: how often results are merged; the paper says every ten seconds or so
_SERVICE = 1e-4  # seconds that a record takes a worker: the unit of all times
_REDUCERS = 64
#: Records come as fast as back-pressure allows: the authors raise the speed of their source until
#: the throughput does not grow any more.
_SATURATED = {"service": _SERVICE, "pending": 4096, "queue": 4096}
#: The same with a stage that merges partial results; sources wait if it is two windows behind.
_MERGED = {**_SATURATED, "merge": _SERVICE, "reducers": _REDUCERS, "unmerged": 2}
_F = 0.01  # the share of a hot key
_R_OF_TABLE_2 = 10  # the rarest keys of Table 2 then have 8 records


def stream_of(size: Size, stream: str, z: float, part: float = 1.0) -> dict[str, Any]:
    """Return the Zipf stream for a trace, or the paper's ZF; the first part of it."""
    if not stream:
        n_records = min(1_000_000_000, size.records)
        return {"z": z, "n_keys": _KEYS, "n_records": round(part * n_records)}
    published, n_distinct, top = TRACES[stream]
    n_top = max(1, round(top * n_distinct))
    n_keys = fitted_keys(n_distinct, published, share=0.8, n_top=n_top)
    z = fitted_z(n_keys, 0.8, n_top=n_top)
    return {"z": z, "n_keys": n_keys, "n_records": round(part * min(published, size.records))}


def _simulation(strategy: str, workload: str, sample: int = 0, **fields: Any) -> Simulation:
    """Return a simulation; DKG is the one that splits keys, by a `sample` of so many records."""
    if strategy == "dkg":
        settings = {"sample": sample} if sample else {}
        return SplitSimulation(workload=workload, **{**fields, "settings": settings})
    return Simulation(strategy, workload, **fields)


def routed(
    size: Size,
    *,
    strategy: str,
    seed: int,
    workers: int = 128,
    stream: str = "",
    part: float = 1.0,
    f: float | None = None,
    saturated: bool = False,
    drifting: bool = False,
    longer: int = 1,
) -> Simulation:
    """Return one strategy on one stream; `f` is a fixed threshold of PStream.

    `drifting`: other keys are the hot ones in each quarter of the stream. `longer`: the stream is
    as many times longer, but not above the largest of ours.

    One source routes: PStream's predictor is one for all sources, and knows every record.
    """
    of = stream_of(size.longer(longer, "pstream"), stream, 1.0, part)
    if drifting:
        own_z = of.pop("z")
        of |= {"z_min": own_z, "z_max": own_z, "period": of["n_records"] // 4}
    return _simulation(
        strategy,
        "shifting-zipf" if drifting else "zipf",
        settings={} if f is None else {"f": f},
        of=of,
        n_workers=min(workers, size.workers),
        seed=seed,
        window=max(1, min(_AVERAGED, of["n_records"] // _WINDOWS)),
        timing=_SATURATED if saturated else None,
    )


def merged(
    size: Size,
    *,
    strategy: str,
    seed: int,
    workers: int = 64,
    stream: str = "",
    z: float = 1.0,
    sample: int = 0,
    reducers: int = _REDUCERS,
) -> Simulation:
    """Return a strategy with its merge stage; `sample` is that of DKG.

    Where a key has one worker, its result is final, so hash has none.
    """
    of = stream_of(size, stream, z)
    return _simulation(
        strategy,
        "zipf",
        sample,
        of=of,
        n_workers=min(workers, size.workers),
        seed=seed,
        window=max(1, of["n_records"] // _MERGES),
        timing=_SATURATED if strategy == "hash" else {**_MERGED, "reducers": reducers},
    )


def aggregated(
    size: Size, *, strategy: str, seed: int, workers: int = 128, forwarding: bool = True
) -> Measurement:
    """Build the cell that counts the partial results that must be merged."""
    of = stream_of(size, "", 1.0)
    window = max(1, of["n_records"] // _MERGES)
    n_workers = min(workers, size.workers)
    return counting.aggregation(
        strategy, "zipf", of, n_workers, window, forwarding, _SERVICE, _REDUCERS, seed
    )


def top_shares(size: Size, *, stream: str, seed: int) -> Measurement:
    """Build the cell that measures the skew of a trace's stand-in."""
    return counting.top_shares(**stream_of(size, stream, 0.0), seed=seed)


def tossed(size: Size, *, seed: int, records: int = 0, rarity: int = 0) -> Measurement:
    """Return trials of a key with this many records, in units of 2^r, or of some rare keys.

    Rare keys have 2^r / `rarity` records each.
    """
    # With the fewest trials, the smallest rate of the tables has 60 cases.
    n_trials = min(max(size.records // 4, 20_000), 1_000_000)
    if records:
        return counting.coin_trials(records * 2**counting.R + 1, n_trials, seed=seed)
    n_each = 2**_R_OF_TABLE_2 // rarity
    return counting.coin_trials(n_each, n_trials, rarity, long_run=_R_OF_TABLE_2, seed=seed)


def predicted(
    size: Size, *, kind: str, seed: int, z: float = 1.0, stream: str = "", memory: int = 0
) -> Measurement:
    """Return a predictor of hot keys; on the stream `drift`, each quarter has other hot keys."""
    n_records = min(size.records, 4_000_000)
    drift = {"z_min": z, "z_max": z, "period": n_records // 4}
    of = {"n_keys": _KEYS, "n_records": n_records, **(drift if stream == "drift" else {"z": z})}
    workload = "shifting-zipf" if stream == "drift" else "zipf"
    return counting.predicted_hot_keys(kind, workload, of, f=_F, memory=memory, seed=seed)


def clocked(size: Size, *, kinds: list[str], seed: int, z: float, hot: bool = False) -> Measurement:
    """Build the cell that measures how long predictors take for a record, all in one run."""
    of = {"z": z, "n_keys": _KEYS, "n_records": min(size.records, 4_000_000)}
    return counting.clocked_predictors(kinds, of, hot, f=_F, seed=seed)


def weighed(size: Size, *, distribution: str, seed: int) -> Measurement:
    """Build the cell of 1,000 thresholds for 1,000 keys (section 4.4)."""
    return counting.weighed_thresholds(distribution, 1_000, 1_000, seed)


def time_hot(size: Size, *, share: float, seed: int) -> Measurement:
    """Build the cell that measures the time in which a key is hot, by its share in units of f.

    In this stream a key with a quarter of f has some thousand records.
    """
    return counting.time_hot(share * _F, 2_000_000, seed=seed)


def _loads(entry: Entry) -> Any:
    return np.array(entry.row["loads"]) / np.mean(entry.row["loads"])


def _latencies(table: Table, strategy: str, merging: bool = False) -> list[float]:
    """Return the mean latency of each window of all seeds, with what merging takes."""
    merge = table.mean("merge_seconds", strategy=strategy, case="merging") if merging else 0.0
    entries = table.found(strategy=strategy)
    return [merge + seconds for entry in entries for seconds in entry.row["window_latency_mean"]]


def _part_within(table: Table, strategy: str, part: float, merging: bool = False) -> float:
    """Return the part of a strategy that is as fast as this part of PStream."""
    limit = float(np.quantile(_latencies(table, "pstream", merging), part))
    return float(np.mean(np.array(_latencies(table, strategy, merging)) <= limit))


def _loaded_throughput(table: Table, **axes: Any) -> float:
    """Return the throughput that the most loaded worker would have alone."""
    found = table.found(**axes)
    rates = (table.value(entry, "throughput") * max(_loads(entry)) for entry in found)
    return float(mean(rates))


def _standard_errors(table: Table, column: str, most: bool) -> float:
    """Count the standard errors between the adaptive and the best fixed threshold."""

    def by_seed(**axes: Any) -> list[float]:
        return [table.value(entry, column) for entry in table.found(**axes)]

    one = by_seed(strategy="pstream")
    tried = [by_seed(case="fixed", f=f) for f in table.values("f", case="fixed")]
    other = max(tried, key=mean) if most else min(tried, key=mean)
    error = math.sqrt(variance(one) / len(one) + variance(other) / len(other))
    return abs(mean(one) - mean(other)) / error if error else 0.0


PAPER = Paper(
    "pstream",
    "PStream",
    named(routed, merged, aggregated, top_shares, predicted, time_hot, clocked, weighed, tossed),
    columns={
        "load_stddev": lambda entry: float(np.std(_loads(entry))),
        "peak_load": lambda entry: float(np.max(_loads(entry))),
        "median_to_peak": lambda entry: float(np.median(_loads(entry)) / np.max(_loads(entry))),
        # A record and a partial result take the same.
        "merge_share": lambda entry: (
            entry.row["partial_results"] / (1.0 + entry.row["partial_results"])
        ),
        # Pairs of a key and a worker that hold state: the memory of all workers.
        "pairs": lambda entry: entry.row["replication"] * entry.row["keys"],
        # Of a worker with all records of the most frequent key of ZF, z = 1.
        "top_key_load": lambda entry: entry.row["throughput"] * _SERVICE * share_of_top(1.0, _KEYS),
    },
    calls={
        "mean_latency": lambda table, strategy: float(np.mean(_latencies(table, strategy, True))),
        "unsteadiness": lambda table, strategy: float(np.std(_latencies(table, strategy))),
        **named(_part_within, _loaded_throughput, _standard_errors),
    },
)
