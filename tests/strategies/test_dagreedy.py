from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import slow
from reference import dagreedy as reference
from skewless.strategies import DAGreedy, Hash
from strategies.streams import (
    as_keys,
    drifting,
    returning,
    routed,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
)


@settings(deadline=None)
@given(
    keys=some_keys,
    n_workers=some_workers,
    seed=some_seeds,
    # Short intervals: keys become hot, are forgotten and come back many times in one stream.
    interval=st.sampled_from([1, 2, 5, 12, 40, 1_000]),
    hot_divisor=st.sampled_from([1, 2, 100]),
)
def test_it_equals_its_oracle(keys, n_workers, seed, interval, hot_divisor):
    parameters = {"interval": interval, "hot_divisor": hot_divisor}
    expected = reference.route(keys, n_workers, seed, **parameters)
    assert routed(DAGreedy(**parameters), as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [*slow([skewed()]), drifting(), *slow([returning()])],
    ids=["skewed", "drifting", "returning"],
)
@pytest.mark.parametrize(
    ("n_workers", "parameters"),
    [
        (3, {"interval": 100, "hot_divisor": 2}),
        (16, {"interval": 350, "hot_divisor": 3}),
        (7, {"interval": 350, "hot_divisor": 100}),  # every record is hot
        (70, {"interval": 700, "hot_divisor": 1}),  # more workers than a word has bits
    ],
)
def test_it_equals_its_oracle_on_a_long_stream(keys, n_workers, parameters):
    keys = keys[:3_000] if n_workers == 70 else keys
    expected = reference.route(keys, n_workers, 5, **parameters)
    assert routed(DAGreedy(**parameters), keys, n_workers, 5).tolist() == expected


def test_a_hot_key_leaves_its_workers_only_for_one_a_mean_load_lighter():
    # In one interval nothing is forgotten: who ever got the key holds it.
    n_workers, hot_above, keys = 16, 25, skewed()
    strategy = DAGreedy(interval=keys.size, hot_divisor=keys.size // (hot_above * n_workers))
    workers = routed(strategy, keys, n_workers, 1)
    counts, held = Counter(), {}
    loads = np.zeros(n_workers, np.int64)
    n_new = 0
    for i, (key, worker) in enumerate(zip(keys.tolist(), workers.tolist(), strict=True)):
        counts[key] += 1
        holders = held.setdefault(key, set())
        if counts[key] > hot_above and worker not in holders:
            lightest_holder = min(loads[holder] for holder in holders)
            # By at least a mean load, i / n, above the lightest; in integers.
            assert (lightest_holder - loads.min()) * n_workers >= i
            n_new += 1
        holders.add(worker)
        loads[worker] += 1
    assert n_new > 0


def test_cold_keys_are_hashed():
    keys = np.random.default_rng(1).permutation(5_000).astype(np.uint64)
    found = routed(DAGreedy(interval=1_000, hot_divisor=1), keys, 16, 3)
    np.testing.assert_array_equal(found, routed(Hash(), keys, 16, 3))


def test_the_first_interval_knows_hot_keys_too():
    strategy = DAGreedy(interval=100, hot_divisor=1)
    workers = routed(strategy, np.zeros(100, np.uint64), 4, 3)
    home = int(routed(Hash(), np.zeros(1, np.uint64), 4, 3)[0])
    assert (workers[:25] == home).all()  # up to 100 / (1 · 4) records it is cold
    assert (workers[25:] != home).any()


@pytest.mark.parametrize(("n_others", "remembered"), [(40, True), (41, False)])
def test_a_hot_keys_workers_are_remembered_to_the_end_of_the_next_interval(n_others, remembered):
    strategy = DAGreedy(interval=40, hot_divisor=1)
    state = strategy.start(4, 3)
    for keys in (np.zeros(40, np.uint64), np.arange(1, 1 + n_others, dtype=np.uint64)):
        strategy.route(keys, state, np.empty(keys.size, np.int32))
    assert (state.rows.values >= 0).any() == remembered


def test_rows_suffice_when_every_interval_has_as_many_new_hot_keys_as_it_can():
    # Every key is hot with its first record, and lives for two intervals.
    strategy = DAGreedy(interval=10, hot_divisor=100)
    keys = np.arange(500, dtype=np.uint64)
    expected = reference.route(keys, 5, 1, interval=10, hot_divisor=100)
    state = strategy.start(5, 1)
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, state, out)
    assert out.tolist() == expected
    assert (state.rows.values >= 0).sum() == 20


@pytest.mark.parametrize("parameter", ["interval", "hot_divisor"])
def test_parameters_out_of_range_are_refused_by_name(parameter):
    with pytest.raises(ValueError, match=parameter):
        DAGreedy(**{parameter: 0})
