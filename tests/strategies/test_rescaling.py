"""Systems whose number of workers changes: what was learned is kept, and balance is restored."""

import numpy as np
import pytest

from command_line import run
from skewless.checks import applicable
from skewless.checks.contract import check_strategy
from skewless.state import copy_state
from skewless.strategies import Dalton, PdStream, PStream
from skewless.strategies.dalton.q_table import row_values
from skewless.strategies.dalton.watched_keys import owned_rows
from skewless.strategies.pd_stream.sampling_window import window_keys
from strategies.streams import imbalance, routed, skewed

SYSTEMS = [
    Dalton(),
    PdStream(),
    PdStream(adaptive=True),
    PStream(),
    PStream(until_evicted=True, bounded=False),
]


def after(strategy, n_workers, keys):
    state = strategy.start(n_workers, 3)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    return state


@pytest.mark.parametrize("strategy", SYSTEMS, ids=lambda strategy: strategy.name)
def test_the_checks_of_rescaling_hold(strategy):
    checks = [
        check for check in applicable(strategy) if "resc" in check.name or "leave" in check.name
    ]
    assert len(checks) == 2
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


@pytest.mark.parametrize("strategy", SYSTEMS, ids=lambda strategy: strategy.name)
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
    for strategy in SYSTEMS:
        with pytest.raises(ValueError, match="capacities must be above 0"):
            strategy.rescale(strategy.start(3, 0), 3, np.array([1.0, 0.0, 1.0]))


def test_routing_begins_anew_in_the_same_way():
    """Rescaling before the first record is a fresh start, but for the round of hot records."""
    keys = skewed(3_000)
    for strategy in SYSTEMS[:3]:
        rescaled = strategy.rescale(strategy.start(12, 3), 8)
        out = np.empty(keys.size, np.int32)
        strategy.route(keys, rescaled, out)
        assert out.tolist() == routed(strategy, keys, 8, 3).tolist()


def test_they_say_that_they_ignore_speeds():
    assert all(strategy.traits.ignores_speeds for strategy in SYSTEMS)
    stream = ["--zipf", "1", "--records", "2000"]
    told = run("simulate", "--strategy", "pstream,cascade", *stream, "--capacities", "1,2")
    assert "--capacities: pstream treat all workers alike" in told.stderr
