"""Small streams of every workload, and what they have in common, for the tests beside this."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.workloads import (
    Alternating,
    Burst,
    EvolvingZipf,
    FluctuatingZipf,
    PerSource,
    Ranked,
    ShiftingZipf,
    Zipf,
)

#: One short stream per synthetic workload, with borders of periods inside.
SMALL: tuple[Any, ...] = (
    Zipf(z=1.2, n_keys=1_000, n_records=1_000),
    Zipf(z=0.0, n_keys=1_000, n_records=1_000),
    EvolvingZipf(z=1.2, n_keys=1_000, n_records=1_000, period=77, reversed_share=0.3),
    FluctuatingZipf(z=1.0, n_keys=200, n_records=1_000, interval=90, n_workers=4),
    Alternating(z=1.5, n_keys=1_000, n_records=1_000, period=130),
    ShiftingZipf(n_keys=1_000, n_records=1_000, period=130),
    PerSource(exponents=(0.0, 1.5, 1.0), n_keys=1_000, n_records=1_000),
    Burst(n_keys=1_000, n_records=1_000, period=100, duration=30),
)


def whole(workload: Ranked, seed: int, chunk_size: int = 1 << 18) -> np.ndarray:
    """Return all raw keys of a stream."""
    return np.concatenate([np.empty(0, np.int64), *workload.ranks(seed, chunk_size)])
