"""The contract: what every strategy must have, and what some can also do.

A strategy is parameters plus pure functions over arrays. It never sees rows, clocks, files or
engines. It must have a `name`, its `traits`, `start` and `route`. The Protocols further down are
optional: a strategy has an ability if it has the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Keys, Workers

S = TypeVar("S")
S_in = TypeVar("S_in", contravariant=True)  # a state that is an argument, never a result


@dataclass(frozen=True)
class Traits:
    """What is true of a strategy with its parameters; decides which checks it must pass.

    Parameters
    ----------
    family
        `"splitting"`: a key may be on several workers at once, and partial results are merged by
        key afterwards. `"moving"`: a key is on one worker at a time, for all sources. It changes
        worker only in a rebalance or a rescale.
    fan_out
        The most workers that one key can have while the number of workers stays the same. None:
        no limit below n.
    decides
        `"record"`: each record is decided from what came before it, so cutting the stream into
        batches changes nothing. `"batch"`: one call of `route` decides for its whole batch.
    gathers
        On Spark, the records of a task in a micro-batch are collected and form one batch for
        `route`. Otherwise each Arrow batch is one.
    minimal_rescale
        When workers join, keys move only to them; when workers leave, only their keys move.
    moves_unnamed
        A rebalance moves ranges of hashes, including keys that neither the report nor the moves
        name. If this is False, the moves name every key that changes worker.
    any_may_leave
        Any worker leaves if its capacity in `rescale` is 0. Without this, only the last workers
        can leave, and `rescale` refuses a capacity of 0.
    """

    family: Literal["splitting", "moving"]
    fan_out: int | None = None
    decides: Literal["record", "batch"] = "record"
    gathers: bool = False
    minimal_rescale: bool = False
    moves_unnamed: bool = False
    any_may_leave: bool = False


class Strategy(Protocol[S]):
    """Decides which worker gets each record.

    Write it as a frozen dataclass: its fields are the parameters, and `__post_init__` refuses bad
    ones with a `ValueError` that names the parameter, its value and what is allowed.
    """

    #: The published short name, by which the registry and the command line know it.
    name: ClassVar[str]

    @property
    def traits(self) -> Traits:
        """What is true of this strategy with these parameters."""

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> S:
        """Return the state of one source that has seen nothing.

        All sources of a run get the same `seed`, hence the same candidates for the same key.
        `source` changes only what must differ between sources, such as where a round begins.

        All arrays have their final size here: that is the bound on what the strategy remembers. A
        field called `loads`, if there is one, holds the records sent to each worker so far.

        A state, or a part of it, may have a method `check(fresh)`, where `fresh` is what this
        method returns. It is called on a state read from a file, and raises if no stream leads
        from `fresh` to that state.
        """

    def route(self, keys: Keys, state: S, out: Workers) -> None:
        """Fill `out` with the worker of each record, and update `state`.

        A pure function of its arguments: the same state and keys give the same workers and the
        same new state, on any machine and on any retry.
        """


class Report(NamedTuple):
    """What was observed during one window, by key: the input of `rebalance`.

    A report may leave light keys out. `rest` then holds, by worker, the load of the keys that are
    left out: the load of a worker is the load of its keys plus its rest. A rest cannot be moved. A
    key that is left out may still have load.
    """

    keys: Keys  # distinct, ascending
    loads: Floats  # the cost of the key's records in this window
    state_sizes: Floats  # the cost of moving the key's state
    rest: Floats | None = None  # by worker; None: the keys account for everything
    #: The standard deviation of a worker's load that chance alone explains, as a fraction of the
    #: mean load. 0: not known.
    noise: float = 0.0


def rest_by_worker(report: Report, n_workers: int) -> Floats:
    """Return the load of each worker that no key of the report accounts for.

    >>> none = np.empty(0)
    >>> rest_by_worker(Report(np.empty(0, np.uint64), none, none), 3).tolist()
    [0.0, 0.0, 0.0]
    """
    if report.rest is None:
        return np.zeros(n_workers)
    if report.rest.shape != (n_workers,):
        raise ValueError(
            f"rest of a report must be one number per worker, {n_workers} in all, "
            f"not {report.rest.size}"
        )
    return report.rest


class Moves(NamedTuple):
    """Keys that change worker; their state moves with them."""

    keys: Keys
    origins: Workers
    targets: Workers


def moves_between(keys: Keys, before: Workers, after: Workers) -> Moves:
    """Return the moves of those `keys` whose worker changes, in the order of `keys`.

    >>> old, new = np.array([0, 1], np.int32), np.array([0, 2], np.int32)
    >>> moves_between(np.array([7, 8], np.uint64), old, new).keys.tolist()
    [8]
    """
    changed = np.flatnonzero(before != after)
    return Moves(keys[changed], before[changed], after[changed])


@runtime_checkable
class Merges(Protocol[S]):
    """A strategy whose sources learn together: their states are merged into one plan for all."""

    def merge(self, states: Sequence[S]) -> S:
        """Return one state with what all `states` have learned. `states` stay unchanged."""


@runtime_checkable
class Condenses(Protocol[S]):
    """A merging strategy that can reduce a state to what a merge needs.

    The ledger then holds condensed states, and sources continue with the merged state. So if the
    strategy also forks, `fork` must return the merged state to a source that has sent nothing since
    its message.
    """

    def condense(self, state: S) -> Any:
        """Build a NamedTuple of new arrays: the part of `state` that `merge_condensed` needs.

        The arrays may be of any length. Scratch, and what follows from other arrays, is left out.
        """

    def merge_condensed(self, parts: Sequence[Any], fresh: S) -> S:
        """Build the state that `merge` returns for the states that `parts` were condensed from.

        Condensing a merged state and merging it alone gives the same state again. `fresh` is a
        state for the same workers and the same seed. The result contains nothing that `fresh` has
        learned, and none of its arrays.
        """


@runtime_checkable
class Forks(Protocol[S]):
    """A merging strategy whose sources keep something of their own after a merge.

    Without this, each source continues with a copy of the merged state.
    """

    def fork(self, merged: S, own: S, source: int) -> S:
        """Return the state with which `source`, now at `own`, continues after a merge."""


@runtime_checkable
class Waits(Protocol[S_in]):
    """A merging strategy that keeps apart what a source learns between its message and a merge."""

    def wait(self, state: S_in) -> None:
        """Note that a copy of `state` has been sent to be merged."""


@runtime_checkable
class Forwards(Protocol[S_in]):
    """A splitting strategy that can say which results need no merging by key."""

    def forwards(self, keys: Keys, workers: Workers, state: S_in) -> NDArray[np.bool_]:
        """Return for each record just routed whether, by `state`, its result needs no merging."""


@runtime_checkable
class Hottest(Protocol[S_in]):
    """A strategy that treats hot keys differently and can list them."""

    def hot_keys(self, state: S_in) -> Keys:
        """Return the keys that are hot by `state`: distinct, ascending."""


@runtime_checkable
class Observes(Protocol[S_in]):
    """A strategy that compares how long workers are busy, so it can use measured times."""

    @property
    def wants_speeds(self) -> bool:
        """Whether it uses measured times with these parameters."""

    def observe(self, state: S_in, *, seconds_per_record: Floats | None = None) -> None:
        """Store the measured seconds per record of each worker in `state`."""


@runtime_checkable
class Infers(Protocol[S_in]):
    """A strategy that infers the backlog of its workers, without messages from them."""

    def waiting(self, state: S_in) -> Floats:
        """Return, per worker, the inferred number of records of this source that still wait."""


@runtime_checkable
class Rebalances(Protocol[S]):
    """The moving family: a controller that changes the workers of keys between two windows."""

    def rebalance(self, report: Report, state: S) -> tuple[S, Moves]:
        """Return the state to route by from now on, and the moves that lead to it."""


@runtime_checkable
class Begins(Protocol[S_in]):
    """A strategy that balances each interval as a whole, not every part of it."""

    def begin(self, state: S_in, n_records: int) -> None:
        """Begin an interval in which this source expects this many records; 0 if not known."""


@runtime_checkable
class Rescales(Protocol[S]):
    """Workers join, leave, or differ in speed."""

    def rescale(self, state: S, n_workers: int, capacities: Floats | None = None) -> S:
        """Return the state for `n_workers` workers of these relative speeds.

        Workers 0 … min(old, new) − 1 keep their numbers. What was learned is kept. With None, all
        speeds are equal, except for what the strategy has measured itself.

        A worker with a capacity of 0 leaves and keeps its number: it gets no records until another
        `rescale` gives it a capacity again, or None. So any worker can leave, not only the last.
        Strategies that cannot do that refuse it with a ValueError; see `Traits.any_may_leave`.
        """


@runtime_checkable
class RescalesKeys(Protocol[S]):
    """The moving family: a rescale that returns the keys that change worker.

    A ring or a hash has no list of keys. So the caller passes the keys that have state.
    """

    def rescale_keys(
        self, keys: Keys, state: S, n_workers: int, capacities: Floats | None = None
    ) -> tuple[S, Moves]:
        """Return the state of `rescale`, and which of `keys` change worker, in their order."""


@runtime_checkable
class Weighs(Protocol[S_in]):
    """A strategy that takes into account that records differ in cost.

    With weights of 1, workers and state are the same as with `route`. One state serves both
    methods, in any order. A record of weight 0 gets a worker too, and no number of the state
    becomes NaN. The traits hold for weighted records as well.
    """

    def route_weighted(self, keys: Keys, weights: Floats, state: S_in, out: Workers) -> None:
        """Fill `out` with the worker of each record, where record i costs `weights[i]`.

        There is one weight per record, finite and at least 0. The caller checks that with
        `require_weights`, so this method does not check each record.
        """


class WeightError(ValueError):
    """The weights of records are negative, not finite, or not one per record."""


def require_weights(weights: Floats, n_records: int, *, first: int = 0) -> None:
    """Raise a `WeightError` unless there is one weight per record, finite and at least 0.

    `first` is the number of the first of these records, for the message.

    >>> require_weights(np.array([1.0, -2.0]), 2)
    Traceback (most recent call last):
        ...
    skewless.strategy.WeightError: weights must be finite and at least 0; that of record 1 is -2.0
    """
    if weights.shape != (n_records,):
        raise WeightError(f"weights must be one per record: {n_records}, not {weights.size}")
    if n_records and not 0.0 <= weights.min() <= weights.max() < np.inf:  # false for NaN too
        i = int(np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))[0])
        raise WeightError(
            f"weights must be finite and at least 0; that of record {first + i} is {weights[i]}"
        )


def require_all_stay(name: str, capacities: Floats | None) -> None:
    """Raise ValueError if a capacity is 0, for strategies without `Traits.any_may_leave`.

    >>> require_all_stay("cascade", np.array([1.0, 0.0]))
    Traceback (most recent call last):
        ...
    ValueError: cascade: capacities must be above 0; only its last workers can leave, not worker 1
    """
    for worker in [] if capacities is None else np.flatnonzero(np.asarray(capacities) == 0)[:1]:
        raise ValueError(
            f"{name}: capacities must be above 0; only its last workers can leave, not worker "
            f"{worker}"
        )


AnyStrategy = Strategy[Any]
