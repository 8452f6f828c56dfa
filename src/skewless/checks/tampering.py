"""Untrusted states: what `restored` accepts must be safe to route by.

States are changed in every way that a file allows. A change that is accepted must not lead to an
exception, to a worker that does not exist, or to a loop without end. This is to be run without
compilation: compiled code would crash, or silently read foreign memory, where plain Python raises
an IndexError.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Keys
from skewless.checks.routing import Stream, elsewhere, expect_in_range, owners_of, report_of, routed
from skewless.kernels.hashing import GOLDEN
from skewless.state import Unsound, copy_state, named_arrays, restored
from skewless.strategy import AnyStrategy, Forks, Merges, Rebalances

Arrays = dict[str, NDArray[Any]]

_LONGEST_S = 20.0  # of one state; an honest one takes milliseconds
_N_WORKERS = (5, 1, 70)
_N_RECORDS = 160
_OTHER_TYPES = ("<i2", ">u8", "<f4", "|b1", "<c16", "<U3", "<M8[s]")


def honest_states(strategy: AnyStrategy, stream: Stream) -> Iterator[tuple[Any, Any]]:
    """Yield states that a ledger may hold, each with the one that `start` made for its source."""
    starts = [strategy.start(stream.n_workers, stream.seed, source=s) for s in range(2)]
    states = [copy_state(state) for state in starts]
    for source, state in enumerate(states):
        routed(strategy, np.ascontiguousarray(stream.keys[source::2]), state)
    yield from zip(states, starts, strict=True)
    if isinstance(strategy, Merges):
        merged = strategy.merge(states)
        yield merged, starts[1]
        forks = isinstance(strategy, Forks)
        own = strategy.fork(copy_state(merged), states[1], 1) if forks else copy_state(merged)  # type: ignore[attr-defined]
        routed(strategy, stream.keys, own)
        yield own, starts[1]
    if isinstance(strategy, Rebalances):
        yield strategy.rebalance(report_of(stream.keys), copy_state(starts[0]))[0], starts[0]


def saved_states_are_accepted(strategy: AnyStrategy, stream: Stream) -> None:
    """What a strategy saves can be read again, and routes as before."""
    for state, fresh in honest_states(strategy, stream):
        try:
            again = restored(fresh, dict(named_arrays(copy_state(state))))
        except Unsound as error:
            raise AssertionError(f"its own state is refused: {error}") from None
        here, there = (owners_of(strategy, stream.keys, s) for s in (state, again))
        assert np.array_equal(here, there), "a state that was read again routes differently"


def tampered(arrays: Arrays, rng: np.random.Generator) -> Arrays:
    """Return the arrays with one change, or a few, of any kind."""
    changed = {name: array.copy() for name, array in arrays.items()}
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        name = str(rng.choice(sorted(changed)))
        kind = int(rng.integers(0, 40))
        if kind == 0:
            del changed[name]
        elif kind == 1:
            changed[name + "x"] = changed[name]
        elif kind == 2:
            size = int(rng.integers(0, 3)) * changed[name].size
            changed[name] = np.resize(changed[name], size)
        elif kind == 3:
            changed[name] = changed[name].reshape(1, -1)
        elif kind == 4:
            other = np.dtype(str(rng.choice(_OTHER_TYPES)))
            changed[name] = np.zeros(changed[name].shape, other)
        else:
            _change_values(changed[name].reshape(-1), kind, rng)
        if not changed:
            break
    return changed


def _change_values(values: NDArray[Any], kind: int, rng: np.random.Generator) -> None:
    if not values.size or values.dtype.kind not in "iuf":
        return
    at = rng.integers(0, values.size, int(rng.choice([1, 1, 1, 3, values.size])))
    if kind < 10:
        values[at] = values[rng.integers(0, values.size, at.size)]
    elif kind < 14:
        rng.shuffle(values)
    elif kind < 20:
        values[at] += values.dtype.type(1) if kind < 17 else -values.dtype.type(1)
    else:
        values[at] = _extreme(values, rng)


def _extreme(values: NDArray[Any], rng: np.random.Generator) -> Any:
    """Return a value of this type that is likely to break something."""
    if values.dtype.kind == "f":
        odd = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, 1e200, -1e300, 5e-324, 0.5, 1e9)
        return rng.choice(odd)
    limits = np.iinfo(values.dtype)
    near = (values.size, values.size - 1, 2**20, 2**30, 2**31, 2**62, limits.max, limits.min)
    few = (-2, -1, 0, 1, 2, 3, 5, 6, 7, 31, 32, 33, 63, 64, 70)
    allowed = [value for value in (*near, *few) if limits.min <= value <= limits.max]
    return values.dtype.type(allowed[int(rng.integers(0, len(allowed)))])


def _survive_or_refuse(
    strategy: AnyStrategy, arrays: Arrays, fresh: Any, keys: Keys, n_workers: int
) -> None:
    """Raise if a state is accepted but cannot be used."""
    with _within_time():
        try:
            state = restored(fresh, arrays)
        except Unsound:
            return
        for part in (keys, keys[:0], keys[::-1].copy()):
            mine = copy_state(state)
            expect_in_range(routed(strategy, part, mine), n_workers, "by `route`")
            expect_in_range(routed(strategy, keys, mine), n_workers, "by `route`, once more")
        if isinstance(strategy, Merges):
            other = copy_state(fresh)
            routed(strategy, keys, other)
            merged = strategy.merge([other, copy_state(state)])
            expect_in_range(owners_of(strategy, keys, merged), n_workers, "after `merge`")
            if isinstance(strategy, Forks):
                for common, own in ((merged, other), (state, other), (merged, state)):
                    forked = strategy.fork(copy_state(common), copy_state(own), 1)
                    expect_in_range(routed(strategy, keys, forked), n_workers, "after `fork`")
        if isinstance(strategy, Rebalances):
            moved, _ = strategy.rebalance(report_of(keys), copy_state(state))
            expect_in_range(routed(strategy, keys, moved), n_workers, "after `rebalance`")


@contextlib.contextmanager
def _within_time() -> Iterator[None]:
    """Turn a loop without end into an error."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"no end within {_LONGEST_S:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stream_of(n_workers: int, seed: int) -> Stream:
    """Return a short stream with hot keys, which takes a strategy through most of its code."""
    rng = np.random.default_rng([n_workers, seed])
    keys = (rng.zipf(1.3, _N_RECORDS) % 90).astype(np.uint64) * GOLDEN
    return Stream("tampered with", keys, n_workers, seed)


def failures(strategy: AnyStrategy, n_states: int, seed: int) -> Iterator[str]:
    """Yield what went wrong with each of `n_states` tampered states that was accepted."""
    rng = np.random.default_rng([seed, *strategy.name.encode()])
    honest = []
    for n_workers in _N_WORKERS:
        stream = stream_of(n_workers, seed)
        honest += [(*pair, stream) for pair in honest_states(strategy, stream)]
    for number in range(n_states):
        state, fresh, stream = honest[number % len(honest)]
        arrays = dict(named_arrays(state))
        changed = tampered(arrays, rng)
        try:
            _survive_or_refuse(strategy, changed, fresh, stream.keys, stream.n_workers)
        except Exception as error:
            contents = {n: (array.dtype, array.tobytes()) for n, array in arrays.items()}
            names = [n for n, a in changed.items() if contents.get(n) != (a.dtype, a.tobytes())]
            what = f"{type(error).__name__}: {error}".replace("\n", " ")
            yield f"{strategy!r}, state {number} of {stream.n_workers} workers, {names}: {what}"


def _all_failures(strategies: Sequence[AnyStrategy], n_states: int, seed: int) -> Iterator[str]:
    for strategy in strategies:
        yield from failures(strategy, n_states, seed)


def failures_elsewhere(strategies: Sequence[AnyStrategy], n_states: int) -> list[str]:
    """List the failures that a new process finds in this many tampered states of each strategy."""
    return elsewhere(_all_failures, list(strategies), n_states, 0, jit=False)
