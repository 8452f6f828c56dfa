import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import needs_a_long_stream, slow
from reference import d_choices as reference
from reference.w_choices import HotKeys
from skewless.kernels.fewest_choices import fewest_choices
from skewless.strategies import DChoices
from skewless.workloads.zipf import zipf_probabilities
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


@settings(deadline=None, max_examples=60)
@given(
    keys=some_keys,
    n_workers=some_workers,
    seed=some_seeds,
    hot_factor=st.sampled_from([0.2, 0.25, 1.0, 2.0]),
    capacity=st.sampled_from([None, 1, 2, 3, 5]),
    epsilon=st.sampled_from([1e-4, 0.01, 0.2]),
    refresh=st.sampled_from([1, 7, 16, 30, 10_000]),
)
def test_it_equals_its_oracle(keys, n_workers, seed, hot_factor, capacity, epsilon, refresh):
    parameters = {
        "hot_factor": hot_factor,
        "capacity": capacity,
        "epsilon": epsilon,
        "refresh": refresh,
    }
    expected = reference.route(keys, n_workers, seed, **parameters)
    assert routed(DChoices(**parameters), as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [*slow([skewed(z=1.4), drifting(z=1.0)]), drifting(z=1.6)],
    ids=["steady", "mild", "steep"],
)
@pytest.mark.parametrize(
    ("n_workers", "parameters"),
    [
        (3, {"refresh": 300}),  # d is often n
        (16, {"refresh": 700}),
        (64, {}),
        (64, {"capacity": 20, "refresh": 1_500}),
        (30, {"hot_factor": 1.0, "epsilon": 0.01, "refresh": 1_000}),
    ],
)
def test_it_equals_its_oracle_on_a_long_stream(keys, n_workers, parameters):
    keys = keys[:6_000] if n_workers == 64 else keys  # the oracle scans 320 entries per record
    expected = reference.route(keys, n_workers, 5, **parameters)
    assert routed(DChoices(**parameters), keys, n_workers, 5).tolist() == expected


@pytest.mark.parametrize(
    ("z", "n_workers", "expected"), [(1.4, 16, 9), (1.4, 64, 28), (1.0, 64, 8), (2.0, 64, 62)]
)
def test_d_for_exact_zipf(z, n_workers, expected):
    shares = zipf_probabilities(z, 10_000)
    hot = shares[shares > 1 / (5 * n_workers)]
    assert fewest_choices(hot, hot.size, n_workers, 1e-4) == expected


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 200), max_size=25),
    others=st.integers(0, 2_000),
    n_workers=some_workers,
    # Where covered ≈ 1, both sides differ by about n·ε; below that, rounding would decide.
    epsilon=st.sampled_from([1e-6, 1e-4, 0.01, 0.5]),
)
def test_d_equals_the_inequality_in_forty_digits(counts, others, n_workers, epsilon):
    total = sum(counts) + others
    shares = np.array(sorted((count / total for count in counts), reverse=True))
    found = fewest_choices(shares, shares.size, n_workers, epsilon)
    assert found == reference.fewest_choices(list(shares), n_workers, epsilon)


def test_only_the_hot_keys_in_use_are_read():
    shares = np.array([0.3, 0.1, 7.0, 7.0])
    assert fewest_choices(shares, 2, 64, 1e-4) == fewest_choices(shares[:2].copy(), 2, 64, 1e-4)


@pytest.mark.parametrize(
    ("n_records", "refresh", "computed"),
    [(15, 1, False), (16, 1, True), (16, 10_000, True)],
)
def test_d_is_first_computed_at_the_sixteenth_record(n_records, refresh, computed):
    strategy = DChoices(refresh=refresh)
    state = strategy.start(64, 1)
    keys = np.zeros(n_records, np.uint64)
    strategy.route(keys, state, np.empty(n_records, np.int32))
    # One key with all records needs all workers.
    assert state.counters[0]["choices"] == (64 if computed else 2)


@pytest.mark.parametrize("n_workers", [1, 2, 3, 16, 64])
def test_with_d_equal_to_n_all_workers_are_candidates(n_workers):
    keys = np.ones(300, np.uint64)
    workers = routed(DChoices(), keys, n_workers, 5)
    assert workers.tolist() == reference.route(keys, n_workers, 5)
    assert set(workers.tolist()) == set(range(n_workers))


def test_a_key_exactly_at_the_threshold_does_not_count_for_d():
    # θ = 2/16: of 16 records, 3 are above it and 2 are not. With the twos, d would be 14.
    keys = as_keys([0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 7])
    strategy = DChoices(hot_factor=2.0)
    state = strategy.start(16, 1)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    assert state.counters[0]["choices"] == reference.fewest_choices([3 / 16], 16, 1e-4) == 5


def test_moments_of_computation_double_until_they_are_refresh_apart():
    # The oracle's schedule, held to the docstring: from 16 on it doubles, then 100 apart.
    assert sorted(reference.refreshes(500, 100)) == [16, 32, 64, 128, 228, 328, 428]
    assert sorted(reference.refreshes(20, 1)) == [16, 17, 18, 19, 20]


@needs_a_long_stream
def test_a_key_that_is_never_hot_has_at_most_two_workers():
    n_workers = 16
    keys = skewed()
    hot_keys = HotKeys(n_workers, 0.2, 400)
    ever_hot = {key for key in keys.tolist() if hot_keys.offer(key)}
    workers = workers_by_key(keys, routed(DChoices(capacity=400), keys, n_workers, 1))
    never_hot = [len(found) for key, found in workers.items() if key not in ever_hot]
    assert len(never_hot) > 1_000
    assert max(never_hot) == 2
    assert max(len(found) for found in workers.values()) > 2


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("hot_factor", 0.0), ("capacity", 0), ("epsilon", -1e-9), ("epsilon", np.nan), ("refresh", 0)],
)
def test_parameters_out_of_range_are_refused_by_name(parameter, value):
    with pytest.raises(ValueError, match=parameter):
        DChoices(**{parameter: value})
