"""What is measured of records that are done, by window: counts, times, a histogram of latencies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, Floats, Ints
from skewless.plumbing.compiling import kernel

#: A latency falls into bucket ⌊8 · log2(seconds / 1 ns)⌋: each is 9 % wide.
BUCKETS_PER_OCTAVE = 8
#: Up to 2^64 nanoseconds, 584 years.
N_BUCKETS = 64 * BUCKETS_PER_OCTAVE
SHORTEST = 1e-9


class Times(NamedTuple):
    """What is measured, by window."""

    done: Ints
    first: Floats  # emission
    last: Floats  # completion
    latency_sum: Floats
    latency_max: Floats
    latencies: Ints  # [window, bucket]
    gate: Floats  # before which no record of the window leaves its source


def no_times(n_windows: int) -> Times:
    """Return the times of windows of which nothing is known yet."""
    return Times(
        done=np.zeros(n_windows, np.int64),
        first=np.full(n_windows, np.inf),
        last=np.zeros(n_windows),
        latency_sum=np.zeros(n_windows),
        latency_max=np.zeros(n_windows),
        latencies=np.zeros((n_windows, N_BUCKETS), np.int64),
        gate=np.zeros(n_windows),
    )


@kernel
def _bucket(latency: F64) -> I64:
    if latency <= SHORTEST:
        return 0
    bucket = np.int64(np.log2(latency / SHORTEST) * BUCKETS_PER_OCTAVE)
    return min(bucket, N_BUCKETS - 1)


@kernel
def note(times: Times, window: I64, begin: F64, done: F64, latency: F64) -> None:
    """Count a record that is done."""
    times.done[window] += 1
    times.first[window] = min(times.first[window], begin)
    times.last[window] = max(times.last[window], done)
    times.latency_sum[window] += latency
    times.latency_max[window] = max(times.latency_max[window], latency)
    times.latencies[window, _bucket(latency)] += 1


def latency_bounds() -> Floats:
    """Return the lower bound of each bucket of latencies, in seconds."""
    octaves = np.arange(N_BUCKETS) / BUCKETS_PER_OCTAVE
    bounds: Floats = SHORTEST * 2.0**octaves
    return bounds


def latency_quantile(latencies: Ints, share: float) -> float:
    """Return the latency that a share of the records does not exceed, from their buckets.

    It is the middle of its bucket, so it errs by at most 4.5 %, up to latencies of 584 years.
    """
    counts = latencies if latencies.ndim == 1 else latencies.sum(axis=0)
    total = int(counts.sum())
    if not total:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(counts), share * total))
    half = 2.0 ** (0.5 / BUCKETS_PER_OCTAVE)
    return float(latency_bounds()[bucket] * half)
