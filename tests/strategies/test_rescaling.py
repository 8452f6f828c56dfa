"""Systems whose number of workers changes: what was learned is kept, and balance is restored."""

import numpy as np
import pytest

from command_line import run
from skewless.checks import applicable
from skewless.checks.contract import check_strategy
from skewless.kernels.space_saving import entries, is_hot
from skewless.state import copy_state
from skewless.strategies import (
    ALL,
    DKG,
    Dalton,
    DChoices,
    PdStream,
    PStream,
    Shuffle,
    WChoices,
)
from skewless.strategies.dalton.q_table import row_values
from skewless.strategies.dalton.watched_keys import owned_rows
from skewless.strategies.pd_stream.sampling_window import window_keys
from skewless.strategy import Rebalances, Report, Rescales, RescalesKeys
from strategies.streams import imbalance, routed, skewed

SYSTEMS = [
    Dalton(),
    PdStream(),
    PdStream(adaptive=True),
    PStream(),
    PStream(until_evicted=True, bounded=False),
]
#: Strategies that hash all keys anew, and one that keeps its buckets.
BASELINES = [
    cls()
    for cls in ALL
    if cls.name
    in [
        "shuffle",
        "pkg",
        "d-choices",
        "w-choices",
        "cm",
        "cam",
        "dagreedy",
        "prompt",
        "ideal",
        "dkg",
    ]
]


def after(strategy, n_workers, keys):
    state = strategy.start(n_workers, 3)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    return state


def after_reports(strategy, state, keys):
    """Route the keys, and let a strategy that rebalances do so."""
    out = np.empty(keys.size, np.int32)
    strategy.route(keys, state, out)
    if isinstance(strategy, Rebalances):
        known, counts = np.unique(keys, return_counts=True)
        state, _ = strategy.rebalance(Report(known, counts * 1.0, counts * 1.0), state)
    return state, out


def test_every_strategy_rescales():
    assert all(issubclass(cls, Rescales) for cls in ALL)
    moving = [cls() for cls in ALL if cls().traits.family == "moving"]
    assert all(isinstance(strategy, RescalesKeys) for strategy in moving)


@pytest.mark.parametrize("strategy", SYSTEMS + BASELINES, ids=lambda strategy: strategy.name)
def test_the_checks_of_rescaling_hold(strategy):
    checks = [
        check for check in applicable(strategy) if "resc" in check.name or "leave" in check.name
    ]
    assert len(checks) == (5 if strategy.name == "dkg" else 2)
    check_strategy(strategy, checks=checks)


@pytest.mark.parametrize("n_after", [6, 12, 16])
@pytest.mark.parametrize("strategy", SYSTEMS, ids=lambda strategy: strategy.name)
def test_after_one_window_it_is_as_balanced_as_a_fresh_start(strategy, n_after):
    window = 10_000  # the statistics window of Dalton, the longest of all
    keys = skewed(5 * window)
    rescaled = strategy.rescale(after(strategy, 12, keys[: 3 * window]), n_after)
    fresh = strategy.start(n_after, 3)
    later = {}
    for name, state in (("rescaled", rescaled), ("fresh", fresh)):
        strategy.route(keys[3 * window : 4 * window], state, np.empty(window, np.int32))
        out = np.empty(window, np.int32)
        strategy.route(keys[4 * window :], state, out)
        later[name] = imbalance(out, n_after)
    assert later["rescaled"] <= later["fresh"] + 0.1


@pytest.mark.parametrize("strategy", SYSTEMS + BASELINES, ids=lambda strategy: strategy.name)
def test_16_then_12_then_20_workers_are_as_balanced_as_fresh_ones(strategy):
    window = 10_000
    state, _ = after_reports(strategy, strategy.start(16, 3), skewed(window))
    keys = skewed(3 * window, seed=5)
    for n_workers in (12, 20):
        state, fresh = strategy.rescale(state, n_workers), strategy.start(n_workers, 3)
        loads = {}
        for name, one in (("rescaled", state), ("fresh", fresh)):
            for part in np.split(keys, 3):
                one, out = after_reports(strategy, one, part)
                loads[name] = np.bincount(out, minlength=n_workers), one
        state = loads["rescaled"][1]
        fullest = {name: part.max() / part.mean() for name, (part, _) in loads.items()}
        assert fullest["rescaled"] <= fullest["fresh"] + 0.1


@pytest.mark.parametrize("strategy", SYSTEMS + BASELINES, ids=lambda strategy: strategy.name)
def test_rescaling_leaves_the_old_state_alone(strategy):
    keys = skewed(12_000)
    state = after(strategy, 12, keys)
    same = copy_state(state)
    strategy.route(keys, strategy.rescale(state, 7), np.empty(keys.size, np.int32))
    one, other = (np.empty(keys.size, np.int32) for _ in range(2))
    strategy.route(keys, state, one)
    strategy.route(keys, same, other)
    assert one.tolist() == other.tolist()


def test_dalton_keeps_the_values_of_workers_that_stay():
    state = after(Dalton(), 12, skewed(30_000))
    rescaled = Dalton().rescale(state, 8)
    rows, before = owned_rows(rescaled.hot), owned_rows(state.hot)
    assert rows
    for key, row in rows.items():
        old = np.roll(row_values(state.q, before[key]), state.hot.homes[before[key]])
        new = np.roll(row_values(rescaled.q, row), rescaled.hot.homes[row])
        np.testing.assert_array_equal(new, old[:8])


def test_pd_stream_keeps_its_window():
    state = after(PdStream(), 12, skewed(5_000))
    found = window_keys(PdStream().rescale(state, 8).window)
    assert found.tolist() == window_keys(state.window)[-found.size :].tolist()
    assert found.size == 16


def test_a_worker_that_leaves_in_the_middle_is_refused():
    for strategy in SYSTEMS + BASELINES:
        with pytest.raises(ValueError, match="capacities must be above 0"):
            strategy.rescale(strategy.start(3, 0), 3, np.array([1.0, 0.0, 1.0]))


@pytest.mark.parametrize("strategy", [WChoices(), DChoices()], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("n_after", [4, 30])
def test_hot_keys_stay_hot(strategy, n_after):
    keys = skewed(20_000)
    hottest = np.bincount(keys.astype(np.int64)).argmax()
    state = strategy.rescale(after(strategy, 12, keys), n_after)
    assert state.head.summary.total[0] == keys.size
    known, counts, _ = entries(state.head.summary)
    assert known[0] == hottest
    assert counts[0] <= np.count_nonzero(keys == hottest) + keys.size / known.size
    assert is_hot(state.head, np.uint64(hottest))


def test_dkg_moves_only_buckets_of_workers_that_come_or_go():
    keys = skewed(20_000)
    state, _ = after_reports(DKG(), DKG().start(16, 3), keys)
    known = np.unique(keys)
    for n_workers in (12, 20, 3, 100):
        n_before = int(state.n_workers[0])
        state, moves = DKG().rescale_keys(known, state, n_workers)
        assert ((moves.targets >= n_before) | (moves.origins >= n_workers)).all()
        n_buckets = np.bincount(state.buckets, minlength=n_workers)
        assert n_buckets.max() - n_buckets.min() <= 0.5 * n_buckets.mean() + 1


def test_routing_begins_anew_in_the_same_way():
    """Rescaling before the first record is a fresh start, but for the round of hot records."""
    keys = skewed(3_000)
    hashed = [one for one in BASELINES if not isinstance(one, DKG | Shuffle)]
    for strategy in SYSTEMS[:3] + hashed:
        rescaled = strategy.rescale(strategy.start(12, 3), 8)
        out = np.empty(keys.size, np.int32)
        strategy.route(keys, rescaled, out)
        assert out.tolist() == routed(strategy, keys, 8, 3).tolist()


def test_they_say_that_they_ignore_speeds():
    assert all(strategy.traits.ignores_speeds for strategy in SYSTEMS + BASELINES)
    stream = ["--zipf", "1", "--records", "2000"]
    told = run("simulate", "--strategy", "pstream,cascade", *stream, "--capacities", "1,2")
    assert "--capacities: pstream treat all workers alike" in told.stderr
