"""What must be true of strategies that weigh records."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Floats
from skewless.checks.routing import (
    Stream,
    batching_is_invisible,
    expect_equal_states,
    expect_in_range,
    expect_same,
    expect_shapes,
    fan_out_is_kept,
    keys_are_not_changed,
    routed,
    shapes,
)
from skewless.state import copy_state, named_arrays

# 0, a number without an exact binary form, 1, and a weight that alone fills a worker.
_SOME = (0.0, 0.1, 1.0, 2.0, 3.7, 50.0)


def some_weights(stream: Stream) -> Floats:
    """Return a weight for each record of the stream; records of one key differ in theirs."""
    rng = np.random.default_rng(stream.seed)
    weights: Floats = rng.choice(_SOME, stream.keys.size)
    return weights


def every_weighted_record_gets_a_worker(strategy: Any, stream: Stream) -> None:
    """One worker in 0 … n − 1 per record, whatever the records weigh."""
    n_records = stream.keys.size
    for how, weights in (
        ("some weights", some_weights(stream)),
        ("weights of 0", np.zeros(n_records)),
        ("one heavy record", np.where(np.arange(n_records) == n_records // 2, 1e6, 1.0)),
    ):
        state = strategy.start(stream.n_workers, stream.seed)
        expect_in_range(routed(strategy, stream.keys, state, weights), stream.n_workers, how)


def weights_of_one_change_nothing(strategy: Any, stream: Stream) -> None:
    """Where every record weighs 1, workers and state are those of `route`."""
    plain = strategy.start(stream.n_workers, stream.seed)
    state = strategy.start(stream.n_workers, stream.seed)
    expect_same(
        routed(strategy, stream.keys, state, np.ones(stream.keys.size)),
        routed(strategy, stream.keys, plain),
        "with weights of 1",
    )
    expect_equal_states(state, plain, "with weights of 1")


def weights_are_not_changed(strategy: Any, stream: Stream) -> None:
    """Routing reads keys and weights and nothing more."""
    keys_are_not_changed(strategy, stream, some_weights(stream))


def weighted_batching_is_invisible(strategy: Any, stream: Stream) -> None:
    """Cutting a weighted stream into batches, including empty and single ones, changes nothing."""
    batching_is_invisible(strategy, stream, some_weights(stream))


def weights_of_zero_keep_the_state_finite(strategy: Any, stream: Stream) -> None:
    """Records of weight 0 cause no NaN, and no infinity unless the state has one from the start."""
    fresh = strategy.start(stream.n_workers, stream.seed)
    floats = [array for _, array in named_arrays(fresh) if array.dtype.kind == "f"]
    knows_infinity = any(np.isinf(array).any() for array in floats)  # "no limit" is a number then
    half = np.arange(stream.keys.size) < stream.keys.size // 2
    for how, weights in (
        ("all weights 0", np.zeros(stream.keys.size)),
        ("weights 0, then 1", np.where(half, 0.0, 1.0)),
        ("weights 1, then 0", np.where(half, 1.0, 0.0)),
    ):
        state = copy_state(fresh)
        routed(strategy, stream.keys, state, weights)
        for name, array in named_arrays(state):
            if array.dtype.kind == "f":
                sound = ~np.isnan(array) if knows_infinity else np.isfinite(array)
                assert sound.all(), f"{how}: {name} has {array[~sound].flat[0]}"


def weighted_state_goes_on(strategy: Any, stream: Stream) -> None:
    """After a weighted stream the state has its size, and a copy continues, by `route` too."""
    state = strategy.start(stream.n_workers, stream.seed)
    before = shapes(state)
    weights = some_weights(stream)
    routed(strategy, stream.keys, state, weights)
    expect_shapes(before, state)
    copy = copy_state(state)
    plain = routed(strategy, stream.keys, state)
    expect_in_range(plain, stream.n_workers, "route after route_weighted")
    expect_same(routed(strategy, stream.keys, copy), plain, "route by a copied weighted state")
    expect_same(
        routed(strategy, stream.keys, copy, weights),
        routed(strategy, stream.keys, state, weights),
        "route_weighted by a copied state",
    )


def weighted_fan_out_is_kept(strategy: Any, stream: Stream) -> None:
    """No key has more workers than the traits say, over all sources, whatever its records weigh."""
    fan_out_is_kept(strategy, stream, some_weights(stream))
