"""Streams for the tests of Cascade, and the comparison with its oracle."""

import numpy as np

from reference.cascade.cascade import CascadeReference
from skewless.strategies.cascade import Cascade
from skewless.strategies.cascade.heavy_keys import n_places
from strategies.streams import (
    as_keys,
    drifting,
    returning,
    skewed,
)

STREAMS = {
    "skewed": skewed(z=1.4),
    "uniform": skewed(z=0.0),
    "drifting": drifting(z=1.4),
    "returning": returning(z=1.2),
}


def assert_equal_to_the_oracle(keys, n_workers, seed, weights=None, **parameters):
    oracle = CascadeReference(n_workers, seed, **parameters)
    amounts = [1.0] * len(keys) if weights is None else weights.tolist()
    expected = [
        oracle.route_one(int(key), amount) for key, amount in zip(keys, amounts, strict=True)
    ]
    strategy = Cascade(**parameters)
    state = strategy.start(n_workers, seed)
    out = np.full(len(keys), -1, np.int32)
    if weights is None:
        strategy.route(as_keys(keys), state, out)
    else:
        strategy.route_weighted(as_keys(keys), weights, state, out)
    assert out.tolist() == expected
    # Not nearly, but to the last bit: both round in the same places.
    assert state.levels.tolist() == oracle.levels
    assert state.numbers[0]["level"] == oracle.level
    assert state.numbers[0]["scale"] == oracle.scale
    counts = state.heavy.counts[: n_places(state.heavy)]
    assert counts.tolist() == [place.count for place in oracle.places()]
    assert state.counters[0]["steps"] == oracle.steps
    return oracle


def started_and_routed(n_workers, keys=STREAMS["skewed"], strategy=Cascade(), seed=1):  # noqa: B008
    state = strategy.start(n_workers, seed)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    return state
