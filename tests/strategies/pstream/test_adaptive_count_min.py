from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.pstream.adaptive_count_min import AdaptiveCountMinReference
from skewless.arrays import Bytes, Keys
from skewless.kernels.hashing import draw, seed_array, seeded
from skewless.plumbing.compiling import JIT_OFF
from skewless.strategies.pstream import adaptive_count_min as ada
from skewless.strategies.pstream import hot_key_predictor as hp


def endless(f: float, epsilon: float, delta: float) -> ada.AdaptiveCountMin:
    """Return the plain count-min sketch: one slot that never ends."""
    return ada.adaptive_count_min(f, epsilon, delta, slot=1 << 62, n_slots=1)


def observed(module, predictor, keys: Keys) -> Bytes:
    out = np.full(keys.size, 9, np.uint8)
    module.observe_all(predictor, keys, out)
    return out


def oracle_of(sketch: ada.AdaptiveCountMin, growth: float, slot: int, n_slots: int):
    n_rows, n_columns = sketch.cells.shape

    def columns(key: int, slot: int) -> list[int]:
        hashed = np.uint64(seeded(np.uint64(key), sketch.seed[0]))
        return [int(draw(hashed, slot * n_rows + row)) % n_columns for row in range(n_rows)]

    return AdaptiveCountMinReference(columns, Fraction(growth), slot, n_slots)


@given(
    keys=st.lists(st.integers(0, 9), max_size=60),
    growth=st.sampled_from([1.0, 1.5, 2.0]),
    slot=st.sampled_from([1, 3, 10]),
    n_slots=st.integers(1, 4),
)
def test_it_equals_the_oracle(keys, growth, slot, n_slots):
    sketch = ada.adaptive_count_min(0.2, 0.3, 0.2, growth=growth, slot=slot, n_slots=n_slots)
    oracle = oracle_of(sketch, growth, slot, n_slots)
    for key in keys:
        share = Fraction(ada.estimate(sketch, np.uint64(key)))
        expected = oracle.estimate(key)
        assert float(share) == pytest.approx(float(expected), rel=1e-12)
        hot = ada.observe(sketch, np.uint64(key))
        # Floats round: a key that stands at the threshold may be told either way.
        threshold = Fraction(0.2) * len(oracle.recent())
        if abs(expected - threshold) > Fraction(1, 10**9):
            assert hot == (expected > threshold)
        oracle.add(key)


@pytest.mark.parametrize("growth", [1.0, 1.5, 1e9])
def test_no_estimate_is_too_low_however_loud_it_gets(growth):
    # With 1e9, cells are made smaller every 17 slots.
    sketch = ada.adaptive_count_min(0.1, 0.05, 0.05, growth=growth, slot=20, n_slots=3)
    oracle = oracle_of(sketch, growth, 20, 3)
    rng = np.random.default_rng(1)
    for key in rng.integers(0, 40, 1_500).tolist():
        ada.add(sketch, np.uint64(key))
        oracle.keys.append(key)
        true = oracle.recent().count(key)
        # Adding the same number many times rounds, by less than 1e-12 of it.
        assert ada.estimate(sketch, np.uint64(key)) >= true * (1 - 1e-12)
    assert np.isfinite(sketch.cells).all()


def test_louder_slots_hear_less_of_the_past():
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 2_000, 4_000 if JIT_OFF else 40_000).astype(np.uint64)
    errors = []
    for growth in (1.0, 4.0):
        sketch = ada.adaptive_count_min(0.1, 0.1, 0.1, growth=growth, slot=500, n_slots=1)
        observed(ada, sketch, keys)
        recent = keys[-500:]
        estimates = [ada.estimate(sketch, np.uint64(key)) for key in range(200)]
        errors.append(sum(estimates) - np.isin(recent, np.arange(200)).sum())
    assert errors[1] < errors[0] / 4


def test_count_min_calls_hot_what_has_its_share():
    predictor = endless(0.2, 0.001, 0.01)
    keys = np.array([1, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2], np.uint64)
    # Before each record: its key's share of those before it, above a fifth or not.
    assert observed(ada, predictor, keys).tolist() == [0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]


def test_all_three_predictors_find_a_key_that_has_become_hot_and_one_forgets_it_never():
    n = 4_000 if JIT_OFF else 40_000
    rng = np.random.default_rng(3)
    keys = rng.integers(100, 10_000, 3 * n).astype(np.uint64)
    heavy = rng.random(3 * n) < 0.5
    keys[:n][heavy[:n]] = 1  # hot at first,
    keys[n:][heavy[n:]] = 2  # then never again
    predictors = {
        "coins": (hp, hp.hot_key_predictor(0.1, seeds=seed_array(1, 3))),
        "ada": (ada, ada.adaptive_count_min(0.1, 0.01, 0.01, slot=500, n_slots=4)),
        "count-min": (ada, endless(0.1, 0.01, 0.01)),
    }
    for name, (module, predictor) in predictors.items():
        hot = observed(module, predictor, keys)
        last = slice(3 * n - n // 2, 3 * n)
        assert hot[last][keys[last] == 2].mean() > 0.95, name
        assert hot[last][keys[last] >= 100].mean() < 0.05, name
        one = np.full(1, 1, np.uint64)
        assert bool(observed(module, predictor, one)[0]) == (name == "count-min"), name
