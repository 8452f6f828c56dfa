"""Test support: predictors of PStream, and how far a measured share may be off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skewless._jit import JIT_OFF
from skewless.arrays import Bytes, Keys
from skewless.kernels.hashing import seed_array
from skewless.strategies.pstream import hot_predictor as hp

#: Without compilation so short a stream would be measured that it says nothing.
needs_a_long_stream = pytest.mark.skipif(JIT_OFF, reason="measures a long stream")


def margin(share: float, n_trials: int) -> float:
    return 4 * math.sqrt(max(share * (1 - share), 1 / n_trials) / n_trials)


def predictor_with(r: int, seed: int, **settings: float) -> hp.HotPredictor:
    """p = 2^−r."""
    return hp.hot_predictor(2.0 ** (1 - r), seeds=seed_array(seed, 3), **settings)


def is_hot(predictor: hp.HotPredictor, keys: Keys) -> Bytes:
    out = np.empty(keys.size, np.uint8)
    hp.observe_all(predictor, keys, out)
    return out
