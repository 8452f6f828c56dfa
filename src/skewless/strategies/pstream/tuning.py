"""Tuning PStream's weights: a greedy walk that sometimes accepts a step down.

Section 4.4, last paragraph. `skewless tune` calls it with a stream of the user.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    """One trial of the walk."""

    time_weight: float
    gain: float
    accepted: bool


@dataclass(frozen=True)
class Tuned:
    """The best weights found, and every trial on the way; the first is where the walk began."""

    time_weight: float
    gain: float
    steps: tuple[Step, ...]


def tune(
    gain: Callable[[float], float],
    *,
    seed: int,
    first: float | None = None,
    tolerance: float = 0.01,
    max_steps: int = 100,
    annealing: bool = True,
    temperature: Callable[[int], float] = float,
) -> Tuned:
    """Walk over w_T from 0 to 1, with w_S = 1 − w_T, towards a high `gain`.

    A step δ is drawn from ± min(w_T, w_S). If the gain is higher there, the walk goes there; if
    not, it stays and halves the range of δ, or, when `annealing`, goes there all the same with
    probability e^(difference / temperature). It ends when a trial changes the gain by less than
    `tolerance` of it, or after `max_steps` trials.

    Parameters
    ----------
    gain
        What a run with this w_T yields, such as its throughput; the more the better. For a cost,
        return its negative.
    seed
        Of the first w_T and of all steps: the same walk whenever the gains are the same.
    first
        Where to begin; None means at random.
    tolerance
        The paper's 1 percent.
    max_steps
        Trials after the first. The paper has no limit.
    annealing
        Whether steps down are accepted at times, so as not to end in a local optimum.
    temperature
        Of iteration i. The paper divides by i itself: steps down become *more* likely with time,
        and how likely depends on the unit of the gain. `lambda i: 1 / i` cools instead.

    **Deviations from the paper**: the best weights of the whole walk are returned, not the last.
    After a refused step the paper halves δ itself and so keeps its sign: one first step to the
    wrong side would end the walk where it began. We halve the range and draw again.

    Examples
    --------
    >>> found = tune(lambda w: 1e6 - 1e6 * (w - 0.3) ** 2, seed=1, tolerance=1e-6)
    >>> round(found.time_weight, 2)
    0.3

    References
    ----------
    PStream, section 4.4, last paragraph.
    """
    for name, value in (("first", first), ("tolerance", tolerance)):
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"{name} must be from 0 to 1, not {value!r}")
    if max_steps < 0:
        raise ValueError(f"max_steps must be at least 0, not {max_steps!r}")
    random = np.random.default_rng(seed)
    here = float(random.random()) if first is None else first
    gain_here = gain(here)
    steps = [Step(here, gain_here, True)]
    shrinking = 1.0
    for iteration in range(1, max_steps + 1):
        room = shrinking * min(here, 1.0 - here)
        there = here + float(random.uniform(-room, room))
        gain_there = gain(there)
        better = gain_there > gain_here
        accepted = better
        if not better and annealing:
            chance = math.exp((gain_there - gain_here) / temperature(iteration))
            accepted = bool(random.random() < chance)
        steps.append(Step(there, gain_there, accepted))
        is_close = abs(gain_there - gain_here) < tolerance * abs(gain_here)
        if accepted:
            here, gain_here = there, gain_there
            shrinking = 1.0
        else:
            shrinking /= 2
        if is_close:
            break
    best = max(steps, key=lambda step: step.gain)
    return Tuned(best.time_weight, best.gain, tuple(steps))
