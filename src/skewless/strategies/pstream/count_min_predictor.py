"""Hot keys by a count-min sketch, with the `observe` of `hot_key_predictor`: its rival.

A key is hot while its estimate is above a share f of all records so far. The sketch never forgets:
PStream's sections 2 and 6.2 compare with it for that reason.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import U64, Bytes, Floats, Keys
from skewless.kernels.count_min import CountMin, add, count_min, estimate
from skewless.plumbing.compiling import kernel


class CountMinPredictor(NamedTuple):
    """A sketch, and the share that makes a key hot."""

    sketch: CountMin
    share: Floats


def count_min_predictor(
    f: float, epsilon: float, delta: float, *, seed: int = 0
) -> CountMinPredictor:
    """Return a predictor that has seen nothing; `epsilon` and `delta` size the sketch."""
    if not 0 < f < 1:
        raise ValueError(f"f must be above 0 and below 1, not {f!r}")
    return CountMinPredictor(count_min(epsilon, delta, seed=seed), np.array([f]))


@kernel
def observe(predictor: CountMinPredictor, key: U64) -> bool:
    """Tell whether `key` is hot, then count this record of it."""
    sketch = predictor.sketch
    hot = bool(estimate(sketch, key) > predictor.share[0] * sketch.total[0])
    add(sketch, key, 1.0)
    return hot


@kernel
def observe_all(predictor: CountMinPredictor, keys: Keys, hot: Bytes) -> None:
    """Fill `hot` with 1 for each record whose key is hot when it comes, and count them."""
    for i in range(keys.size):
        hot[i] = observe(predictor, keys[i])
