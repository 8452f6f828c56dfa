"""FISH: recent hot keys, as many workers as each needs, the shortest estimated waiting time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats, Keys, Words, Workers
from skewless.kernels.hashing import seed_array
from skewless.kernels.space_saving import merge as merge_summaries
from skewless.parameters import MOST_PLACES, MOST_POINTS, check_types, require, require_count
from skewless.state import copy_state
from skewless.strategies.fish.backlog import (
    ESTIMATED,
    backlog,
    mean_backlog,
    now,
    observe,
    set_waits,
    settle,
)
from skewless.strategies.fish.candidate_rows import candidate_rows, headers
from skewless.strategies.fish.fading import fading
from skewless.strategies.fish.granting import (
    ALL_WORKERS,
    CHK,
    D_CHOICES,
    Grants,
    complete,
    grant_largest,
    growth,
    route,
)
from skewless.strategy import Traits

_CLASSIFICATIONS = ("chk", "w-choices", "d-choices")  # by `modes[CLASSIFY]`
_MINIMA = ("all-hot", "d-choices")


@dataclass(frozen=True)
class Fish:
    """Find the recent hot keys, and send each record to the candidate that will be free first.

    A SpaceSaving summary, whose counts fade by `alpha` after every epoch, finds recent hot keys.
    The hottest may use all n workers, a key half as frequent n/2, and so on; other keys have two
    candidates. All candidates come from a consistent-hash ring. A record goes to the candidate
    with the shortest waiting time, which the source infers from what it sent and from the time
    per record of each worker. There are no messages.

    **Guarantee**: a key that never has more than (`hot_factor` / n − 1 / `capacity`) · `epoch`
    records in an epoch has at most two workers. The most frequent key always goes to a worker
    whose waiting time exceeds the shortest by less than one record of the fastest worker.

    Parameters
    ----------
    alpha
        α: the factor on all counts after an epoch; 1 switches fading off.
    epoch
        Records of an epoch.
    capacity
        K_max: keys that the summary holds, and for which candidates are remembered.
    hot_factor
        A key is hot above this share of a worker's fair load: θ = `hot_factor` / n.
    classification
        How many candidates hot keys have: `chk`, or as in W-Choices (all) or D-Choices (d).
    minimum
        d_min of `chk`: the fewest candidates with which all hot keys together fit their workers
        (`all-hot`), or with which every prefix of them does, D-Choices' d (`d-choices`).
    epsilon
        The imbalance that d_min tolerates.
    heuristic
        Compare inferred waiting times; without it, records sent, whatever the workers' speed.
    interval
        T: seconds between two estimates of what the workers have done.
    seconds_per_record
        P_w of a worker of capacity 1, until `observe` sets it.
    utilisation
        Records arrive at this share of the workers' total speed: the clock's step per record.
    ring
        Candidates from the ring; without it, by hashing modulo n.
    virtual_nodes
        Points of a worker on the ring.

    **Deviations from the paper**: N_w is left out, d_min is defined, and frequencies are relative
    to the weight of a long stream. `docs/strategies/fish.md` has the complete list with reasons.

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

    alpha: float = 0.2
    epoch: int = 1_000
    capacity: int = 1_000
    hot_factor: float = 0.25
    classification: Literal["chk", "w-choices", "d-choices"] = "chk"
    minimum: Literal["all-hot", "d-choices"] = "all-hot"
    epsilon: float = 1e-4
    heuristic: bool = True
    interval: float = 10.0
    seconds_per_record: float = 0.001
    utilisation: float = 0.9
    ring: bool = True
    virtual_nodes: int = 128

    def __post_init__(self) -> None:  # noqa: D105
        check_types(self)
        require(self, "alpha", 0 < self.alpha <= 1, "above 0 and at most 1")
        require_count(self, "epoch")
        require_count(self, "capacity", most=MOST_PLACES)
        require_count(self, "virtual_nodes", most=MOST_POINTS)
        for name in ("hot_factor", "interval", "seconds_per_record", "utilisation"):
            require(self, name, 0 < getattr(self, name) < np.inf, "above 0 and finite")
        require(self, "epsilon", self.epsilon >= 0, "at least 0")
        known = ", ".join(_CLASSIFICATIONS)
        require(self, "classification", self.classification in _CLASSIFICATIONS, f"one of {known}")
        require(self, "minimum", self.minimum in _MINIMA, f"one of {', '.join(_MINIMA)}")

    @property
    def traits(self) -> Traits:
        """A hot key may be anywhere; a rescale changes candidates little, but choices by load."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> Grants:
        """Return the state of a source that has sent nothing."""
        seconds = np.full(n_workers, self.seconds_per_record)
        return self._with_workers(seed_array(seed, 2), seconds)

    def _with_workers(self, seeds: Words, seconds: Floats) -> Grants:
        """Return the state of workers that take `seconds` for a record and have nothing to do."""
        n_workers = seconds.size
        mode = _CLASSIFICATIONS.index(self.classification)
        d_choices = mode == D_CHOICES or self.minimum == "d-choices"
        return Grants(
            recent=fading(self.capacity, self.epoch, self.alpha, self.hot_factor / n_workers),
            rows=candidate_rows(
                self.capacity,
                n_workers,
                seeds,
                by_ring=self.ring,
                virtual_nodes=self.virtual_nodes,
            ),
            growth=growth(n_workers) if mode == CHK else np.zeros(n_workers + 1),
            backlog=backlog(seconds, self.interval if self.heuristic else np.inf, self.utilisation),
            d_min=np.array([n_workers if mode == ALL_WORKERS else min(2, n_workers)]),
            modes=np.array([mode, int(d_choices)]),
            epsilon=np.array([self.epsilon]),
            shares=np.zeros(self.capacity),
        )

    def route(self, keys: Keys, state: Grants, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        route(keys, state, out)

    def observe(
        self,
        state: Grants,
        *,
        seconds_per_record: ArrayLike | None = None,
        now_seconds: float | None = None,
    ) -> None:
        """Tell `state` what was sampled between two calls of `route`.

        `seconds_per_record` is the workers' time per record, one number each. `now_seconds` is the
        time; each record adds a step to it until it is set again.
        """
        if not self.heuristic:
            raise ValueError("fish: observe needs heuristic=True, counts know no time and speed")
        moment = float(now(state.backlog)) if now_seconds is None else now_seconds
        if not state.backlog.clock[ESTIMATED] <= moment < np.inf:
            raise ValueError(
                "fish: now_seconds must not be before the last estimate, "
                f"{state.backlog.clock[ESTIMATED]}, and finite, not {now_seconds}"
            )
        seconds = None
        if seconds_per_record is not None:
            n_workers = state.growth.size - 1
            seconds = _positive(seconds_per_record, n_workers, "seconds_per_record")
        observe(state.backlog, seconds, moment)

    def rescale(self, state: Grants, n_workers: int, capacities: Floats | None = None) -> Grants:
        """Return the state for other workers: those who stay keep what they have to do.

        The ring has as many points for everybody, so only arcs of who joins or leaves change.
        Speeds count in the waiting times alone. Who joins has nothing to do; without the
        heuristic it joins with as many records as the worker who was sent the fewest.
        """
        speeds = np.ones(n_workers)
        if capacities is not None:
            speeds = _positive(capacities, n_workers, "capacities")
        old = copy_state(state)
        waits, moment = settle(old.backlog)
        seconds = np.full(n_workers, self.seconds_per_record)
        if self.heuristic:
            seconds /= speeds
        rescaled = self._with_workers(state.rows.seeds, seconds)
        joined = np.full(n_workers, 0.0 if self.heuristic else waits.min())
        stay = min(n_workers, waits.size)
        joined[:stay] = waits[:stay]
        set_waits(rescaled.backlog, joined, moment)
        # θ is another one; what was counted is not.
        recent = old.recent._replace(settings=rescaled.recent.settings)
        headers(rescaled.rows)[:] = headers(old.rows)
        rescaled = rescaled._replace(recent=recent)
        complete(rescaled)
        return rescaled

    def merge(self, states: Sequence[Grants]) -> Grants:
        """Return the state of the average source: mean counts, mean waiting times, largest M_k.

        A mean instead of a sum, because every source goes on with a copy: it will see one source's
        records per epoch, and a second merge must not count the first one again.
        """
        sources = [copy_state(state) for state in states]
        summaries = [source.recent.summary for source in sources]
        n_workers = sources[0].growth.size - 1
        merged = self._with_workers(sources[0].rows.seeds, np.ones(n_workers))
        summary = merge_summaries(summaries, self.capacity)
        summary.unit[0] = len(sources)  # what makes the sums means
        merged.recent.n_in_epoch[0] = max(source.recent.n_in_epoch[0] for source in sources)
        merged = merged._replace(
            recent=merged.recent._replace(summary=summary),
            backlog=mean_backlog([source.backlog for source in sources]),
        )
        grant_largest(merged, sources)
        complete(merged)
        return merged


def _positive(values: ArrayLike, n_workers: int, name: str) -> Floats:
    numbers = np.asarray(values, np.float64)
    if numbers.shape != (n_workers,) or not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError(f"fish: {name} must be {n_workers} finite numbers above 0, not {values!r}")
    return numbers
