"""The pieces that Mixed and its relatives are made from."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.rebalancing import even_arcs as reference_ring
from reference.rebalancing import mixed as reference
from skewless.strategies.mixed import routing_table
from skewless.strategies.mixed.compact_representation import (
    Observed,
    Orders,
    Vectors,
    compact,
    descending_order,
    discretise,
    full,
)
from skewless.strategies.mixed.goals import Goals
from skewless.strategies.mixed.phases import Problem, attempt, new_owners, problem


def observed(costs, owners, homes, sizes=None, rest=()) -> Observed:
    loads = np.array(costs, np.float64)
    states = loads if sizes is None else np.array(sizes, np.float64)
    return Observed(
        np.arange(len(costs), dtype=np.uint64),
        loads,
        states,
        np.array(owners, np.int32),
        np.array(homes, np.int32),
        np.array(rest, np.float64),
        Orders(loads, states),
    )


def as_dicts(view: Observed):
    """Costs, sizes, homes and owners by key, for the oracle."""
    columns = (view.costs, view.sizes, view.homes, view.owners)
    return [dict(enumerate(column.tolist())) for column in columns]


def problem_within(vectors: Vectors, beta, tolerance, capacities, rest=None) -> Problem:
    """Return it with the limits of Algorithm 1: fair shares and the tolerance; no floors."""
    speeds = np.asarray(capacities, np.float64)
    none = np.zeros(speeds.size)
    rest = none if rest is None else np.array(rest, np.float64)
    total = float((vectors.costs * vectors.counts).sum()) + float(rest.sum())
    limits = (1.0 + tolerance) * (total * speeds / speeds.sum())
    aims = Goals(
        fair=limits,
        limits=limits,
        alarms=limits,
        floors=none,
        closed=np.zeros(speeds.size, np.bool_),
        giants=np.zeros(0, np.int64),
        giants_at=np.zeros(0, np.int32),
    )
    return problem(vectors, beta, speeds, rest, aims)


def planned(view: Observed, n_back, beta, tolerance, capacities) -> list[int]:
    task = problem_within(full(view), beta, tolerance, capacities)
    return new_owners(task, attempt(task, n_back), view, beta).tolist()


def loads_of(view: Observed, owners, n_workers) -> list[float]:
    return np.bincount(owners, weights=view.costs, minlength=n_workers).tolist()


# k1 … k6 of fig. 4: worker 0 has 7, 4, 5 and worker 1 has 2, 1, 1; k3 and k5 are in the table.
FIGURE_4 = observed([7, 4, 2, 1, 5, 1], owners=[0, 0, 1, 1, 0, 1], homes=[0, 0, 0, 1, 1, 1])


def test_llfd_alone_needs_four_entries_in_the_example_of_figure_4():
    owners = planned(FIGURE_4, 0, None, 0.0, [1.0, 1.0])
    assert owners == [1, 0, 1, 0, 0, 1]
    assert loads_of(FIGURE_4, owners, 2) == [10, 10]
    assert (np.array(owners) != FIGURE_4.homes).sum() == 4


def test_an_empty_table_first_needs_two_entries_in_the_example_of_figure_4():
    owners = planned(FIGURE_4, 6, None, 0.0, [1.0, 1.0])
    assert loads_of(FIGURE_4, owners, 2) == [10, 10]
    assert (np.array(owners) != FIGURE_4.homes).sum() == 2


def test_discretising_the_example_of_figure_6_keeps_the_sum():
    costs = np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])
    values, unit = discretise(costs, 4)
    assert unit == 1.0
    assert set(values) <= {8, 4, 2, 1}
    assert (costs - values).sum() == 0


@st.composite
def views(draw) -> tuple[Observed, int]:
    """Few distinct costs and sizes, so that ties are the rule."""
    n_workers = draw(st.integers(1, 5))
    n_keys = draw(st.integers(0, 14))
    workers = st.integers(0, n_workers - 1)
    numbers = st.sampled_from([0, 1, 1, 2, 3, 5, 8, 40])

    def column(of):
        return draw(st.lists(of, min_size=n_keys, max_size=n_keys))

    return observed(column(numbers), column(workers), column(workers), column(numbers)), n_workers


some_capacities = st.sampled_from([[1.0] * 5, [2.0, 1.0, 1.0, 4.0, 1.0]])


@settings(deadline=None, max_examples=300)
@given(
    views(),
    st.integers(0, 15),
    st.sampled_from([None, 0.5, 1.0, 1.5]),
    st.sampled_from([0.0, 0.08, 0.5]),
    some_capacities,
    st.sampled_from([[0] * 5, [1, 0, 2, 0, 8], [40, 3, 1, 1, 0]]),
)
def test_an_attempt_equals_its_oracle(view_and_workers, n_back, beta, tolerance, capacities, rest):
    view, n_workers = view_and_workers
    costs, sizes, homes, owners = as_dicts(view)
    speeds, rest = capacities[:n_workers], rest[:n_workers]
    expected = reference.attempt(costs, sizes, homes, owners, n_back, beta, tolerance, speeds, rest)
    task = problem_within(full(view), beta, tolerance, speeds, rest)
    plan = attempt(task, n_back)
    assert dict(enumerate(new_owners(task, plan, view, beta).tolist())) == expected
    assert plan.n_entries == reference.n_entries(expected, homes)
    assert plan.state_moved == reference.state_moved(owners, expected, sizes)
    if speeds == [1.0] * n_workers:
        overloaded = reference.is_overloaded(costs, expected, tolerance, speeds, rest)
        assert plan.is_balanced == (not overloaded)


@settings(deadline=None, max_examples=200)
@given(
    views(),
    st.integers(0, 15),
    st.sampled_from([None, 1.5]),
    st.sampled_from([0.0, 0.08, 0.5]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([[0] * 5, [1, 0, 2, 0, 8]]),
)
def test_a_compact_attempt_equals_its_oracle(
    view_and_workers, n_back, beta, tolerance, degree, rest
):
    view, n_workers = view_and_workers
    speeds, rest = [1.0] * n_workers, rest[:n_workers]
    vectors = compact(view, degree, n_workers)
    task = problem_within(vectors, beta, tolerance, speeds, rest)
    plan = attempt(task, n_back)
    owners = new_owners(task, plan, view, beta)
    expected = reference.compact_attempt(
        *as_dicts(view), n_back, beta, tolerance, speeds, degree, rest
    )
    kinds = zip(
        vectors.owners[vectors.of_key].tolist(),
        vectors.homes[vectors.of_key].tolist(),
        vectors.costs[vectors.of_key].tolist(),
        vectors.sizes[vectors.of_key].tolist(),
        owners.tolist(),
        strict=True,
    )
    assert Counter(kinds) == expected
    assert plan.n_entries == (owners != view.homes).sum()


def test_the_compact_form_moves_the_keys_of_highest_priority_of_a_vector():
    # 33, 34, 35 and 36 are all 32 or 40 with degree 8; of those alike, the costliest go first.
    costs = [36, 33, 35, 34, 32, 32, 1]
    view = observed(costs, owners=[0] * 6 + [1], homes=[0] * 6 + [1])
    task = problem_within(compact(view, 8, 2), None, 0.2, [1.0, 1.0])
    owners = new_owners(task, attempt(task, 0), view, None)
    value = task.vectors.costs[task.vectors.of_key]
    for kind in np.unique(value):
        stays = view.costs[(value == kind) & (owners == 0)]
        goes = view.costs[(value == kind) & (owners == 1)]
        assert stays.max(initial=0) <= goes.min(initial=np.inf)
    assert 0 < owners[:6].sum() < 6


@st.composite
def perfect_assignments(draw) -> tuple[list[int], int]:
    """Costs that can be divided into equal sums, one per worker, each cut at random places."""
    n_workers = draw(st.integers(2, 6))
    total = draw(st.integers(6, 60))
    costs = []
    for _ in range(n_workers):
        cuts = draw(st.lists(st.integers(1, total - 1), max_size=5, unique=True))
        edges = [0, *sorted(cuts), total]
        costs += [b - a for a, b in pairwise(edges)]
    return costs, n_workers


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(
    perfect_assignments(),
    st.randoms(use_true_random=False),
    st.sampled_from([None, 1.0, 1.5]),
    st.sampled_from([0.0, 0.08, 0.2]),
    st.booleans(),
)
def test_theorem_1_holds_from_any_assignment(perfect, random, beta, tolerance, clean):
    costs, n_workers = perfect
    view = observed(
        costs,
        owners=[random.randrange(n_workers) for _ in costs],
        homes=[random.randrange(n_workers) for _ in costs],
        sizes=[random.randrange(1, 9) for _ in costs],
    )
    n_back = len(costs) if clean else 0
    owners = planned(view, n_back, beta, tolerance, np.ones(n_workers))
    mean = sum(costs) / n_workers
    bound = max(tolerance, (1 - 1 / n_workers) / 3)
    # The sums are whole numbers; the bound itself is rounded.
    assert max(loads_of(view, owners, n_workers)) <= (1 + bound) * mean * (1 + 1e-12)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=60),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
    st.sampled_from([None, 0.5, 1.5]),
    st.booleans(),
)
def test_keys_no_larger_than_the_tolerance_always_find_a_place(costs, n, random, beta, clean):
    view = observed(
        costs,
        owners=[random.randrange(n) for _ in costs],
        homes=[random.randrange(n) for _ in costs],
        sizes=[random.randrange(1, 9) for _ in costs],
    )
    tolerance = max(costs) * n / sum(costs)
    owners = planned(view, len(costs) if clean else 0, beta, tolerance, np.ones(n))
    # The sums are whole numbers; the bound itself is rounded.
    assert max(loads_of(view, owners, n)) <= (1 + tolerance) * sum(costs) / n * (1 + 1e-12)


def test_a_key_too_large_for_every_worker_stays_where_it_is():
    view = observed([100, 1, 1, 1, 1, 1], owners=[2, 0, 0, 1, 1, 2], homes=[0, 0, 0, 1, 1, 2])
    assert planned(view, 0, None, 0.08, np.ones(3)) == view.owners.tolist()


def test_faster_workers_may_have_more():
    view = observed([1.0] * 60, owners=[0] * 60, homes=[0] * 60)
    owners = planned(view, 0, None, 0.0, [1.0, 2.0, 3.0])
    assert loads_of(view, owners, 3) == [10, 20, 30]


@pytest.mark.parametrize("degree", [1, 2, 8, 64])
def test_discretisation_equals_its_oracle(degree):
    rng = np.random.default_rng(degree)
    for n in (1, 3, 30, 400):
        values = np.ceil(rng.pareto(1.0, n) * 5)
        values[rng.random(n) < 0.1] = 0
        if values.any():
            values[values.argmax()] += 1
            values[0] = 1  # the unit
        got, unit = discretise(values, degree)
        assert unit == 1.0
        assert got.tolist() == reference.discretise(values.tolist(), degree)


@pytest.mark.parametrize("degree", [1, 2, 8, 64])
def test_discretisation_leaves_an_error_below_half_the_smallest_value_per_part(degree):
    # Theorem 3 says "about 0". With many keys of cost 1, which may become 1 or 2, each part ends
    # within half a unit; whole numbers, so it ends at 0.
    rng = np.random.default_rng(3)
    values = np.ceil(rng.pareto(1.2, 20_000))
    parts = rng.integers(0, 4, values.size).astype(np.int32)
    got, _ = discretise(values, degree, parts)
    for part in range(4):
        assert (values - got)[parts == part].sum() == 0


def test_discretised_values_are_few():
    values = np.random.default_rng(0).pareto(0.9, 100_000) + 1
    for degree in (8, 64):
        got, unit = discretise(values, degree)
        assert unit == values.min()
        large = got[got >= degree]
        assert (large % degree == 0).all()
        small = got[got < degree]
        assert set(small) <= {2.0**i for i in range(degree.bit_length() - 1)}


def test_numbers_too_small_to_matter_become_nothing_or_the_unit():
    got, unit = discretise(np.array([1e30, 1.0, 1.0]), 8)
    assert unit == 1e30 / 2**31
    assert set(got[1:]) <= {0.0, 1.0}


@pytest.mark.parametrize("n", [0, 1, 10, 5_000])
def test_the_order_is_that_of_a_stable_sort(n):
    rng = np.random.default_rng(n)
    for values in (
        rng.random(n),
        rng.integers(0, 5, n).astype(float),
        np.where(rng.random(n) < 0.5, 0.0, -0.0),
        np.where(rng.random(n) < 0.1, np.inf, rng.pareto(0.2, n)),
    ):
        expected = np.argsort(-values, kind="stable")
        np.testing.assert_array_equal(descending_order(values), expected)


def test_a_key_goes_where_the_table_says_and_otherwise_to_its_owner_on_the_ring():
    keys = np.arange(300, dtype=np.uint64)
    state = routing_table.start_table(7, 5)
    homes = reference_ring.route(keys, 7, 5)
    assert routing_table.owners(keys, state).tolist() == homes
    wanted = np.array(homes, np.int32)
    wanted[::3] = 4
    state = routing_table.with_entries(state, keys, wanted)
    assert routing_table.owners(keys, state).tolist() == wanted.tolist()
    assert routing_table.homes(keys, state).tolist() == homes
    in_table, workers = routing_table.all_entries(state)[:2]
    exceptions = np.flatnonzero(wanted != homes)
    assert in_table.tolist() == exceptions.tolist()
    assert workers.tolist() == wanted[exceptions].tolist()
    assert state.n_entries.tolist() == [exceptions.size]


def test_entries_of_workers_that_left_fall_to_the_ring():
    keys = np.arange(300, dtype=np.uint64)
    state = routing_table.start_table(7, 5)
    wanted = (keys % np.uint64(7)).astype(np.int32)
    state = routing_table.with_entries(state, keys, wanted)
    fewer = routing_table.rescaled(state, 5, None)
    ring_of_5 = reference_ring.route(keys, 5, 5)
    expected = np.where(wanted < 5, wanted, ring_of_5)
    assert routing_table.owners(keys, fewer).tolist() == expected.tolist()
    assert fewer.n_entries[0] == (expected != ring_of_5).sum()
