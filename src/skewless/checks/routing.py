"""What must be true of the routing of every strategy, with weights and without."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.plumbing import new_process
from skewless.state import copy_state, named_arrays, with_arrays
from skewless.strategy import AnyStrategy, Report, Weighs


class Stream(NamedTuple):
    """Keys in order, to be routed to this many workers."""

    name: str
    keys: Keys
    n_workers: int
    seed: int


def _skewed(n_records: int, n_keys: int, seed: int) -> Keys:
    """Return keys of which the first few carry most records."""
    uniform = np.random.default_rng(seed).random(n_records)
    return (n_keys**uniform).astype(np.uint64)  # log-uniform: Pr[key = k] ∝ about 1/k


def _streams() -> tuple[Stream, ...]:
    one_key = np.full(500, 7, np.uint64)
    distinct = np.arange(2_000, dtype=np.uint64)
    skewed = _skewed(3_000, 500, seed=1)
    return (
        Stream("nothing", np.zeros(0, np.uint64), 4, 1),
        Stream("a single record", np.array([0], np.uint64), 3, 1),
        Stream("one key", one_key, 5, 2),
        Stream("one worker", skewed[:500], 1, 3),
        Stream("more workers than records", skewed[:20], 64, 4),
        Stream("every key once", distinct, 16, 5),
        Stream("extreme hashes", np.array([0, 2**64 - 1, 2**63, 1] * 50, np.uint64), 7, 6),
        Stream("skewed", skewed, 16, 7),
        Stream("hot keys change", np.concatenate([skewed, np.uint64(501) - skewed]), 10, 8),
        Stream("a hot key appears", np.concatenate([distinct, one_key, distinct]), 12, 9),
        Stream("many workers", _skewed(3_000, 2_000, seed=2), 130, 10),
    )


#: Short streams that have broken strategies before.
STREAMS = _streams()
#: What `out` holds before routing.
UNFILLED = -1


def routed(strategy: Any, keys: Keys, state: Any, weights: Floats | None = None) -> Workers:
    """Return the workers of `keys`; what the strategy leaves out stays −1."""
    out = np.full(keys.size, UNFILLED, np.int32)
    if weights is None:
        strategy.route(keys, state, out)
    else:
        strategy.route_weighted(keys, weights, state, out)
    return out


def shapes(state: Any) -> dict[str, tuple[Any, ...]]:
    """Return the types and shapes of the state's arrays, by name."""
    return {name: (array.dtype, array.shape) for name, array in named_arrays(state)}


def expect_shapes(before: dict[str, tuple[Any, ...]], state: Any) -> None:
    """Fail unless the arrays of `state` have the same types and shapes as before."""
    after = shapes(state)
    assert before == after, f"arrays change: {before.items() ^ after.items()}"


def expect_equal_states(one: Any, other: Any, what: str) -> None:
    """Fail with the first array that differs, to the bit."""
    for (name, now), (_, then) in zip(named_arrays(one), named_arrays(other), strict=True):
        same = now.dtype == then.dtype and now.tobytes() == then.tobytes()
        assert same, f"{what}: {name} differs"


def owners_of(strategy: AnyStrategy, keys: Keys, state: Any) -> Workers:
    """Return where keys would go next, without the state learning from it."""
    return routed(strategy, keys, copy_state(state))


def report_of(keys: Keys) -> Report:
    """Return the report of a window that names every key; a state is as large as its load."""
    known, counts = np.unique(keys, return_counts=True)
    return Report(known, counts.astype(np.float64), counts.astype(np.float64))


def expect_same(got: Workers, expected: Workers, what: str) -> None:
    """Fail with the first record that differs."""
    if not np.array_equal(got, expected):
        i = int(np.flatnonzero(got != expected)[0])
        raise AssertionError(f"{what}: record {i} goes to {got[i]} instead of {expected[i]}")


def expect_in_range(out: Workers, n_workers: int, how: str) -> None:
    """Fail with the first record that has no worker, or one that does not exist."""
    for i in np.flatnonzero((out < 0) | (out >= n_workers))[:1]:
        what = "gets no worker" if out[i] == UNFILLED else f"goes to worker {out[i]}"
        raise AssertionError(f"{how}: record {i} of {out.size} {what}")


def every_record_gets_a_worker(strategy: AnyStrategy, stream: Stream) -> None:
    """One worker in 0 … n − 1 per record."""
    out = routed(strategy, stream.keys, strategy.start(stream.n_workers, stream.seed))
    expect_in_range(out, stream.n_workers, "by `route`")


def keys_are_not_changed(
    strategy: AnyStrategy, stream: Stream, weights: Floats | None = None
) -> None:
    """Routing reads the keys, and the weights if there are any, and nothing more."""
    keys, costs = stream.keys.copy(), None if weights is None else weights.copy()
    expected = routed(strategy, keys, strategy.start(stream.n_workers, stream.seed), costs)
    assert np.array_equal(keys, stream.keys), "routing writes into the keys"
    keys.flags.writeable = False
    if weights is not None and costs is not None:
        assert np.array_equal(costs, weights), "route_weighted writes into the weights"
        costs.flags.writeable = False
    try:
        found = routed(strategy, keys, strategy.start(stream.n_workers, stream.seed), costs)
    except ValueError as error:
        raise AssertionError(f"read-only arrays cannot be routed: {error}") from error
    expect_same(found, expected, "read-only arrays are routed differently from writable ones")


def same_seed_same_routing(strategy: AnyStrategy, stream: Stream) -> None:
    """Two sources with the same seed and number route alike."""
    expect_same(
        routed(strategy, stream.keys, strategy.start(stream.n_workers, stream.seed)),
        routed(strategy, stream.keys, strategy.start(stream.n_workers, stream.seed)),
        "a second start with the same seed routes differently",
    )


def earlier_records_ignore_later_ones(strategy: AnyStrategy, stream: Stream) -> None:
    """What a call decided stays decided, whatever is routed afterwards.

    For strategies that decide record by record this also holds inside one call.
    """
    half = stream.keys.size // 2
    state = strategy.start(stream.n_workers, stream.seed)
    alone = routed(strategy, stream.keys[:half], state)
    if strategy.traits.decides == "record":
        whole = routed(strategy, stream.keys, strategy.start(stream.n_workers, stream.seed))
        expect_same(whole[:half], alone, "a prefix is routed differently when more follows")
    else:
        before = alone.copy()
        routed(strategy, stream.keys[half:], state)
        expect_same(alone, before, "routing a second batch changes the first")


def cuts(n_records: int) -> Iterator[tuple[tuple[int, ...], list[slice]]]:
    """Yield ways to cut a stream into batches: the sizes, which repeat, and the batches."""
    for sizes in ((1, 2, 0, 5, 3), (64, 1, 100), (n_records // 3 + 1,)):
        pieces: list[slice] = []
        begin = 0
        while begin < n_records:
            end = begin + sizes[len(pieces) % len(sizes)]
            pieces.append(slice(begin, end))
            begin = end
        yield sizes, pieces


def batching_is_invisible(
    strategy: AnyStrategy, stream: Stream, weights: Floats | None = None
) -> None:
    """Cutting the stream into batches, including empty and single ones, changes nothing."""
    whole = routed(strategy, stream.keys, strategy.start(stream.n_workers, stream.seed), weights)
    for sizes, pieces in cuts(stream.keys.size):
        state = strategy.start(stream.n_workers, stream.seed)
        outs = [
            routed(strategy, stream.keys[cut], state, None if weights is None else weights[cut])
            for cut in pieces
        ]
        out = np.concatenate([np.empty(0, np.int32), *outs])
        expect_same(out, whole, f"cut into batches of {sizes}")


def state_is_bounded_arrays(strategy: AnyStrategy, stream: Stream) -> None:
    """The state is arrays, and as large at the end as at the start."""
    state = strategy.start(stream.n_workers, stream.seed)
    before = shapes(state)
    routed(strategy, stream.keys, state)
    expect_shapes(before, state)


def restored_state_continues(strategy: AnyStrategy, stream: Stream) -> None:
    """A state that went through a file, or another process, continues where it was."""
    half = stream.keys.size // 2
    state = strategy.start(stream.n_workers, stream.seed)
    routed(strategy, stream.keys[:half], state)
    arrays = {name: array.copy() for name, array in named_arrays(state)}
    fresh = strategy.start(stream.n_workers, stream.seed + 1)
    copies = {
        "copied": copy_state(state),
        "pickled": pickle.loads(pickle.dumps(state)),
        "written and read": with_arrays(fresh, arrays),
    }
    expected = routed(strategy, stream.keys[half:], state)
    for how, copy in copies.items():
        expect_same(routed(strategy, stream.keys[half:], copy), expected, f"{how} state")


def loads_are_conserved(strategy: AnyStrategy, stream: Stream) -> None:
    """A state that keeps `loads` has counted every record where it went."""
    state = strategy.start(stream.n_workers, stream.seed)
    out = routed(strategy, stream.keys, state)
    if "loads" not in state._fields:
        return
    counted = np.bincount(out, minlength=stream.n_workers)
    for worker in np.flatnonzero(counted != state.loads)[:1]:
        raise AssertionError(
            f"worker {worker} got {counted[worker]} records, loads says {state.loads[worker]}"
        )


def fan_out_is_kept(strategy: AnyStrategy, stream: Stream, weights: Floats | None = None) -> None:
    """No key has more workers than the traits say, over all sources."""
    limit = strategy.traits.fan_out
    assert limit is not None
    n_sources = 3
    workers_of: dict[int, set[int]] = {}
    for source in range(n_sources):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        keys = np.ascontiguousarray(stream.keys[source::n_sources])
        costs = None if weights is None else np.ascontiguousarray(weights[source::n_sources])
        for key, worker in zip(keys, routed(strategy, keys, state, costs), strict=True):
            workers_of.setdefault(int(key), set()).add(int(worker))
    for key, workers in workers_of.items():
        assert len(workers) <= limit, (
            f"key {key} has {len(workers)} workers, the traits allow {limit}"
        )


def moving_family_moves_only_by_moves(strategy: AnyStrategy, stream: Stream) -> None:
    """Without a rebalance, a key of the moving family has one worker, for all sources."""
    owner: dict[int, int] = {}
    for source in range(2):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        for key, worker in zip(stream.keys, routed(strategy, stream.keys, state), strict=True):
            first = owner.setdefault(int(key), int(worker))
            assert worker == first, f"key {key} is on workers {first} and {worker}"


# 0, a number without an exact binary form, 1, and a weight that alone fills a worker.
_SOME = (0.0, 0.1, 1.0, 2.0, 3.7, 50.0)


def some_weights(stream: Stream) -> Floats:
    """Return a weight for each record of the stream; records of one key differ in theirs."""
    return np.asarray(np.random.default_rng(stream.seed).choice(_SOME, stream.keys.size))


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


_RECORDS = 700  # of each stream: without compilation a record takes a hundred microseconds


def routing_digest(strategy: AnyStrategy, n_records: int | None = _RECORDS) -> str:
    """Return a digest of the workers of the first records of every stream; None: of all records."""
    digest = hashlib.sha256()
    for source, stream in enumerate(STREAMS):
        state = strategy.start(stream.n_workers, stream.seed, source=source)
        part = stream._replace(keys=stream.keys[:n_records])
        digest.update(routed(strategy, part.keys, state).tobytes())
        if isinstance(strategy, Weighs):
            digest.update(routed(strategy, part.keys, state, some_weights(part)).tobytes())
    return digest.hexdigest()


def routing_digests(strategies: Sequence[AnyStrategy]) -> list[str]:
    """Return the digest of each strategy; `elsewhere` shows that a process changes nothing."""
    return [routing_digest(strategy) for strategy in strategies]


#: A module that is run by -m would find the working folder first.
_CHECKS = "import runpy; runpy.run_module('skewless.checks', run_name='__main__')"


def elsewhere(task: Callable[..., Iterable[str]], *arguments: Any, jit: bool) -> list[str]:
    """Return the lines that `task` gives in a new process, with compilation on or off."""
    done = subprocess.run(
        new_process.python(_CHECKS),
        input=pickle.dumps((task, arguments)),
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if jit else "1"},
        stdout=subprocess.PIPE,
        check=False,
    )
    found = done.stdout.decode().splitlines()
    if done.returncode != 0:  # by a signal: it used foreign memory
        found.append(f"the process ended with {done.returncode}")
    return found
