"""Test support: predictors of PStream, and how far a measured share may be off."""

from __future__ import annotations

import math

import numpy as np

from skewless.arrays import Bytes, Keys
from skewless.kernels.hashing import seed_array
from skewless.strategies.pstream import hot_key_predictor as hp


def margin(share: float, n_trials: int) -> float:
    return 4 * math.sqrt(max(share * (1 - share), 1 / n_trials) / n_trials)


def predictor_with(r: int, seed: int, **settings: float) -> hp.HotKeyPredictor:
    """p = 2^−r."""
    return hp.hot_key_predictor(2.0 ** (1 - r), seeds=seed_array(seed, 3), **settings)


def is_hot(predictor: hp.HotKeyPredictor, keys: Keys) -> Bytes:
    out = np.empty(keys.size, np.uint8)
    hp.observe_all(predictor, keys, out)
    return out
