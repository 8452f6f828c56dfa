from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import needs_a_long_stream, slow
from reference.pstream import pstream as reference
from skewless.plumbing.compiling import JIT_OFF
from skewless.strategies import Hash
from skewless.strategies.pstream import PStream
from skewless.strategies.pstream.coin_synopsis import vectors
from skewless.strategies.pstream.hot_key_predictor import hot_keys
from strategies.pstream.look_ups import contains
from strategies.streams import (
    as_keys,
    drifting,
    imbalance,
    returning,
    routed,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
    workers_by_key,
)

# Thresholds so high that every second to eighth run is long and every entry soon fades.
OFTEN = [
    {"f": 1.0},
    {"f": 0.5, "length": 2},
    {"f": 0.3},
    {"f": 0.1, "length": 3},
    {"least_f": 0.5, "interval": 0.5},
    {"least_f": 0.05, "interval": 0.1, "time_weight": 0.9},
    {"least_f": 0.01, "interval": 0.3, "time_weight": 0.1},
    {"least_f": 0.9, "interval": 3.0, "time_weight": 0.0},
    {"interval": 0.01, "time_weight": 1.0},
    {"f": 0.3, "until_evicted": True},
    {"f": 0.1, "whole_runs": True, "length": 8},
    {"f": 0.1, "whole_runs": True, "until_evicted": True, "length": 7},
    {"least_f": 0.2, "interval": 0.1, "time_weight": 0.9, "bounded": False},
]


@settings(deadline=None)
@given(
    keys=some_keys,
    n_workers=some_workers,
    seed=some_seeds,
    source=st.integers(0, 3),
    parameters=st.sampled_from(OFTEN),
)
def test_it_equals_its_oracle(keys, n_workers, seed, source, parameters):
    expected = reference.route(keys, n_workers, seed, source=source, **parameters)
    found = routed(PStream(**parameters), as_keys(keys), n_workers, seed, source=source)
    assert found.tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [*slow([skewed()]), drifting(), *slow([returning()])],
    ids=["skewed", "drifting", "returning"],
)
@pytest.mark.parametrize(
    ("n_workers", "parameters"),
    [(5, {}), (16, {"interval": 0.2}), (70, {"f": 0.05}), *[(9, often) for often in OFTEN]],
    ids=str,
)
def test_it_equals_its_oracle_on_a_long_stream(keys, n_workers, parameters):
    keys = keys[:4_000] if JIT_OFF else keys
    expected = reference.route(keys, n_workers, 5, **parameters)
    strategy = PStream(**parameters)
    state = strategy.start(n_workers, 5)
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, state, out)
    assert out.tolist() == expected


@pytest.mark.parametrize("parameters", [{"f": 0.1}, {"least_f": 0.02, "interval": 0.1}])
def test_the_synopsis_and_the_threshold_equal_the_oracles(parameters):
    keys = drifting(6_000, every=500, n_keys=300)
    oracle = reference.predictor(7, 3, **parameters)
    strategy = PStream(**parameters)
    state = strategy.start(7, 3)
    n_hot = 0
    for piece in np.array_split(keys, 60):
        strategy.route(piece, state, np.empty(piece.size, np.int32))
        for key in piece.tolist():
            oracle.observe(key)
        predictor = state.predictor
        expected = {key: sum(1 << bit for bit in bits) for key, bits in oracle.vectors.items()}
        assert vectors(predictor.synopsis) == expected
        assert list(vectors(predictor.synopsis)) == oracle.keys
        assert predictor.settings[0]["share"] == oracle.f
        assert predictor.synopsis.counters[0]["run"] == oracle.r
        counts = {i: n for i, n in enumerate(predictor.filter.counters.tolist()) if n}
        assert counts == {place: n for place, n in oracle.filter.counts.items() if n}
        n_hot += len(hot_keys(predictor))
    assert n_hot > 60
    assert ("f" in parameters) != (predictor.counters[0]["intervals"] > 3)


def test_a_record_that_the_filter_does_not_claim_goes_to_its_hash_worker():
    keys = skewed(3_000)
    by_hash = routed(Hash(), keys, 16, 1)
    strategy = PStream(f=0.05)
    state = strategy.start(16, 1)
    out = np.empty(1, np.int32)
    turns = []
    for i in range(keys.size):
        hot = contains(state.predictor.filter, keys[i])
        strategy.route(keys[i : i + 1], state, out)
        if hot:
            turns.append(int(out[0]))
        else:
            assert out[0] == by_hash[i]
    assert 100 < len(turns) < keys.size - 100
    assert (np.diff(turns) % 16 == 1).all()


@needs_a_long_stream
@pytest.mark.parametrize("z", [1.0, 1.4, 2.0])
def test_it_lies_between_hash_and_shuffle(z):
    n_workers, keys = 16, skewed(200_000, z=z, n_keys=10_000)
    by_hash, found = (routed(s, keys, n_workers, 2) for s in (Hash(), PStream()))
    # A fraction of the imbalance of hashing, as in the paper's figures; a third leaves room.
    assert imbalance(found, n_workers) < imbalance(by_hash, n_workers) / 3
    replicas = sum(map(len, workers_by_key(keys, found).values()))
    shuffled = sum(map(len, workers_by_key(keys, np.arange(keys.size) % n_workers).values()))
    n_keys = np.unique(keys).size
    assert n_keys < replicas
    assert replicas - n_keys < (shuffled - n_keys) / 2


def states_of_sources(strategy, keys, n_sources, n_workers=8, seed=4):
    states = []
    for source in range(n_sources):
        state = strategy.start(n_workers, seed, source=source)
        share = np.ascontiguousarray(keys[source::n_sources])
        strategy.route(share, state, np.empty(share.size, np.int32))
        states.append(state)
    return states


def test_a_full_synopsis_keeps_the_strongest_when_merged():
    strategy = PStream(f=1.0)
    states = [strategy.start(4, 1, source=source) for source in range(2)]
    capacity = states[0].predictor.synopsis.keys.size
    for source, state in enumerate(states):
        synopsis = state.predictor.synopsis
        synopsis.keys[:] = np.arange(capacity) + source * capacity
        synopsis.vectors[:] = synopsis.fresh[:] = 1 + 2 * source
        synopsis.counters[0]["size"] = capacity
    merged = strategy.merge(states)
    assert set(vectors(merged.predictor.synopsis)) == set(range(capacity, 2 * capacity))


def test_sources_that_merge_find_hot_keys_sooner_than_those_that_do_not():
    n_sources, keys = 8, skewed(16_000, z=1.0)
    strategy = PStream(f=0.02)
    alone = states_of_sources(strategy, keys, n_sources)
    together = [strategy.start(8, 4, source=source) for source in range(n_sources)]
    for piece in np.array_split(keys, 20):
        for source, state in enumerate(together):
            share = np.ascontiguousarray(piece[source::n_sources])
            strategy.route(share, state, np.empty(share.size, np.int32))
        merged = strategy.merge(together)
        together = [strategy.fork(merged, own, source) for source, own in enumerate(together)]
    truly = {key for key, n in Counter(keys.tolist()).items() if n > 0.03 * keys.size}
    found_alone = np.mean([len(truly & hot_keys(state.predictor)) for state in alone])
    found_together = len(truly & hot_keys(together[0].predictor))
    assert found_together > found_alone


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("f", 0.0),
        ("f", 1.1),
        ("f", np.nan),
        ("least_f", 1e-7),
        ("length", 1),
        ("length", 33),
        ("time_weight", -0.1),
        ("time_weight", 1.1),
        ("interval", 0.0),
        ("interval", np.inf),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameter, value):
    with pytest.raises(ValueError, match=f"pstream: {parameter} must be"):
        PStream(**{parameter: value})


def test_a_fixed_threshold_has_no_least_one():
    with pytest.raises(ValueError, match="least_f must be None when f is given"):
        PStream(f=0.1, least_f=0.05)


@pytest.mark.parametrize("parameters", [{}, {"f": 0.05}, {"until_evicted": True, "bounded": False}])
@pytest.mark.parametrize("n_after", [4, 12, 24])
def test_hot_keys_stay_hot_when_workers_join_or_leave(parameters, n_after):
    strategy = PStream(**parameters)
    keys = skewed(20_000)
    state = strategy.start(12, 3)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    rescaled = strategy.rescale(state, n_after)
    hot = hot_keys(state.predictor)
    assert hot
    assert hot_keys(rescaled.predictor) == hot
    assert all(contains(rescaled.predictor.filter, np.uint64(key)) for key in hot)
