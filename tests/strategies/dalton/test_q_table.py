import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.strategies.dalton.q_table import (
    best,
    clear_row,
    forget_kept,
    keep,
    learn,
    q_table,
    row_values,
    set_values,
    with_kept,
)

# Rewards from few values and rates that reach them: values tie all the time.
rewards = st.sampled_from([-2.0, -1.0, 0.0, 1.0])
rates = st.sampled_from([1.0, 0.5, 0.1])


@settings(deadline=None)
@given(
    n_workers=st.integers(1, 9) | st.integers(1, 70),
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 69), rewards, rates), max_size=60),
)
def test_the_best_place_is_the_first_with_the_highest_value(n_workers, steps):
    table = q_table(2, n_workers, -2.0)
    values = np.full((2, n_workers), -2.0)
    for row, place, reward, rate in steps:
        place %= n_workers
        learn(table, row, place, reward, rate)
        values[row, place] += rate * (reward - values[row, place])
        for r in range(2):
            np.testing.assert_array_equal(row_values(table, r), values[r])
            assert best(table, r) == np.argmax(values[r])
            others = np.delete(values[r], best(table, r))
            assert table.others[r] >= others.max(initial=-np.inf)


@settings(deadline=None)
@given(
    values=st.lists(rewards, min_size=1, max_size=40),
    steps=st.lists(st.tuples(st.integers(0, 39), rewards, rates), max_size=10),
)
def test_a_row_that_was_set_goes_on_learning(values, steps):
    n_workers = len(values)
    table = q_table(1, n_workers, -2.0)
    expected = np.array(values)
    set_values(table, 0, expected.copy())
    assert best(table, 0) == np.argmax(expected)
    for place, reward, rate in steps:
        place %= n_workers
        learn(table, 0, place, reward, rate)
        expected[place] += rate * (reward - expected[place])
        assert best(table, 0) == np.argmax(expected)
    clear_row(table, 0)
    assert best(table, 0) == 0
    np.testing.assert_array_equal(row_values(table, 0), -2.0)


def test_what_is_kept_is_one_map_for_many_rewards():
    rng = np.random.default_rng(1)
    table = q_table(1, 5, -2.0)
    start = rng.uniform(-2, 1, 5)
    expected = start.copy()
    for place, reward in zip(rng.integers(0, 4, 200), rng.uniform(-1, 0.5, 200), strict=True):
        keep(table, 0, place, reward, 0.1)
        expected[place] += 0.1 * (reward - expected[place])
    np.testing.assert_array_equal(row_values(table, 0), -2.0)
    # Up to 60 roundings per value of about 1, against one power and one product.
    assert with_kept(table, 0, start, 0.1) == pytest.approx(expected, rel=1e-13, abs=1e-13)
    forget_kept(table)
    np.testing.assert_array_equal(with_kept(table, 0, start, 0.1), start)
