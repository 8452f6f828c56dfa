"""The streams of Dalton's evaluation (Table 2), generated, and the sizes of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from skewless.experiments.reproduction.figure import FULL, Results, Size
from skewless.workloads.zipf import zipf_probabilities

#: Records of a second at the rate that the paper's systems reach with 64 workers (section 5.3).
RECORDS_PER_SECOND = 40_000
#: The number of seconds of a window of the paper.
WINDOW_SECONDS = 60
_SLIDES = 200  # of a stream

DATA = (
    "Generated Zipf streams with the number of keys and the share of the top key of Table 2. In "
    "smaller sizes, the records of a second and the keys shrink together, and the exponent is "
    "fitted so that the share of the top key stays. Windows and slides count records: a second is "
    "40,000 records or fewer."
)


class Stream(NamedTuple):
    """One line of Table 2."""

    n_keys: int
    top_share: float


T4SA = Stream(450_000, 0.0269)
ELECTIONS = Stream(200_000, 0.072)
SYNTHETIC = Stream(100_000, 0.3845)


@lru_cache(maxsize=64)
def fitted_exponent(n_keys: int, top_share: float) -> float:
    """Return the z with which the top one of `n_keys` keys has this share of the records.

    >>> fitted_exponent(100_000, 0.3845)
    1.501
    """
    if not 1 / n_keys <= top_share < 1:
        raise ValueError(f"top_share must be from 1/{n_keys} to below 1, not {top_share!r}")
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        if float(zipf_probabilities(middle, n_keys)[0]) < top_share:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 3)


def longer(size: Size, times: int) -> Size:
    """Return the size with streams this many times as long, but not above the largest of ours.

    A hot key is learned when each worker has been tried some twenty times, which takes 20 · n / ε
    records of the key, whatever a second is. The paper measures after hours, so where that
    matters a figure of few cells takes longer streams than its size says.
    """
    return size._replace(records=min(times * size.records, max(size.records, FULL.records)))


def second(size: Size) -> int:
    """Return the records of a second: the paper's, or fewer in a smaller size."""
    return min(RECORDS_PER_SECOND, size.records // _SLIDES)


def length(size: Size) -> int:
    """Return the records of a stream: three windows and a bit."""
    return _SLIDES * second(size)


def scaled_keys(n_keys: int, size: Size) -> int:
    """Return the keys for this size: as many per record of a window as in the paper."""
    return max(1_000, n_keys * second(size) // RECORDS_PER_SECOND)


def zipf_of(stream: Stream, size: Size) -> dict[str, Any]:
    """Return the parameters of the workload `zipf` that stands for a data set."""
    n_keys = scaled_keys(stream.n_keys, size)
    z = fitted_exponent(n_keys, stream.top_share)
    return {"z": z, "n_keys": n_keys, "n_records": length(size)}


def label(*parts: object, seed: int) -> str:
    """Return the label of a cell."""
    return f"{' '.join(str(part) for part in parts)} #{seed}"


def mean(results: Results, column: str, *parts: object) -> float:
    """Return the mean of a column over the seeds of the cells with this label."""
    prefix = f"{' '.join(str(part) for part in parts)} #"
    values = [float(row[column]) for name, row in results.items() if name.startswith(prefix)]
    return float(np.mean(values)) if values else float("nan")


def series(results: Results, column: str, *parts: object) -> list[float]:
    """Return the mean over the seeds, slide by slide, of a column that is a list."""
    prefix = f"{' '.join(str(part) for part in parts)} #"
    rows: Sequence[Any] = [row[column] for name, row in results.items() if name.startswith(prefix)]
    return [float(value) for value in np.mean(np.asarray(rows, np.float64), axis=0)]
