"""Pd-Stream: as many workers for a key as its count in a short sampling window may mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaincinv

from skewless.arrays import Floats, Keys, Words, Workers, read_only
from skewless.kernels.bits import words_for
from skewless.kernels.hashing import seed_array, two_workers
from skewless.parameters import check_types, require, require_all_stay, require_count
from skewless.state import copy_state, zeros
from skewless.strategies.pd_stream.floor_set import add_to, floor_set, members
from skewless.strategies.pd_stream.instance_assignment import CONTROL, NEVER, PdStreamState, route
from skewless.strategies.pd_stream.sampling_window import (
    NO_ROW,
    append,
    row_of,
    sampling_window,
    window_keys,
)
from skewless.strategies.rescaling import HashedHomes
from skewless.strategy import Traits

_N_STAGES = 3
_SLACK = 4
_MOST_STEP = 1 << 20


def probability_table(length: int, confidence: float) -> Floats:
    """Return, for a key seen 0 … `length` times in `length` records, the share it may have.

    It is the share p of the stream at which the key would be seen at least that often with a
    probability of `confidence`. The chance of at least k successes is a regularised incomplete
    beta function, I_p(k, N − k + 1), so p is its inverse and needs no search (Alg. 1, eq. 14–15).

    >>> probability_table(16, 0.99)[[1, 2, 6, 16]].round(3).tolist()
    [0.25, 0.349, 0.63, 0.999]
    """
    counts = np.arange(1, length + 1)
    return np.concatenate([[0.0], betaincinv(counts, length - counts + 1, confidence)])


@dataclass(frozen=True)
class PdStream(HashedHomes):
    """Give a key that recurs among the last 2n records as many workers as its count may mean.

    A key seen twice in the sampling window is hot. Its count gives the largest share of the stream
    that the key may have, and the share gives a number of workers. While the key has fewer, and
    all of them are heavier than the lightest worker of all, that worker joins. Other keys have two
    candidates.

    **Guarantee**: an entry of the routing table never has more workers than ⌊p̂·n⌋, p̂ for the
    largest count since it was made, or 2. The table has an entry only for keys in the window, so
    N · (n bits) bound it. A key that is never twice in the window has at most two workers.

    Parameters
    ----------
    alpha
        α: how often a key at the threshold is expected in the window, whose length is
        N = α / θ = `alpha` · n / `theta`.
    theta
        θ = `theta` / n, the share from which two workers are too few for a key. It sets the length
        of the window and nothing else: whether a key is hot depends on its count in the window.
    step
        The window advances by this many records at a time. Until then, counts and
        hot keys are those of the last step.
    confidence
        P̂: the probability with which a key of share p̂ occurs at least as often as was counted.
    count_incoming
        Count the record to be routed too, as the paper's Fig. 3 does.
    adaptive
        Adjust α and θ, which the paper leaves for later. After every window in which the fullest
        worker is within 4 records of the emptiest, the window doubles, up to 4 times α; otherwise
        it is α again at once. In longer windows p̂ is closer to the truth, and a key is hot from
        α − √α occurrences on instead of 2: at α = 4 that is the same, at 16 it is 12. Both save
        replicas of keys that only seemed hot. If they save too much, the imbalance shows it.

    **Deviations from the paper**: where it can be read in several ways, the default is the reading
    nearest to its Fig. 10. The complete list, with reasons, is in `docs/strategies/pd-stream.md`.

    Examples
    --------
    >>> out = np.empty(8, np.int32)
    >>> strategy = PdStream()
    >>> strategy.route(np.ones(8, np.uint64), strategy.start(8, seed=0), out)
    >>> out.tolist()
    [0, 4, 0, 1, 2, 1, 3, 2]

    References
    ----------
    Sun, Wu, Wen, Gao, Buyya, "A popularity-aware discriminative grouping strategy in distributed
    stream computing systems": section V, Alg. 1 and 2, eq. 14–16, Table III, Fig. 3.
    """

    name: ClassVar[str] = "pd-stream"
    traits: ClassVar[Traits] = Traits(family="splitting", ignores_speeds=True)

    alpha: float = 4.0
    theta: float = 2.0
    step: int = 1
    confidence: float = 0.99
    count_incoming: bool = False
    adaptive: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "alpha", 0 < self.alpha <= 1_000, "above 0 and at most 1,000")
        require(self, "theta", self.theta > 0, "above 0")
        require(self, "theta", self.theta >= 0.001, "at least 0.001")
        require_count(self, "step", most=_MOST_STEP)
        require(self, "confidence", 0 < self.confidence < 1, "above 0 and below 1")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> PdStreamState:
        """Return the state of a source that has sent nothing."""
        n_stages = _N_STAGES if self.adaptive else 1
        shortest = max(1, round(self.alpha * n_workers / self.theta))
        lengths = shortest * 2 ** np.arange(n_stages)
        needed = np.zeros((n_stages, lengths[-1] + 1), np.int32)
        for stage, length in enumerate(lengths):
            shares = probability_table(int(length), self.confidence)
            needed[stage, : length + 1] = np.floor(shares * n_workers)  # eq. 16
        window = sampling_window(int(lengths[-1]))
        n_rows = window.slots.size
        loads = np.zeros(n_workers, np.int64)
        expected = self.alpha * 2 ** np.arange(n_stages)
        hot_from = np.maximum(2, np.ceil(expected - np.sqrt(expected))) if self.adaptive else [2]
        control = np.zeros(1, CONTROL)
        control["until"] = shortest if self.adaptive else NEVER
        control["incoming"] = self.count_incoming
        control["slack"], control["step"] = _SLACK, self.step
        return zeros(
            PdStreamState,
            n_rows,
            seed=seed_array(seed, 1),
            loads=loads,
            floor=floor_set(loads),
            window=window,
            candidates=n_rows * words_for(n_workers),
            lengths=lengths,
            hot_from=np.array(hot_from, np.int64),
            needed=needed.ravel(),
            pending=self.step,
            control=control,
        )

    def route(self, keys: Keys, state: PdStreamState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        route(read_only(keys), state, out)

    def merge(self, states: Sequence[PdStreamState]) -> PdStreamState:
        """Return the plan of all sources: one window, and one entry for each hot key in it.

        The window holds the latest records of all: those that each source has had since the last
        merge, dealt in turn, and before them those that all had then. An entry is as large as the
        largest of its key's, and holds the workers that most sources have, so that they stop
        spreading the key over different ones.
        """
        # Sorted, so that the order of `states` does not matter.
        states = sorted(states, key=lambda s: (s.loads.tobytes(), window_keys(s.window).tobytes()))
        loads = np.sum([state.loads for state in states], axis=0)
        control = states[0].control.copy()
        for name in ("stage", "until"):
            control[name] = min(state.control[0][name] for state in states)
        control["n_pending"] = control["fresh"] = 0
        merged = states[0]._replace(
            loads=loads,
            floor=floor_set(loads),
            window=sampling_window(int(states[0].lengths[-1])),
            sizes=np.zeros_like(states[0].sizes),
            candidates=np.zeros_like(states[0].candidates),
            pending=np.zeros_like(states[0].pending),
            control=control,
        )
        length = int(merged.lengths[control[0]["stage"]])
        recent = [window_keys(state.window)[::-1] for state in states]
        n_fresh = [int(state.control[0]["fresh"]) for state in states]
        fresh = [keys[:n] for keys, n in zip(recent, n_fresh, strict=True)]
        turns = range(max(keys.size for keys in fresh))
        in_turn = [keys[turn] for turn in turns for keys in fresh if turn < keys.size]
        # All have what is left of one window; that with the fewest records since has most of it.
        older = [keys[n:] for keys, n in zip(recent, n_fresh, strict=True)]
        in_turn.extend(older[int(np.argmax([keys.size for keys in older]))])
        _fill(merged, states, np.array(in_turn[:length][::-1], np.uint64))
        return merged

    def rescale(
        self, state: PdStreamState, n_workers: int, capacities: Floats | None = None
    ) -> PdStreamState:
        """Return the state for another number of workers, with its window and routing table.

        Differences in speed are ignored. The two candidates of all keys are hashed anew, so half of
        them or more change; a key in the table keeps its other workers that stay. Workers that stay
        keep their loads. Workers that join begin with the load of the lightest one, because a
        worker without any load would get all records until it has as many as the others.
        """
        require_all_stay(self.name, capacities)
        fresh = self.start(n_workers, 0)
        n_same = min(state.loads.size, fresh.loads.size)
        loads = np.full(fresh.loads.size, state.loads[:n_same].min())
        loads[:n_same] = state.loads[:n_same]
        control = state.control.copy()
        length = int(fresh.lengths[control[0]["stage"]])
        if control[0]["until"] != NEVER:
            control["until"] = min(int(control[0]["until"]), length)
        control["fresh"] = min(int(control[0]["fresh"]), length)
        rescaled = fresh._replace(
            seed=state.seed.copy(),
            loads=loads,
            floor=floor_set(loads),
            pending=state.pending.copy(),
            control=control,
        )
        _fill(rescaled, [state], window_keys(state.window)[-length:])
        return rescaled

    def fork(self, merged: PdStreamState, own: PdStreamState, source: int) -> PdStreamState:
        """Return the merged plan with the loads and the pending records of this source."""
        plan = copy_state(merged)
        plan.control[0]["n_pending"] = own.control[0]["n_pending"]
        return plan._replace(
            loads=own.loads.copy(), floor=copy_state(own.floor), pending=own.pending.copy()
        )


def _fill(plan: PdStreamState, states: Sequence[PdStreamState], recent: Words) -> None:
    """Let these keys enter the empty window; a key gets the workers that most of `states` give it.

    Its two hashed ones come first.
    """
    for hashed in recent:
        append(plan.window, hashed)
    n_workers, n_words = plan.loads.size, plan.floor.lightest.size
    for hashed in np.unique(recent):
        votes = np.zeros(n_workers, np.int64)
        size = 0
        for state in states:
            row = row_of(state.window, hashed)
            if row != NO_ROW and state.sizes[row] > 0:
                size = max(size, int(state.sizes[row]))
                words = state.candidates.reshape(state.sizes.size, -1)[row]
                found = members(words, min(state.loads.size, n_workers))
                votes[: found.size] += found
        row = row_of(plan.window, hashed)
        size = min(size, n_workers)
        votes[list(two_workers(hashed, n_workers))] = len(states) + 1
        for worker in np.argsort(-votes, kind="stable")[:size]:
            add_to(plan.candidates, np.uint64(row * n_words), np.uint64(worker))
        plan.sizes[row] = size
