"""The contract: what every strategy must have, and what some can also do.

A strategy is parameters plus pure functions over arrays. It never sees rows, clocks, files or
engines. It must have a `name`, its `traits`, `start` and `route`. The Protocols further down are
optional: a strategy has an ability if it has the method. Six more methods are looked for by name:

- `begin(state, n_records)`: begin an interval of so many records, 0 if unknown, to be balanced.
- `observe(state, *, seconds_per_record)`, with the property `wants_speeds`: store measured times.
- `waiting(state)`: the inferred number of records of this source that wait, per worker.
- `forwards(keys, workers, state)`: for each record just routed, whether it needs no merging by key.
- `hot_keys(state)`: the keys that are hot, distinct and ascending.
- `homes(keys, state)`: the worker of each key while it is not split, the same for all sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from skewless.arrays import Floats, Keys, Workers
from skewless.moves import Moves as Moves
from skewless.moves import Report as Report

S = TypeVar("S")
S_in = TypeVar("S_in", contravariant=True)  # a state that is an argument, never a result


@dataclass(frozen=True)
class Traits:
    """What is true of a strategy with its parameters; decides which checks it must pass.

    Parameters
    ----------
    family
        `"splitting"`: a key may be on several workers at once; partial results are merged by key.
        `"moving"`: a key is on one worker for all sources, until a rebalance or a rescale.
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
    ignores_speeds
        `rescale` changes the number of workers, and treats all of them alike.
    """

    family: Literal["splitting", "moving"]
    fan_out: int | None = None
    decides: Literal["record", "batch"] = "record"
    gathers: bool = False
    minimal_rescale: bool = False
    moves_unnamed: bool = False
    any_may_leave: bool = False
    ignores_speeds: bool = False


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
        field called `loads`, if there is one, holds the records sent to each worker so far. A
        state, or a part of it, may have a method `check(fresh)`: see `skewless.state`.
        """

    def route(self, keys: Keys, state: S, out: Workers) -> None:
        """Fill `out` with the worker of each record, and update `state`.

        A pure function of its arguments: the same state and keys give the same workers and the
        same new state, on any machine and on any retry.
        """


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
    """Sources keep something of their own after a merge; else each continues with a copy of it."""

    def fork(self, merged: S, own: S, source: int) -> S:
        """Return the state with which `source`, now at `own`, continues after a merge."""


@runtime_checkable
class Waits(Protocol[S_in]):
    """A merging strategy that keeps apart what a source learns between its message and a merge."""

    def wait(self, state: S_in) -> None:
        """Note that a copy of `state` has been sent to be merged."""


@runtime_checkable
class Rebalances(Protocol[S]):
    """The moving family: a controller that changes the workers of keys between windows."""

    def rebalance(self, report: Report, state: S) -> tuple[S, Moves]:
        """Return the state to route by from now on, and the moves that lead to it."""


@runtime_checkable
class Rescales(Protocol[S]):
    """Workers join, leave, or differ in speed."""

    def rescale(self, state: S, n_workers: int, capacities: Floats | None = None) -> S:
        """Return the state for `n_workers` workers of these relative speeds.

        Workers 0 … min(old, new) − 1 keep their numbers. What was learned is kept. With None, all
        speeds are equal, except for what the strategy has measured itself.

        A worker with a capacity of 0 leaves and keeps its number: it gets no records until another
        `rescale` gives it a capacity again, or None; see `Traits.any_may_leave`.
        """


@runtime_checkable
class RescalesKeys(Protocol[S]):
    """The moving family: a rescale of given keys, because a hash has no list of its keys."""

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

        There is one weight per record, finite and at least 0: the caller has checked that.
        """


AnyStrategy = Strategy[Any]
