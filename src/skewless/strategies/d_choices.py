"""W-Choices and D-Choices: hot keys have all workers, or just enough; the others have two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skewless.arrays import I32, I64, U64, Floats, Ints, Keys, Rows, Words, Workers, read_only
from skewless.kernels.fewest_choices import fewest_choices
from skewless.kernels.hashing import nth_hash, seed_array, seeded, to_worker, two_workers
from skewless.kernels.least_loaded import floor_cursor, least_count, require_cursor, send_to_lighter
from skewless.kernels.sorting import sort_descending
from skewless.kernels.space_saving import Head, entries, head, is_hot, list_shares, offer
from skewless.parameters import check_types, require, require_head
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, require_within, within
from skewless.strategies.rescaling import HashedHomes
from skewless.strategy import Traits


@dataclass(frozen=True)
class _FindsHotKeys(HashedHomes):
    """What both share: a summary of this source's keys."""

    traits: ClassVar[Traits] = Traits(family="splitting", ignores_speeds=True)

    hot_factor: float = 0.2
    capacity: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        require_head(self)

    def _fields(self, n_workers: int, seed: int) -> dict[str, Any]:
        loads = np.zeros(n_workers, np.int64)
        return {
            "seed": seed_array(seed, 1),
            "loads": loads,
            "floor": floor_cursor(loads),
            "head": head(n_workers, self.hot_factor, self.capacity),
        }

    def _kept(self, state: Any, fresh: Any) -> dict[str, Any]:
        """Return the seed and the hot keys, the heaviest first: there may be less room now."""
        keys, counts, _ = entries(state.head.summary)
        for key, count in zip(keys, counts, strict=True):
            offer(fresh.head.summary, key, count)
        return super()._kept(state, fresh) | {"head": fresh.head}


@fixed("seed")
class WChoicesState(NamedTuple):
    """What this source has sent to each worker, and its hot keys."""

    seed: Words
    loads: Ints
    floor: Ints
    head: Head

    def check(self, fresh: WChoicesState) -> None:
        """Refuse a cursor that is out of range."""
        require_cursor(self.loads, self.floor)


@kernel
def _route_w(keys: Keys, state: WChoicesState, out: Workers) -> None:
    seed = state.seed[0]
    loads = state.loads
    for i in range(keys.size):
        if is_hot(state.head, keys[i]):
            worker = least_count(loads, state.floor)
            loads[worker] += 1
            out[i] = worker
        else:
            first, second = two_workers(seeded(keys[i], seed), loads.size)
            out[i] = send_to_lighter(loads, first, second)


@dataclass(frozen=True)
class WChoices(_FindsHotKeys):
    """Send hot keys to the least loaded of all workers, the others as `pkg` does.

    A key is hot when it has more than `hot_factor` / n of this source's records so far, by a
    SpaceSaving summary. So no key is too heavy for its workers, and the tail stays on two.

    **Guarantee**: a key whose share never exceeds `hot_factor` / n − 1 / `capacity` has at most
    two workers. With the default capacity this holds for no key; set a larger one to have it.

    Parameters
    ----------
    hot_factor
        A key is hot above this share of a worker's fair load: θ = `hot_factor` / n.
    capacity
        Keys that the summary holds; None means n / `hot_factor`, the fewest that can tell hot
        from cold. 100, as in public code, is too few for more than 20 workers.

    **Deviations from the paper**: the least loaded worker is found by a cursor instead of a scan
    (same worker, lowest index on a tie).

    Examples
    --------
    >>> out = np.empty(6, np.int32)
    >>> strategy = WChoices()
    >>> strategy.route(np.zeros(6, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()
    [0, 1, 2, 3, 0, 1]

    References
    ----------
    Nasir et al., "When two choices are not enough: balancing at scale in distributed stream
    processing", ICDE 2016.
    """

    name: ClassVar[str] = "w-choices"

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> WChoicesState:
        """Return the state of a source that has sent nothing."""
        return WChoicesState(**self._fields(n_workers, seed))

    def route(self, keys: Keys, state: WChoicesState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route_w(read_only(keys), state, out)


COUNTERS = np.dtype([("records", "i8"), ("next_refresh", "i8"), ("choices", "i8")])
SETTINGS = np.dtype([("epsilon", "f8"), ("refresh", "i8")])  # the most records between refreshes

_FIRST_REFRESH = 16


@fixed("seed", "settings")
@within(0, MOST_COUNTED, "counters")
class DChoicesState(NamedTuple):
    """What this source has sent to each worker, its hot keys, and d."""

    seed: Words
    loads: Ints
    floor: Ints
    head: Head
    shares: Floats  # scratch: shares of the hot keys
    counters: Rows  # [1]
    settings: Rows  # [1]

    def check(self, fresh: DChoicesState) -> None:
        """Refuse a cursor that is out of range, and too many choices."""
        require_cursor(self.loads, self.floor)
        require_within("counters", self.counters["choices"], 1, max(2, self.loads.size))


@kernel
def _refresh(state: DChoicesState) -> None:
    """Compute d again: at first whenever the records have doubled, later at equal distances."""
    counters, settings, shares = state.counters[0], state.settings[0], state.shares
    records = counters["records"]
    n_hot = list_shares(state.head.summary, state.head.threshold[0] * records, records, shares)
    sort_descending(shares, n_hot)
    counters["choices"] = fewest_choices(shares, n_hot, state.loads.size, settings["epsilon"])
    counters["next_refresh"] = records + min(records, settings["refresh"])


@kernel
def _least_of(hashed: U64, d: I64, loads: Ints) -> I32:
    """Return the least loaded of the key's first d candidates, the earliest on a tie."""
    best, second = two_workers(hashed, loads.size)
    if loads[second] < loads[best]:
        best = second
    for j in range(2, d):
        worker = to_worker(nth_hash(hashed, j), loads.size)
        if loads[worker] < loads[best]:
            best = worker
    return best


@kernel
def _route(keys: Keys, state: DChoicesState, out: Workers) -> None:
    seed = state.seed[0]
    loads = state.loads
    for i in range(keys.size):
        hot = is_hot(state.head, keys[i])
        state.counters[0]["records"] += 1
        if state.counters[0]["records"] >= state.counters[0]["next_refresh"]:
            _refresh(state)
        if hot and state.counters[0]["choices"] >= loads.size:
            worker = np.int32(least_count(loads, state.floor))
        else:
            choices = state.counters[0]["choices"] if hot else 2
            worker = _least_of(seeded(keys[i], seed), choices, loads)
        loads[worker] += 1
        out[i] = worker


@dataclass(frozen=True)
class DChoices(_FindsHotKeys):
    """Send each record to the least loaded of its key's candidates: d for hot keys, 2 for others.

    d is the fewest for which the hot keys fit: for every prefix of the hot keys, the load that
    lands on the workers they cover must not exceed those workers' share. It is computed from the
    frequencies in the SpaceSaving summary, and computed again as the stream continues.

    **Guarantee**: at most two workers for a key that is never hot (see `w-choices`). The shares
    of hot keys fit their expected candidates, up to `epsilon`.

    Parameters
    ----------
    hot_factor
        A key is hot above this share of a worker's fair load: θ = `hot_factor` / n.
    capacity
        Keys that the summary holds; None means n / `hot_factor`.
    epsilon
        The imbalance that the choice of d tolerates.
    refresh
        Records between two computations of d. At first d is computed after 16 records, then
        whenever their number has doubled.

    **Deviations from the paper**: all prefixes of the hot keys are tested (public code tests the
    first and the last). The paper does not say how often d is computed; see `refresh`. With d = n
    the least loaded of all workers is taken.

    Examples
    --------
    >>> out = np.empty(6, np.int32)
    >>> strategy = DChoices()
    >>> strategy.route(np.ones(6, np.uint64), strategy.start(8, seed=0), out)
    >>> out.tolist()
    [0, 4, 0, 4, 0, 4]

    References
    ----------
    Nasir et al., "When two choices are not enough: balancing at scale in distributed stream
    processing", ICDE 2016.
    """

    name: ClassVar[str] = "d-choices"

    epsilon: float = 1e-4
    refresh: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "epsilon", self.epsilon >= 0, "at least 0")
        require(self, "refresh", self.refresh >= 1, "at least 1")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> DChoicesState:
        """Return the state of a source that has sent nothing."""
        fields = self._fields(n_workers, seed)
        return DChoicesState(
            **fields,
            shares=np.zeros(fields["head"].summary.keys.size),
            counters=np.array([(0, _FIRST_REFRESH, min(2, n_workers))], COUNTERS),
            settings=np.array([(self.epsilon, self.refresh)], SETTINGS),
        )

    def route(self, keys: Keys, state: DChoicesState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)

    def _kept(self, state: DChoicesState, fresh: DChoicesState) -> dict[str, Any]:
        """Return the seed and the hot keys; d is computed with the next record."""
        counters = fresh.counters.copy()
        counters["records"] = state.counters["records"]
        counters["next_refresh"] = np.maximum(counters["next_refresh"], counters["records"])
        return super()._kept(state, fresh) | {"counters": counters}
