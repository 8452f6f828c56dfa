"""FISH when workers join, leave, or change speed."""

import numpy as np
import pytest

from lanes import needs_a_long_stream
from skewless.kernels.ring import candidates
from skewless.kernels.space_saving import entries
from skewless.simulator import Cluster, simulate
from skewless.state import check_state
from skewless.strategies.fish import Fish
from skewless.strategies.fish.hot_key_classification import headers, two_candidates
from skewless.strategies.fish.worker_estimation import estimate
from skewless.strategies.fish.worker_selection import TICKS, queued
from skewless.workloads import Zipf
from strategies.fish.references import sent
from strategies.streams import as_keys, skewed


@pytest.mark.parametrize("n_workers", [1, 5, 16])
def test_a_worker_who_joins_is_the_only_new_candidate(n_workers):
    strategy = Fish()
    small = strategy.start(n_workers, 4)
    large = strategy.rescale(small, n_workers + 1)
    few, many = np.empty(n_workers, np.int32), np.empty(n_workers + 1, np.int32)
    for hashed in np.random.default_rng(2).integers(0, 2**64, 50, dtype=np.uint64):
        candidates(small.rows.ring, hashed, n_workers, few)
        candidates(large.rows.ring, hashed, n_workers + 1, many)
        assert [w for w in many.tolist() if w != n_workers] == few.tolist()


def first_candidates(strategy, state, keys):
    """Where cold keys go when nobody waits."""
    firsts = [int(two_candidates(state.rows, key)[0]) for key in keys]
    return np.array(firsts)


def test_modulo_hashing_moves_nearly_all_keys_and_the_ring_few():
    keys = np.arange(2_000, dtype=np.uint64)
    moved = {}
    for by_ring in (True, False):
        strategy = Fish(ring=by_ring)
        state = strategy.start(128, 1)
        before = first_candidates(strategy, state, keys)
        after = first_candidates(strategy, strategy.rescale(state, 129), keys)
        moved[by_ring] = (before != after).mean()
    # The ring gives 1/129 of the keys to the newcomer, whose share is 1/√128 off. Modulo 129, a
    # key stays by chance alone: 128/129 of them change, and 2,000 keys are 0.2 % off.
    assert moved[True] < 0.015
    assert moved[False] > 0.985


def test_rescaling_keeps_what_was_learned():
    strategy = Fish(epoch=200)
    keys = skewed(5_050)
    state = strategy.start(10, 1)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    rescaled = strategy.rescale(state, 12)
    for before, after in zip(
        entries(state.recent.summary), entries(rescaled.recent.summary), strict=True
    ):
        assert before.tolist() == after.tolist()
    assert headers(rescaled.rows).tolist() == headers(state.rows).tolist()
    estimate(state.backlog)
    assert rescaled.backlog.waiting.ticks[:10].tolist() == state.backlog.waiting.ticks.tolist()
    assert rescaled.backlog.waiting.ticks[10:].tolist() == [0, 0]


def test_a_measured_speed_stays():
    strategy = Fish()
    state = strategy.start(3, 1)
    strategy.observe(state, seconds_per_record=[0.001, 0.004, 0.002])
    rescaled = strategy.rescale(state, 5)
    average = 3 / (1_000 + 250 + 500)
    np.testing.assert_allclose(
        rescaled.backlog.seconds, [0.001, 0.004, 0.002, average, average], rtol=1e-12
    )
    fewer = strategy.rescale(rescaled, 2)
    assert fewer.backlog.seconds.tolist() == [0.001, 0.004]
    faster = strategy.rescale(state, 3, np.array([1.0, 2.0, 1.0]))
    assert faster.backlog.seconds.tolist() == [0.001, 0.002, 0.002]
    assert strategy.rescale(faster, 3).backlog.seconds.tolist() == [0.001, 0.002, 0.002]


def test_a_new_time_per_record_changes_the_wait_of_what_is_queued():
    strategy = Fish(seconds_per_record=1.0)
    state = strategy.start(2, 1)
    sent(state, [6, 10])
    strategy.observe(state, seconds_per_record=[2.0, 1.0])
    assert queued(state.backlog.waiting).tolist() == [6.0, 10.0]
    out = np.empty(1, np.int32)
    strategy.route(as_keys([3]), state, out)  # both are candidates: 12 seconds and 10
    assert out.tolist() == [1]


@needs_a_long_stream
def test_a_worker_that_slows_down_gets_fewer_records_from_then_on():
    strategy = Fish()
    keys = np.random.default_rng(1).integers(0, 500, 200_000, dtype=np.uint64)
    state = strategy.start(8, 1)
    out = np.empty(keys.size, np.int32)
    strategy.route(keys, state, out)
    strategy.observe(state, seconds_per_record=[0.002, *[0.001] * 7])
    strategy.route(keys, state, out)
    loads = np.bincount(out, minlength=8)
    assert loads[0] == pytest.approx(0.5 * loads[1:].mean(), rel=0.05)


@needs_a_long_stream
@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.parametrize("heuristic", [True, False])
def test_any_worker_may_leave_and_come_back(ring, heuristic):
    strategy = Fish(epoch=500, ring=ring, heuristic=heuristic)
    keys = skewed(20_000)
    out = np.empty(keys.size, np.int32)
    for left in ([0], [3], [7], [1, 2, 6]):
        state = strategy.start(8, 1)
        strategy.route(keys, state, out)
        stays = np.ones(8)
        stays[left] = 0.0
        fewer = strategy.rescale(state, 8, stays)
        check_state(fewer, strategy.rescale(strategy.start(8, 1), 8, stays))
        strategy.route(keys, fewer, out)
        loads = np.bincount(out, minlength=8)
        assert loads[left].tolist() == [0] * len(left)
        others = np.delete(loads, left)
        assert others.max() < 1.1 * others.mean()
        back = strategy.rescale(fewer, 8)
        check_state(back, strategy.start(8, 1))
        strategy.route(keys, back, out)
        loads = np.bincount(out, minlength=8)
        assert loads.max() < 1.1 * loads.mean()


def test_with_the_ring_only_the_candidates_of_the_worker_that_leaves_change():
    strategy = Fish()
    state = strategy.start(20, 1)
    stays = np.ones(20)
    stays[7] = 0.0
    fewer = strategy.rescale(state, 20, stays)
    keys = np.arange(1_000, dtype=np.uint64)
    before = first_candidates(strategy, state, keys)
    after = first_candidates(strategy, fewer, keys)
    assert (before[before != 7] == after[before != 7]).all()
    assert (after != 7).all()
    # A ring on which one worker is missing has the same points as before for the others.
    back = strategy.rescale(fewer, 20)
    assert back.rows.ring.positions.tolist() == state.rows.ring.positions.tolist()


@needs_a_long_stream
def test_capacities_of_the_simulator_are_respected():
    workload = Zipf(z=1.2, n_keys=10_000, n_records=200_000)
    speeds = 1.0 + np.arange(16) % 3
    run = simulate(
        Fish(), workload, n_workers=16, n_sources=4, cluster=Cluster(capacities=speeds), sync=3_001
    )
    assert run.summary()["imbalance"] < 0.05


def test_without_the_heuristic_a_worker_joins_with_as_many_records_as_the_fewest():
    strategy = Fish(heuristic=False)
    state = strategy.start(4, 1)
    sent(state, [5, 3, 9, 4])
    rescaled = strategy.rescale(state, 6)
    assert (rescaled.backlog.waiting.ticks // TICKS).tolist() == [5, 3, 9, 4, 3, 3]
