"""What must be true of strategies that weigh records."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.checks.routing import (
    UNFILLED,
    cuts,
    expect_fan_out,
    expect_in_range,
    expect_same,
    routed,
)
from skewless.checks.streams import Stream
from skewless.state import copy_state, named_arrays

# 0, a number without an exact binary form, 1, and a weight that alone fills a worker.
_SOME = (0.0, 0.1, 1.0, 2.0, 3.7, 50.0)


def some_weights(stream: Stream) -> Floats:
    """Return a weight for each record of the stream; records of one key differ in theirs."""
    rng = np.random.default_rng(stream.seed)
    weights: Floats = rng.choice(_SOME, stream.keys.size)
    return weights


def weighed(strategy: Any, keys: Keys, weights: Floats, state: Any) -> Workers:
    """Return the workers of weighted records; what the strategy leaves out stays −1."""
    out = np.full(keys.size, UNFILLED, np.int32)
    strategy.route_weighted(keys, weights, state, out)
    return out


def every_weighted_record_gets_a_worker(strategy: Any, stream: Stream) -> None:
    """One worker in 0 … n − 1 per record, whatever the records weigh."""
    n_records = stream.keys.size
    for how, weights in (
        ("some weights", some_weights(stream)),
        ("weights of 0", np.zeros(n_records)),
        ("one heavy record", np.where(np.arange(n_records) == n_records // 2, 1e6, 1.0)),
    ):
        state = strategy.start(stream.n_workers, stream.seed)
        expect_in_range(weighed(strategy, stream.keys, weights, state), stream.n_workers, how)


def weights_of_one_change_nothing(strategy: Any, stream: Stream) -> None:
    """Where every record weighs 1, workers and state are those of `route`."""
    plain = strategy.start(stream.n_workers, stream.seed)
    state = strategy.start(stream.n_workers, stream.seed)
    expect_same(
        weighed(strategy, stream.keys, np.ones(stream.keys.size), state),
        routed(strategy, stream.keys, plain),
        "with weights of 1",
    )
    for (name, got), (_, expected) in zip(named_arrays(state), named_arrays(plain), strict=True):
        assert np.array_equal(got, expected, equal_nan=got.dtype.kind == "f"), (
            f"with weights of 1, {name} of the state differs"
        )


def weights_are_not_changed(strategy: Any, stream: Stream) -> None:
    """Routing reads keys and weights and nothing more."""
    weights = some_weights(stream)
    arrays = {"keys": stream.keys.copy(), "weights": weights.copy()}
    writable = strategy.start(stream.n_workers, stream.seed)
    expected = weighed(strategy, arrays["keys"], arrays["weights"], writable)
    assert np.array_equal(arrays["keys"], stream.keys), "route_weighted writes into the keys"
    assert np.array_equal(arrays["weights"], weights), "route_weighted writes into the weights"
    for array in arrays.values():
        array.flags.writeable = False
    state = strategy.start(stream.n_workers, stream.seed)
    try:
        read_only = weighed(strategy, arrays["keys"], arrays["weights"], state)
    except ValueError as error:
        raise AssertionError(f"read-only weights cannot be routed by: {error}") from error
    expect_same(read_only, expected, "read-only weights are routed by differently")


def weighted_batching_is_invisible(strategy: Any, stream: Stream) -> None:
    """Cutting a weighted stream into batches, including empty and single ones, changes nothing."""
    weights = some_weights(stream)
    whole = weighed(strategy, stream.keys, weights, strategy.start(stream.n_workers, stream.seed))
    for sizes, pieces in cuts(stream.keys.size):
        state = strategy.start(stream.n_workers, stream.seed)
        outs = [weighed(strategy, stream.keys[cut], weights[cut], state) for cut in pieces]
        out = np.concatenate([np.empty(0, np.int32), *outs])
        expect_same(out, whole, f"cut into batches of {sizes}")


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
        weighed(strategy, stream.keys, weights, state)
        for name, array in named_arrays(state):
            if array.dtype.kind == "f":
                sound = ~np.isnan(array) if knows_infinity else np.isfinite(array)
                assert sound.all(), f"{how}: {name} has {array[~sound].flat[0]}"


def weighted_state_goes_on(strategy: Any, stream: Stream) -> None:
    """After a weighted stream the state has its size, and a copy continues, by `route` too."""
    state = strategy.start(stream.n_workers, stream.seed)
    before = {name: (array.dtype, array.shape) for name, array in named_arrays(state)}
    weights = some_weights(stream)
    weighed(strategy, stream.keys, weights, state)
    after = {name: (array.dtype, array.shape) for name, array in named_arrays(state)}
    assert before == after, f"arrays change: {before.items() ^ after.items()}"
    copy = copy_state(state)
    plain = routed(strategy, stream.keys, state)
    expect_in_range(plain, stream.n_workers, "route after route_weighted")
    expect_same(routed(strategy, stream.keys, copy), plain, "route by a copied weighted state")
    expect_same(
        weighed(strategy, stream.keys, weights, copy),
        weighed(strategy, stream.keys, weights, state),
        "route_weighted by a copied state",
    )


def weighted_fan_out_is_kept(strategy: Any, stream: Stream) -> None:
    """No key has more workers than the traits say, over all sources, whatever its records weigh."""
    weights = some_weights(stream)
    expect_fan_out(
        strategy,
        stream,
        lambda part, state: weighed(
            strategy,
            np.ascontiguousarray(stream.keys[part]),
            np.ascontiguousarray(weights[part]),
            state,
        ),
    )
