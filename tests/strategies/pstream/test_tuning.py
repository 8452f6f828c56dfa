import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.strategies.pstream.tuning import tune


def hill(w: float) -> float:
    return 1e6 * (1 - (w - 0.3) ** 2)


def two_hills(w: float) -> float:
    """A low summit at 0.15 and a high one at 0.8."""
    return max(1 - 40 * (w - 0.15) ** 2, 3 - 40 * (w - 0.8) ** 2)


@given(seed=st.integers(0, 2**32))
def test_every_trial_lies_between_0_and_1_and_the_best_of_them_is_returned(seed):
    found = tune(two_hills, seed=seed)
    assert all(0 <= step.time_weight <= 1 for step in found.steps)
    assert found.gain == max(step.gain for step in found.steps) == two_hills(found.time_weight)


def test_the_same_seed_walks_the_same_way():
    assert tune(hill, seed=3) == tune(hill, seed=3)
    assert tune(hill, seed=3) != tune(hill, seed=4)


def test_a_step_is_never_longer_than_the_smaller_weight_and_shrinks_when_refused():
    found = tune(lambda w: math.inf if w == 0.4 else w, seed=1, first=0.4, annealing=False)
    # Nothing is better than where it began: all refused, each from half the range.
    for i, step in enumerate(found.steps[1:]):
        assert not step.accepted
        assert abs(step.time_weight - 0.4) <= 0.4 / 2**i
    assert found.time_weight == 0.4


def test_the_greedy_walk_only_goes_up():
    for seed in range(20):
        accepted = [s.gain for s in tune(hill, seed=seed, annealing=False).steps if s.accepted]
        assert accepted == sorted(accepted)


def test_it_finds_a_single_summit():
    for seed in range(20):
        found = tune(hill, seed=seed, tolerance=1e-7, max_steps=200)
        # A trial that changes less than 1e-7 of the gain ends it, sometimes a little early.
        assert found.time_weight == pytest.approx(0.3, abs=0.1)


def test_it_ends_with_the_first_trial_that_changes_next_to_nothing():
    found = tune(lambda w: 1.0, seed=1)
    assert len(found.steps) == 2
    found = tune(hill, seed=2, tolerance=1e-4)
    gains = [step.gain for step in found.steps]
    here = gains[0]
    for step in found.steps[1:-1]:
        assert abs(step.gain - here) >= 1e-4 * here
        here = step.gain if step.accepted else here
    assert abs(gains[-1] - here) < 1e-4 * here


def test_annealing_leaves_a_local_summit_more_often_than_greed():
    seeds = range(200)

    def reached(**how) -> int:
        return sum(
            tune(two_hills, seed=seed, first=0.15, tolerance=1e-9, **how).gain > 2 for seed in seeds
        )

    assert reached(annealing=True) > reached(annealing=False)


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(float, lambda i: math.exp(-2 / i)), (lambda i: 1 / i, lambda i: math.exp(-2 * i))],
    ids=["paper", "cooling"],
)
def test_a_step_down_is_accepted_with_the_chance_of_its_temperature(temperature, expected):
    # Each trial is worse than the one before, by 2: how many walks accept the first, the second?
    n, accepted, tried = 4_000, np.zeros(3), np.zeros(3)
    for seed in range(n):
        gains = iter(range(0, -200, -2))
        steps = tune(
            lambda _, gains=gains: float(next(gains)),
            seed=seed,
            first=0.5,
            tolerance=0,
            max_steps=3,
            temperature=temperature,
        ).steps
        for i, step in enumerate(steps[1:]):
            # The difference is 2 only as long as the last trial was accepted.
            tried[i] += 1
            accepted[i] += step.accepted
            if not step.accepted:
                break
    for i in range(3):
        chance = expected(i + 1)
        margin = 4 * math.sqrt(max(chance * (1 - chance), 1 / max(tried[i], 1)) / max(tried[i], 1))
        assert abs(accepted[i] / max(tried[i], 1) - chance) <= margin


def test_bad_arguments_are_refused_by_name():
    for name, value in (("first", 1.5), ("tolerance", -0.1)):
        with pytest.raises(ValueError, match=f"{name} must be from 0 to 1, not {value}"):
            tune(hill, seed=1, **{name: value})
    with pytest.raises(ValueError, match="max_steps must be at least 0, not -1"):
        tune(hill, seed=1, max_steps=-1)
