from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.kernels.count_min import CountMinReference
from skewless.arrays import Floats, Keys
from skewless.kernels import count_min as cm
from skewless.plumbing.compiling import JIT_OFF, kernel


@kernel
def add_all(sketch: cm.CountMin, keys: Keys, weights: Floats) -> None:
    for i in range(keys.size):
        cm.add(sketch, keys[i], weights[i])


@kernel
def estimate_all(sketch: cm.CountMin, keys: Keys, out: Floats) -> None:
    for i in range(keys.size):
        out[i] = cm.estimate(sketch, keys[i])


def estimates(sketch: cm.CountMin, keys: Keys) -> Floats:
    out = np.empty(keys.size)
    estimate_all(sketch, keys, out)
    return out


def columns_of(sketch: cm.CountMin, key: int) -> list[int]:
    cm.estimate(sketch, np.uint64(key))
    return sketch.columns.tolist()


def zipf(n_keys: int, n_records: int, seed: int) -> Keys:
    rng = np.random.default_rng(seed)
    shares = np.arange(1, n_keys + 1) ** -1.0
    names = rng.integers(0, 2**64, n_keys, np.uint64)
    return names[rng.choice(n_keys, n_records, p=shares / shares.sum())]


any_key = st.one_of(st.integers(0, 30), st.integers(2**64 - 3, 2**64 - 1))
#: Sums of these are exact in a float.
any_weight = st.sampled_from([1.0, 1.0, 2.0, 0.25, 0.0])


@settings(deadline=None, max_examples=60)
@given(
    conservative=st.booleans(),
    shape=st.sampled_from([(0.9, 0.9), (0.7, 0.01), (0.5, 1e-9), (0.1, 0.1)]),
    seed=st.integers(0, 5),
    records=st.lists(st.tuples(any_key, any_weight), max_size=80),
)
def test_it_equals_the_oracle(conservative: bool, shape: tuple, seed: int, records: list) -> None:
    epsilon, delta = shape
    sketch = cm.count_min(epsilon, delta, conservative=conservative, seed=seed)
    oracle = CountMinReference(lambda key: columns_of(sketch, key), conservative)
    for key, weight in records:
        assert cm.add(sketch, np.uint64(key), weight) == oracle.add(key, weight)
    for key in range(31):
        assert cm.estimate(sketch, np.uint64(key)) == oracle.estimate(key)
    assert sketch.total[0] == sum(weight for _, weight in records)


@pytest.mark.parametrize("conservative", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 0.05), (0.002, 0.2), (0.005, 0.01)])
def test_no_estimate_is_too_low_and_few_are_too_high(
    conservative: bool, epsilon: float, delta: float
) -> None:
    keys = zipf(3_000, 5_000 if JIT_OFF else 50_000, seed=1)
    weights = np.random.default_rng(1).integers(1, 5, keys.size) * 1.0
    names, inverse = np.unique(keys, return_inverse=True)
    true = np.bincount(inverse, weights)
    n_too_high = n_all = 0
    for seed in range(3):
        sketch = cm.count_min(epsilon, delta, conservative=conservative, seed=seed)
        add_all(sketch, keys, weights)
        found = estimates(sketch, names)
        assert (found >= true).all()
        n_too_high += (found > true + epsilon * weights.sum()).sum()
        n_all += names.size
    # The bound is an expectation over hashes, met with room to spare (Markov's inequality gives
    # it), so no margin is added: three seeds, thousands of keys.
    assert n_too_high <= delta * n_all


def test_a_small_sketch_does_err() -> None:
    # Or else the test above could not fail.
    keys = zipf(3_000, 5_000, seed=2)
    sketch = cm.count_min(0.1, 0.3)
    add_all(sketch, keys, np.ones(keys.size))
    names, true = np.unique(keys, return_counts=True)
    assert (estimates(sketch, names) > true).mean() > 0.5


def test_conservative_estimates_are_never_above_plain_ones() -> None:
    keys = zipf(3_000, 5_000, seed=3)
    names = np.unique(keys)
    found = []
    for conservative in (True, False):
        sketch = cm.count_min(0.02, 0.05, conservative=conservative, seed=3)
        add_all(sketch, keys, np.ones(keys.size))
        found.append(estimates(sketch, names))
    assert (found[0] <= found[1]).all()
    assert found[0].sum() < found[1].sum()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-9), (0.001, 1e-3)])
def test_every_row_has_bits_of_its_own(epsilon: float, delta: float) -> None:
    # Two rows with the same bits would agree on all keys; independent ones on 1 / n_columns.
    sketch = cm.count_min(epsilon, delta, seed=4)
    n_rows, n_columns = sketch.cells.shape
    columns = np.array([columns_of(sketch, key) for key in range(4000)])
    for a, b in itertools.combinations(range(n_rows), 2):
        agree = (columns[:, a] == columns[:, b]).mean()
        # Five standard deviations of a share of 4000 draws, for a few hundred pairs.
        assert abs(agree - 1 / n_columns) < 5 * np.sqrt(1 / n_columns / 4000)


def test_another_seed_gives_other_columns() -> None:
    one, other = cm.count_min(0.01, 0.01, seed=0), cm.count_min(0.01, 0.01, seed=1)
    assert [columns_of(one, k) for k in range(9)] != [columns_of(other, k) for k in range(9)]


def test_a_cleared_sketch_knows_nothing() -> None:
    sketch = cm.count_min(0.1, 0.1)
    keys = zipf(50, 400, seed=8)
    add_all(sketch, keys, np.ones(keys.size))
    cm.clear(sketch)
    assert not estimates(sketch, keys).any()
    assert sketch.total[0] == 0


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="epsilon must be above 0 and below 1, not 0"):
        cm.count_min(0, 0.1)
    with pytest.raises(ValueError, match="delta must be above 0 and below 1, not 1"):
        cm.count_min(0.1, 1)
