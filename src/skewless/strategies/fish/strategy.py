"""FISH: recent hot keys, as many workers as each needs, the shortest estimated waiting time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seed_array
from skewless.kernels.key_table import ABSENT, find_slot
from skewless.kernels.space_saving import admit
from skewless.parameters import MOST_PLACES, MOST_POINTS, check_types, require, require_count
from skewless.plumbing.compiling import kernel
from skewless.state import copy_state
from skewless.strategies.fish.hot_key_classification import (
    ALL_WORKERS,
    CHK,
    D_CHOICES,
    HEADER,
    FishState,
    candidate_rows,
    complete,
    first_candidates,
    grant,
    grant_largest,
    growth,
    headers,
    review,
    two_candidates,
    words_per_row,
)
from skewless.strategies.fish.key_frequencies import (
    fade,
    hot_keys,
    key_frequencies,
    merged_frequencies,
)
from skewless.strategies.fish.worker_estimation import (
    WorkerEstimates,
    estimate,
    merged_speeds,
    observe,
    rescaled,
    with_speeds,
    worker_estimates,
)
from skewless.strategies.fish.worker_selection import queued, send, send_to_least
from skewless.strategy import Traits

_CLASSIFICATIONS = ("chk", "w-choices", "d-choices")  # by `classify`
_GOLDEN_RATIO = 0.6180339887498949
_EPSILON = 1e-4  # the imbalance that d_min tolerates


@kernel
def _route(keys: Keys, state: FishState, out: Workers) -> None:
    """Fill `out` with the worker of each record: FISH's Algorithms 1 to 3 in one pass.

    `key_frequencies` counts its key (Alg. 1), `hot_key_classification` gives a hot key its
    candidates (Alg. 2), and it goes to the candidate with the shortest waiting time (Alg. 3).
    """
    recent, times, rows = state.recent, state.backlog.clock[0], state.rows.rows
    summary, waiting = recent.summary, state.backlog.waiting
    stride = words_per_row(state.rows.n_workers[0])
    i = 0
    while i < keys.size:
        if recent.n_in_epoch[0] >= recent.epoch[0]:
            review(state)
            fade(recent)
        if times["since"] >= times["until"]:
            estimate(state.backlog)
        # Neither is due again before record `end`.
        end = i + min(recent.epoch[0] - recent.n_in_epoch[0], times["until"] - times["since"])
        end = min(end, keys.size)
        recent.n_in_epoch[0] += end - i
        recent.n_since_merge[0] += end - i
        times["since"] += end - i
        unit, d_min, theta = summary.unit[0], state.d_min[0], recent.settings[0]["theta"]
        weight = recent.settings[0]["weight"] * unit
        # Kept in registers: otherwise each record would wait until the one before it is stored.
        total, clock, top = summary.total[0], summary.clock[0], recent.top[0]
        while i < end:
            key = keys[i]
            total += unit  # what follows is `offer`
            clock += 1
            slot = find_slot(summary.table, key)
            entry = np.int64(summary.table.values[slot])
            if entry == ABSENT:
                summary.clock[0] = clock
                entry = np.int64(admit(summary, key, slot, unit))
            else:
                summary.counts[entry] += unit
                summary.stamps[entry] = clock
            count = summary.counts[entry]
            top = max(top, count)
            if count > theta * max(total, weight):  # Alg. 2, l. 1
                row = entry * stride
                granted = np.int64(rows[row + 1])
                if (rows[row] != key) | (granted < d_min) | (count * state.growth[granted] > top):
                    recent.top[0] = top
                    grant(state, entry, key, count)
                worker = send_to_least(waiting, rows, row + HEADER)
            else:  # the first of two on a tie
                first, second = two_candidates(state.rows, key)
                worker = np.int64(second if waiting.ticks[second] < waiting.ticks[first] else first)
                send(waiting, worker)
            out[i] = worker
            i += 1
        recent.top[0] = top
        summary.total[0] = total
        summary.clock[0] = clock


@dataclass(frozen=True)
class Fish:
    """Find the recent hot keys, and send each record to the candidate that will be free first.

    A SpaceSaving summary, whose counts fade by `alpha` after every epoch, finds recent hot keys.
    The hottest may use all n workers, a key half as frequent n/2, and so on; other keys have two
    candidates. All candidates come from a consistent-hash ring. A record goes to the candidate
    with the shortest waiting time, which the source infers from what it sent and from the time
    per record of each worker. There are no messages. Sources that merge share hot keys, not waits.

    **Guarantee**: with α below 1, a key that never has more than
    (`hot_factor` / n − 1 / `capacity`) · `epoch` records in an epoch has at most two workers. This
    says something only while that is a record or more: with the defaults, up to 125 workers. The
    most frequent key, while it is hot, goes to a worker whose waiting time exceeds the shortest by
    less than one record of the fastest worker. Below θ it has two candidates, as other keys.

    Parameters
    ----------
    alpha
        α: the factor on all counts after an epoch; 1 switches fading off, 0 forgets all counts.
    epoch
        Records of an epoch.
    capacity
        K_max: keys that the summary holds, and for which candidates are remembered.
    hot_factor
        A key is hot above this share of a worker's fair load: θ = `hot_factor` / n.
    classification
        How many candidates hot keys have: `chk`, or as in W-Choices (all) or D-Choices (d).
    heuristic
        Compare inferred waiting times; without it, records sent, whatever the workers' speed.
    interval
        T: seconds between two estimates of what the workers have done.
    seconds_per_record
        P_w of a worker of capacity 1, until `observe` sets it.
    utilisation
        Records arrive at this share of the workers' total speed: the clock's step per record.
    ring
        Candidates from the ring; without it, by hashing modulo n, which changes nearly all of
        them when n changes.
    virtual_nodes
        Points of a worker on the ring.

    **Deviations from the paper**: N_w is left out, d_min is defined, frequencies are relative to
    the weight of a long stream, and on Spark C_w is 0 when a micro-batch begins.
    `docs/strategies/fish.md` has the complete list with reasons.

    Examples
    --------
    >>> out = np.empty(6, np.int32)
    >>> strategy = Fish(epoch=4)
    >>> strategy.route(np.zeros(6, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()
    [0, 1, 2, 3, 0, 1]

    References
    ----------
    Huang, "Efficient time-evolving stream processing at scale" (FISH): Alg. 1 (section 4.1.1),
    Alg. 2 (4.1.2), Alg. 3 (4.2), the ring (5), settings (6.3).
    """

    name: ClassVar[str] = "fish"
    traits: ClassVar[Traits] = Traits(family="splitting", any_may_leave=True)
    state_version: ClassVar[int] = 2  # in version 1 P_w was measured, also on Spark

    alpha: float = 0.2
    epoch: int = 1_000
    capacity: int = 1_000
    hot_factor: float = 0.25
    classification: Literal["chk", "w-choices", "d-choices"] = "chk"
    heuristic: bool = True
    interval: float = 10.0
    seconds_per_record: float = 0.001
    utilisation: float = 0.9
    ring: bool = True
    virtual_nodes: int = 128

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "alpha", 0 <= self.alpha <= 1, "from 0 to 1")
        require_count(self, "epoch")
        require_count(self, "capacity", most=MOST_PLACES)
        require_count(self, "virtual_nodes", most=MOST_POINTS)
        for name in ("hot_factor", "interval", "seconds_per_record", "utilisation"):
            require(self, name, 0 < getattr(self, name) < np.inf, "above 0 and finite")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> FishState:
        """Return the state of a source that has sent nothing; sources break ties differently."""
        seconds = np.full(n_workers, self.seconds_per_record)
        interval = self.interval if self.heuristic else np.inf
        # Multiples of the golden ratio are spread evenly, however many sources there are.
        turn = int(n_workers * (source * _GOLDEN_RATIO % 1.0))
        times = worker_estimates(seconds, np.ones(n_workers), interval, self.utilisation, turn)
        return self._with_workers(seed_array(seed, 2), times)

    def _with_workers(self, seeds: Words, times: WorkerEstimates) -> FishState:
        """Return the state of a source that has seen no keys, for these workers."""
        n_workers = int((times.capacities > 0).sum())
        mode = _CLASSIFICATIONS.index(self.classification)
        return FishState(
            recent=key_frequencies(
                self.capacity, self.epoch, self.alpha, self.hot_factor / n_workers
            ),
            rows=candidate_rows(
                self.capacity,
                times.capacities,
                seeds,
                by_ring=self.ring,
                virtual_nodes=self.virtual_nodes,
            ),
            growth=growth(n_workers) if mode == CHK else np.zeros(n_workers + 1),
            backlog=times,
            d_min=np.array([n_workers if mode == ALL_WORKERS else min(2, n_workers)]),
            classify=np.array([mode]),
            every_prefix=np.array([int(mode == D_CHOICES)]),
            epsilon=np.array([_EPSILON]),
            shares=np.zeros(self.capacity),
        )

    def route(self, keys: Keys, state: FishState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)

    def homes(self, keys: Keys, state: FishState) -> Workers:
        """Return the first candidate of each key; half of those with one record are elsewhere."""
        out = np.empty(keys.size, np.int32)
        first_candidates(state.rows, read_only(keys), out)
        return out

    def waiting(self, state: FishState) -> Floats:
        """Return C_w: the inferred number of records that wait for each worker."""
        return queued(state.backlog.waiting)

    def observe(self, state: FishState, *, seconds_per_record: ArrayLike) -> None:
        """Store the time per record of each worker, sampled between two calls of `route`."""
        if not self.heuristic:
            raise ValueError(
                "fish: observe needs heuristic=True; without it only records are counted"
            )
        n_workers = state.backlog.seconds.size
        observe(state.backlog, _numbers(seconds_per_record, n_workers, "seconds_per_record"))

    @property
    def wants_speeds(self) -> bool:
        """Whether waiting times are compared; measured times per record improve them."""
        return self.heuristic

    def hot_keys(self, state: FishState) -> Keys:
        """Return the keys that are hot now, in ascending order."""
        return hot_keys(state.recent)

    def rescale(
        self, state: FishState, n_workers: int, capacities: Floats | None = None
    ) -> FishState:
        """Return the state for other workers; workers that stay keep their waiting records.

        All workers have equally many points on the ring, so only arcs of workers that join or leave
        change. Speeds affect only the waiting times. A measured time per record stays, divided by
        the factor by which a capacity grows. A worker that joins is taken to be as fast, for its
        capacity, as the others on average, and has nothing to do. Without the heuristic it joins
        with as many records as the worker that was sent the fewest.
        """
        old = state.backlog
        n_same = min(n_workers, old.capacities.size)
        if capacities is not None:
            speeds = _numbers(capacities, n_workers, "capacities", least=0.0)
        else:
            speeds = np.ones(n_workers)
            speeds[:n_same] = np.where(old.capacities[:n_same] > 0, old.capacities[:n_same], 1.0)
        fewest = 0.0
        if not self.heuristic:
            fewest = float(queued(old.waiting)[old.capacities > 0].min())
            speeds = (speeds > 0).astype(np.float64)
        other = self._with_workers(state.rows.seeds, rescaled(old, speeds, fewest))
        if self.classification == "chk":  # only this one has M_k
            headers(other.rows)[:] = headers(state.rows)
        # θ changes with n; the counts stay.
        kept = copy_state(state.recent)._replace(settings=other.recent.settings)
        other = other._replace(recent=kept)
        complete(other)
        return other

    def merge(self, states: Sequence[FishState]) -> FishState:
        """Build the state that sources share: mean counts, largest M_k, mean times per record.

        Each source keeps its own waiting times. If every source balances what it sends itself, the
        sum is balanced. If all continued from the same waiting times instead, all would choose the
        same worker at the same time.
        """
        speeds = merged_speeds([state.backlog for state in states])
        merged = self._with_workers(states[0].rows.seeds, speeds)
        recent = merged_frequencies([state.recent for state in states], merged.recent)
        merged = merged._replace(recent=recent)
        if self.classification == "chk":
            grant_largest(merged, states)
        complete(merged)
        return merged

    def fork(self, merged: FishState, own: FishState, source: int) -> FishState:
        """Return `merged` with the waiting times of `own`, including what it sent meanwhile."""
        state = copy_state(merged)
        return state._replace(backlog=with_speeds(own.backlog, merged.backlog))


def _numbers(values: ArrayLike, n_workers: int, name: str, least: float | None = None) -> Floats:
    numbers = np.asarray(values, np.float64)
    allowed = numbers > 0 if least is None else (numbers >= least) & (numbers.max(initial=0) > 0)
    if numbers.shape != (n_workers,) or not (np.isfinite(numbers) & allowed).all():
        which = "above 0" if least is None else "of at least 0, one of them above 0"
        raise ValueError(f"fish: {name} must be {n_workers} finite numbers {which}, not {values!r}")
    return numbers
