from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import slow
from reference import cardinality as reference
from skewless.strategies import CardinalityMinimal, CountAffinity
from strategies.streams import (
    as_keys,
    drifting,
    routed,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
    workers_by_key,
)

VARIANTS = [
    (CardinalityMinimal, "keys", False),
    (CardinalityMinimal, "sum", False),
    (CountAffinity, "records", True),
    (CountAffinity, "keys", True),
]
variants = pytest.mark.parametrize(("cls", "measure", "affinity"), VARIANTS)


@variants
@settings(deadline=None, max_examples=60)
@given(
    keys=some_keys,
    n_workers=some_workers,
    seed=some_seeds,
    window=st.sampled_from([1, 2, 3, 10, 40, 1_000]),
)
def test_it_equals_its_oracle(cls, measure, affinity, keys, n_workers, seed, window):
    expected = reference.route(keys, n_workers, seed, affinity, measure, window)
    strategy = cls(measure=measure, window=window)
    assert routed(strategy, as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.slow
@variants
@pytest.mark.parametrize(
    "keys", [*slow([skewed()]), drifting(every=90)], ids=["skewed", "drifting"]
)
@pytest.mark.parametrize(("n_workers", "window"), [(3, 100), (16, 333)])
def test_it_equals_its_oracle_on_a_long_stream(cls, measure, affinity, keys, n_workers, window):
    expected = reference.route(keys, n_workers, 5, affinity, measure, window)
    assert routed(cls(measure=measure, window=window), keys, n_workers, 5).tolist() == expected


@variants
def test_a_key_has_at_most_two_workers(cls, measure, affinity):
    keys = skewed()
    workers = routed(cls(measure=measure, window=500), keys, 16, 1)
    assert max(len(found) for found in workers_by_key(keys, workers).values()) == 2


@pytest.mark.parametrize("measure", ["records", "keys"])
def test_affinity_keeps_a_key_on_one_worker_per_window(measure):
    keys, window = skewed(), 500
    workers = routed(CountAffinity(measure=measure, window=window), keys, 16, 1)
    edges = range(0, keys.size + 1, window)
    for begin, end in pairwise(edges):
        found = workers_by_key(keys[begin:end], workers[begin:end])
        assert max(len(some) for some in found.values()) == 1


@variants
def test_every_window_begins_anew(cls, measure, affinity):
    window = skewed(500)
    workers = routed(cls(measure=measure, window=500), np.tile(window, 4), 16, 1)
    np.testing.assert_array_equal(workers, np.tile(workers[:500], 4))


@pytest.mark.parametrize("cls", [CardinalityMinimal, CountAffinity])
@pytest.mark.parametrize(("parameter", "value"), [("window", 0), ("measure", "weight")])
def test_parameters_out_of_range_are_refused_by_name(cls, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        cls(**{parameter: value})


@pytest.mark.parametrize(
    ("cls", "measure"), [(CardinalityMinimal, "records"), (CountAffinity, "sum")]
)
def test_each_has_measures_of_its_own(cls, measure):
    with pytest.raises(ValueError, match="measure"):
        cls(measure=measure)
