"""The contract: what every strategy is, and what some can do besides.

A strategy is parameters plus pure functions over arrays. It never sees rows, clocks, files or
engines. It must have a `name`, its `traits`, `start` and `route`. The Protocols further down are
optional: a strategy has the ability as soon as it has the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Keys, Workers

S = TypeVar("S")
S_in = TypeVar("S_in", contravariant=True)  # where a state is only taken, never given


@dataclass(frozen=True)
class Traits:
    """What is true of a strategy with its parameters; decides which checks it must pass.

    Parameters
    ----------
    family
        `"splitting"`: a key may live on several workers at once, partial results are merged by
        key afterwards. `"moving"`: a key lives on one worker at a time, for all sources; it
        changes worker only by the moves that `rebalance` or `rescale` name.
    fan_out
        The most workers that one key ever has while the number of workers stays the same; None
        when there is no such limit but n.
    decides
        `"record"`: each record is decided from what came before it, so cutting the stream into
        batches changes nothing. `"batch"`: one call of `route` decides for its whole batch.
    gathers
        On Spark, all records of a task in a micro-batch are one batch for `route`: they are
        collected first. Otherwise each Arrow batch is one.
    minimal_rescale
        When workers join, keys move only to them; when workers leave, only their keys move.
    moves_unnamed
        A rebalance moves whole ranges of hashes: also keys that neither the report nor its moves
        name. Where this is False, every key that changes worker is named.
    any_may_leave
        A worker whose capacity is 0 in `rescale` leaves, whichever it is. Without this, only the
        last workers can leave, and `rescale` refuses a capacity of 0.
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
        `source` sets apart only what must differ between them, such as where a round begins.

        All arrays have their final size here: that is the bound on what the strategy remembers. A
        field called `loads`, if there is one, holds the records sent to each worker so far.

        A state, or a part of it, may have a method `check(fresh)`: it refuses what cannot have
        come from `fresh`, a state of this method, when a state is read from a file.
        """

    def route(self, keys: Keys, state: S, out: Workers) -> None:
        """Fill `out` with the worker of each record, and let `state` learn from them.

        A pure function of its arguments: same state and keys, same workers and new state, on any
        machine and on any retry.
        """


class Report(NamedTuple):
    """What was observed during one window, by key: the input of `rebalance`.

    A report may leave light keys out. `rest` then holds the load that no key of the report
    accounts for, by the worker that had it: the load of a worker is that of its keys and its rest.
    A rest cannot be moved. A key that the report leaves out is not a key without load.
    """

    keys: Keys  # distinct, ascending
    loads: Floats  # what the records of the key cost in this window
    state_sizes: Floats  # what the key's state weighs, should it move
    rest: Floats | None = None  # by worker; None: the keys account for everything
    #: How far chance alone takes the load of a worker from its mean: a standard deviation, as a
    #: part of the mean. 0: nothing is known of chance.
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
        raise ValueError(f"rest of a report must be one number per worker, {n_workers} in all")
    return report.rest


class Moves(NamedTuple):
    """Keys that change worker, and with them their state."""

    keys: Keys
    origins: Workers
    targets: Workers


def moves_between(keys: Keys, before: Workers, after: Workers) -> Moves:
    """Return the moves of `keys`, in their order, from one worker each to another.

    >>> old, new = np.array([0, 1], np.int32), np.array([0, 2], np.int32)
    >>> moves_between(np.array([7, 8], np.uint64), old, new).keys.tolist()
    [8]
    """
    changed = np.flatnonzero(before != after)
    return Moves(keys[changed], before[changed], after[changed])


@runtime_checkable
class Merges(Protocol[S]):
    """Several sources learn together: their states become one plan for all of them."""

    def merge(self, states: Sequence[S]) -> S:
        """Return the state that knows what all `states` know. It changes none of them."""


@runtime_checkable
class Condenses(Protocol[S]):
    """A merging strategy that can say in little what a merge needs to know of a state.

    The ledger then holds that instead of states, and sources continue with the merged state. So if
    the strategy forks as well, a source that has sent nothing since its message must get the merged
    state from `fork`.
    """

    def condense(self, state: S) -> Any:
        """Return what `merge_condensed` needs of `state`: arrays in a NamedTuple, all of them new.

        The arrays may be of any length. What follows from others, or is scratch, is left out.
        """

    def merge_condensed(self, parts: Sequence[Any], fresh: S) -> S:
        """Return what `merge` returns for the states that `parts` were condensed from.

        A merged state that is condensed, merged alone, is the same state again. `fresh` is a state
        for the same workers and the same seed, of which nothing is learned and nothing kept.
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
    """A merging strategy that keeps apart what it learns between its message and the answer."""

    def wait(self, state: S_in) -> None:
        """Note that a copy of `state` is on its way to the others."""


@runtime_checkable
class Forwards(Protocol[S_in]):
    """A splitting strategy that knows which results need no merging by key."""

    def forwards(self, keys: Keys, workers: Workers, state: S_in) -> NDArray[np.bool_]:
        """Return for records just routed whether, as far as `state` knows, theirs needs none."""


@runtime_checkable
class Hottest(Protocol[S_in]):
    """A strategy that treats hot keys in another way, and tells which they are."""

    def hot_keys(self, state: S_in) -> Keys:
        """Return the keys that are hot as far as `state` knows: distinct, ascending."""


@runtime_checkable
class Observes(Protocol[S_in]):
    """A strategy that compares how long workers are busy, so it can use measured times."""

    @property
    def wants_speeds(self) -> bool:
        """Whether it does so with these parameters."""

    def observe(self, state: S_in, *, seconds_per_record: Floats | None = None) -> None:
        """Tell `state` how long a record takes each worker, as it was measured."""


@runtime_checkable
class Infers(Protocol[S_in]):
    """A strategy that infers what its workers still have to do, without asking them."""

    def waiting(self, state: S_in) -> Floats:
        """Return the records of this source that wait for each worker, as far as it knows."""


@runtime_checkable
class Rebalances(Protocol[S]):
    """The moving family: a controller that changes where keys live between two windows."""

    def rebalance(self, report: Report, state: S) -> tuple[S, Moves]:
        """Return the state to route by from now on, and the keys that change worker by it."""


@runtime_checkable
class Begins(Protocol[S_in]):
    """A strategy that balances over intervals: only the whole of one counts, not its parts."""

    def begin(self, state: S_in, n_records: int) -> None:
        """Begin an interval in which this source expects this many records; 0 if it cannot know."""


@runtime_checkable
class Rescales(Protocol[S]):
    """Workers join, leave, or differ in speed."""

    def rescale(self, state: S, n_workers: int, capacities: Floats | None = None) -> S:
        """Return the state for `n_workers` workers of these relative speeds.

        Workers 0 … min(old, new) − 1 keep their numbers. What was learned is kept. None says
        nothing about speeds: all are equal, but for what the strategy has measured itself.

        A worker with a capacity of 0 leaves and keeps its number: it gets no records until another
        `rescale` gives it a capacity again, or None. So any worker can leave, not only the last.
        Strategies that cannot do that refuse it with a ValueError; see `Traits.any_may_leave`.
        """


@runtime_checkable
class RescalesKeys(Protocol[S]):
    """The moving family: a rescale that says which keys change worker by it.

    A ring or a hash has no list of keys. So the caller says which keys have state.
    """

    def rescale_keys(
        self, keys: Keys, state: S, n_workers: int, capacities: Floats | None = None
    ) -> tuple[S, Moves]:
        """Return what `rescale` returns, and which of `keys` change worker, in their order."""


@runtime_checkable
class Weighs(Protocol[S_in]):
    """Records differ in what they cost, and the strategy takes that into account.

    With weights of 1 all is as with `route`: the same workers, the same state. One state serves
    both, in any order. Weights of 0 are weights: those records get a worker too, and no number
    of the state stops being one. All that the traits say holds for weighted records as well.
    """

    def route_weighted(self, keys: Keys, weights: Floats, state: S_in, out: Workers) -> None:
        """Fill `out` with the worker of each record, where record i costs `weights[i]`.

        There is one weight per record, finite and at least 0. The caller checks that with
        `require_weights`, so that nothing needs to be tested for each record here.
        """


class WeightError(ValueError):
    """Records came with weights that cannot be what they cost."""


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
    """Raise ValueError if a worker is to leave by a capacity of 0, for strategies without that.

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
