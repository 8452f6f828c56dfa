from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import skewless
from skewless.simulator import simulate
from skewless.strategies import Hash, PartialKey, Shuffle
from skewless.strategy import Moves
from skewless.workloads import Zipf

WORKLOAD = Zipf(z=1.2, n_keys=500, n_records=25_000)


def _by_hand(strategy, workload, n_workers, n_sources, seed):
    """Record by record, with a dictionary for everything."""
    keys = np.concatenate(list(workload.chunks(seed, 1_000)))
    states = [strategy.start(n_workers, seed, source=s) for s in range(n_sources)]
    workers = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        strategy.route(keys[i : i + 1], states[i % n_sources], workers[i : i + 1])
    return keys, workers


@pytest.mark.parametrize("strategy", [Hash(), PartialKey(), Shuffle()])
@pytest.mark.parametrize("n_sources", [1, 3])
def test_counts_equal_those_made_by_hand(strategy, n_sources):
    window = 10_000
    run = simulate(
        strategy,
        WORKLOAD,
        n_workers=7,
        n_sources=n_sources,
        seed=3,
        window=window,
        chunk_size=3_001,
    )
    keys, workers = _by_hand(strategy, WORKLOAD, 7, n_sources, 3)
    assert run.n_records == keys.size
    assert run.loads.tolist() == [Counter(workers.tolist())[w] for w in range(7)]
    pairs = list(zip(keys.tolist(), workers.tolist(), strict=True))
    assert (run.n_keys, run.n_pairs) == (len(set(keys.tolist())), len(set(pairs)))
    assert run.windows.records.tolist() == [10_000, 10_000, 5_000]
    for i in range(3):
        part = slice(i * window, (i + 1) * window)
        assert run.windows.peaks[i] == max(Counter(workers[part].tolist()).values())
        assert run.windows.keys[i] == len(set(keys[part].tolist()))
        assert run.windows.pairs[i] == len(set(pairs[part]))


def test_chunk_size_changes_nothing():
    runs = [
        simulate(PartialKey(), WORKLOAD, n_workers=5, n_sources=2, chunk_size=size)
        for size in (100, 1 << 18)
    ]
    first, second = ({**run.summary(), "ns_per_record": 0} for run in runs)
    assert first == second


def test_a_short_last_window_counts_in_the_makespan_only():
    run = simulate(Shuffle(), Zipf(z=0, n_keys=10, n_records=1_003), n_workers=10, window=1_000)
    summary = run.summary()
    assert summary["window_imbalance_max"] == 0.0
    assert summary["makespan_ratio"] == pytest.approx((100 + 1) / (1_003 / 10))


def test_an_empty_stream_is_an_ordinary_one():
    summary = simulate(Hash(), Zipf(z=1, n_keys=5, n_records=0), n_workers=3).summary()
    assert summary["records"] == summary["keys"] == summary["imbalance"] == 0
    assert summary["replication"] == summary["makespan_ratio"] == 1.0


def test_capacities_count_in_balance_and_reach_strategies_that_rescale():
    speeds = np.array([1.0, 3.0])
    workload = Zipf(z=0, n_keys=20_000, n_records=40_000)
    told = simulate(Hash(ring=True), workload, n_workers=2, capacities=speeds)
    untold = simulate(Shuffle(), workload, n_workers=2, capacities=speeds)
    assert untold.summary()["imbalance"] == 1.0  # half of the records where a quarter is fair
    # 128 and 384 of 512 points: a share of 1/4 with a standard deviation of 2 points in 100.
    assert told.loads[0] / 40_000 == pytest.approx(0.25, abs=0.06)


@dataclass(frozen=True)
class SwapsAfterEachWindow(Hash):
    """A moving strategy that moves every key of two workers to the other one."""

    name: ClassVar[str] = "swaps"

    def route(self, keys, state, out):
        super().route(keys, state, out)
        out[:] = (out + int(state.seed[1]) % 2) % 2

    def rebalance(self, report, state):
        before = np.empty(report.keys.size, np.int32)
        self.route(report.keys, state, before)
        state = state._replace(seed=state.seed + np.array([0, 1], np.uint64))
        return state, Moves(report.keys, before, (1 - before).astype(np.int32))


def test_moving_family_rebalances_at_the_end_of_each_window():
    run = simulate(
        SwapsAfterEachWindow(), WORKLOAD, n_workers=2, n_sources=2, window=10_000, chunk_size=4_000
    )
    assert len(run.rebalances) == 2
    for i, rebalance in enumerate(run.rebalances):
        assert rebalance.state_moved == rebalance.state_held == 10_000 * (i + 1)
    assert run.windows.pairs.tolist() == run.windows.keys.tolist()  # one worker per key and window
    assert run.n_pairs > run.n_keys


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_workers": 0}, "workers must be at least 1, not 0"),
        ({"n_workers": 2, "n_sources": 0}, "sources must be at least 1, not 0"),
        ({"n_workers": 2, "window": 0}, "window must be at least 1, not 0"),
        ({"n_workers": 2, "capacities": [1]}, "one number per worker: 2, not 1"),
        ({"n_workers": 2, "capacities": [1, 0]}, "above 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(Hash(), WORKLOAD, **arguments)


def test_progress_is_told():
    told = []
    simulate(Hash(), WORKLOAD, n_workers=2, chunk_size=10_000, progress=told.append)
    assert told == [10_000, 20_000, 25_000]


def test_the_public_names_exist():
    assert set(skewless.__all__) <= set(dir(skewless))
