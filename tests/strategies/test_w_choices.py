from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import w_choices as reference
from skewless.strategies import WChoices
from strategies.streams import (
    as_keys,
    drifting,
    imbalance,
    routed,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
    workers_by_key,
)


@settings(deadline=None)
@given(
    keys=some_keys,
    n_workers=some_workers,
    seed=some_seeds,
    # Factors with which a count often stands exactly at the threshold.
    hot_factor=st.sampled_from([0.2, 0.25, 1.0, 2.0, 8.0]),
    # Few places, so that keys of equal counts push each other out.
    capacity=st.sampled_from([None, 1, 2, 3, 5]),
)
def test_it_equals_its_oracle(keys, n_workers, seed, hot_factor, capacity):
    parameters = {"hot_factor": hot_factor, "capacity": capacity}
    expected = reference.route(keys, n_workers, seed, **parameters)
    assert routed(WChoices(**parameters), as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("keys", [skewed(), drifting()], ids=["skewed", "drifting"])
@pytest.mark.parametrize(
    ("n_workers", "parameters"),
    [(16, {}), (5, {"hot_factor": 1.0}), (64, {"capacity": 20}), (30, {"capacity": 2_000})],
)
def test_it_equals_its_oracle_on_a_long_stream(keys, n_workers, parameters):
    expected = reference.route(keys, n_workers, 5, **parameters)
    assert routed(WChoices(**parameters), keys, n_workers, 5).tolist() == expected


def test_a_key_that_is_never_hot_has_at_most_two_workers():
    n_workers, capacity = 16, 400
    allowed_share = 0.2 / n_workers - 1 / capacity
    keys = skewed()
    counts = Counter()
    too_hot = set()
    for number, key in enumerate(keys.tolist(), start=1):
        counts[key] += 1
        if counts[key] > allowed_share * number:
            too_hot.add(key)
    fan_outs = {
        key: len(workers)
        for key, workers in workers_by_key(
            keys, routed(WChoices(capacity=capacity), keys, n_workers, 1)
        ).items()
    }
    never_hot = [fan_out for key, fan_out in fan_outs.items() if key not in too_hot]
    assert len(never_hot) > 1_000
    assert max(never_hot) == 2
    assert max(fan_outs.values()) == n_workers


def test_one_source_is_balanced_to_a_record_or_two():
    # Half of the records are hot and fill the least loaded worker, so cold ones, which go to the
    # lighter of two, cannot lift one by more than that above the mean.
    keys = skewed(z=1.4)
    for n_workers in (4, 16, 64):
        workers = routed(WChoices(), keys, n_workers, 1)
        assert imbalance(workers, n_workers) <= 2 * n_workers / keys.size


def test_the_default_summary_has_n_over_hot_factor_places():
    assert WChoices().start(64, 1).head.summary.keys.size == 320
    assert WChoices(hot_factor=0.3).start(10, 1).head.summary.keys.size == 34
    assert WChoices(capacity=7).start(64, 1).head.summary.keys.size == 7


@pytest.mark.parametrize(
    ("parameter", "value"), [("hot_factor", 0.0), ("hot_factor", np.nan), ("capacity", 0)]
)
def test_parameters_out_of_range_are_refused_by_name(parameter, value):
    with pytest.raises(ValueError, match=parameter):
        WChoices(**{parameter: value})
