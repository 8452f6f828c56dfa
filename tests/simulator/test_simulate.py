from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import skewless
from skewless.parameters import WeightError
from skewless.simulator import Cluster, Measuring, simulate
from skewless.strategies import Cascade, Hash, Mixed, PartialKey, Prompt, Shuffle
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
        measuring=Measuring(chunk_size=3_001),
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


@dataclass(frozen=True)
class Costly(Zipf):
    """Records that cost 0 … 6: whole numbers, so that sums are exact in any order."""

    def weights(self, seed, chunk_size=1 << 18):
        for keys in self.chunks(seed, chunk_size):
            yield ((keys >> np.uint64(7)) % np.uint64(7)).astype(np.float64)


COSTLY = Costly(z=1.2, n_keys=500, n_records=25_000)


@pytest.mark.parametrize("strategy", [Cascade(), PartialKey()], ids=["weighs", "does not weigh"])
@pytest.mark.parametrize("n_sources", [1, 3])
def test_loads_are_costs_where_records_have_weights(strategy, n_sources):
    run = simulate(
        strategy,
        COSTLY,
        n_workers=7,
        n_sources=n_sources,
        seed=3,
        window=10_000,
        measuring=Measuring(chunk_size=3_001),
    )
    keys = np.concatenate(list(COSTLY.chunks(3)))
    weights = np.concatenate(list(COSTLY.weights(3)))
    states = [strategy.start(7, 3, source=s) for s in range(n_sources)]
    workers = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        one = slice(i, i + 1)
        if isinstance(strategy, Cascade):
            strategy.route_weighted(keys[one], weights[one], states[i % n_sources], workers[one])
        else:
            strategy.route(keys[one], states[i % n_sources], workers[one])
    costs = [sum(weights[workers == worker]) for worker in range(7)]
    assert run.loads.tolist() == costs
    assert run.summary()["imbalance"] == pytest.approx(max(costs) / (sum(costs) / 7) - 1)
    assert run.windows.records.tolist() == [10_000, 10_000, 5_000]
    for i in range(3):
        part = slice(i * 10_000, (i + 1) * 10_000)
        at = [sum(weights[part][workers[part] == worker]) for worker in range(7)]
        assert (run.windows.costs[i], run.windows.peaks[i]) == (sum(at), max(at))
    total = sum(run.windows.peaks) / (sum(costs) / 7)
    assert run.summary()["makespan_ratio"] == pytest.approx(total)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [(Cascade(), {"sync": 3_000}), (Prompt(), {}), (Mixed(), {})],
    ids=["with merges", "by batch", "rebalances"],
)
def test_weights_stay_with_their_records_however_the_stream_is_cut(strategy, options):
    runs = [
        simulate(
            strategy,
            COSTLY,
            n_workers=5,
            n_sources=2,
            measuring=Measuring(chunk_size=size),
            **options,
        )
        for size in (700, 1 << 18)
    ]
    times = {"ns_per_record": 0, "plan_seconds_mean": 0, "planned_plan_seconds_mean": 0}
    first, second = ({**run.summary(), **times} for run in runs)
    assert first == second
    assert sum(first["loads"]) == sum(sum(weights) for weights in COSTLY.weights(0))


def test_records_that_cost_nothing_are_balanced():
    class Free(Costly):
        def weights(self, seed, chunk_size=1 << 18):
            return (0.0 * weights for weights in super().weights(seed, chunk_size))

    run = simulate(Cascade(), Free(z=1.2, n_keys=500, n_records=25_000), n_workers=7).summary()
    assert run["imbalance"] == run["window_imbalance_max"] == 0.0
    assert run["makespan_ratio"] == 1.0
    assert run["records"] == 25_000


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[1.0, 2.0], [3.0]], "one per record: 2, not 1"),
        ([[1.0, 2.0]], "one per record: 2, not 0"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], "one per record: 0, not 1"),
        ([[1.0, 2.0], [3.0, np.nan]], "at least 0; that of record 3 is nan"),
        ([[1.0, -1.0]], "at least 0; that of record 1 is -1.0"),
        ([[np.inf, 1.0]], "finite and at least 0; that of record 0 is inf"),
    ],
)
@pytest.mark.parametrize("strategy", [Cascade(), Hash()], ids=["weighs", "does not weigh"])
def test_weights_that_are_no_costs_are_refused(strategy, weights, message):
    class Given(Zipf):
        def weights(self, seed, chunk_size=1 << 18):
            return map(np.array, weights)

    with pytest.raises(WeightError, match=message):
        simulate(
            strategy,
            Given(z=1, n_keys=9, n_records=4),
            n_workers=2,
            measuring=Measuring(chunk_size=2),
        )


def test_chunk_size_changes_nothing():
    runs = [
        simulate(
            PartialKey(), WORKLOAD, n_workers=5, n_sources=2, measuring=Measuring(chunk_size=size)
        )
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
    told = simulate(Hash(ring=True), workload, n_workers=2, cluster=Cluster(capacities=speeds))
    untold = simulate(Shuffle(), workload, n_workers=2, cluster=Cluster(capacities=speeds))
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
        SwapsAfterEachWindow(),
        WORKLOAD,
        n_workers=2,
        n_sources=2,
        window=10_000,
        measuring=Measuring(chunk_size=4_000),
    )
    assert len(run.rebalances) == 2
    for i, rebalance in enumerate(run.rebalances):
        assert rebalance.state_moved == rebalance.state_held == 10_000 * (i + 1)
    assert run.windows.pairs.tolist() == run.windows.keys.tolist()  # one worker per key and window
    assert run.n_pairs > run.n_keys


@dataclass(frozen=True)
class KeepsReports(Hash):
    """Moves nothing, and keeps what it was told."""

    reports: ClassVar[list] = []

    def rebalance(self, report, state):
        self.reports.append(report)
        nobody = np.empty(0, np.int32)
        return state, Moves(np.empty(0, np.uint64), nobody, nobody)


def test_a_report_has_what_keys_cost_in_a_window_and_records_for_their_state():
    simulate(
        KeepsReports(),
        COSTLY,
        n_workers=3,
        seed=3,
        window=10_000,
        measuring=Measuring(chunk_size=4_000),
    )
    keys = np.concatenate(list(COSTLY.chunks(3)))
    weights = np.concatenate(list(COSTLY.weights(3)))
    # The first plan is made twice, from the same report.
    reports = list({id(report): report for report in KeepsReports.reports}.values())
    assert len(reports) == 2
    for i, report in enumerate(reports):
        last = slice(10_000 * i, 10_000 * (i + 1))
        assert report.rest is None
        columns = (report.keys, report.loads, report.state_sizes)
        for key, load, size in zip(*columns, strict=True):
            assert load == weights[last][keys[last] == key].sum()
            assert size == (keys[: last.stop] == key).sum()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_workers": 0}, "n_workers must be 1 … 16,777,215, not 0"),
        ({"n_workers": 2, "n_sources": 0}, "n_sources must be 1 … 1,048,576, not 0"),
        ({"n_workers": 2, "window": 0}, "window must be at least 1, not 0"),
        ({"n_workers": 2, "cluster": Cluster(capacities=[1])}, "one number per worker: 2, not 1"),
        ({"n_workers": 2, "cluster": Cluster(capacities=[1, 0])}, "above 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(Hash(), WORKLOAD, **arguments)


def test_progress_is_told():
    told = []
    simulate(
        Hash(), WORKLOAD, n_workers=2, measuring=Measuring(chunk_size=10_000), progress=told.append
    )
    assert told == [10_000, 20_000, 25_000]


def test_the_public_names_exist():
    assert set(skewless.__all__) <= set(dir(skewless))


@dataclass(frozen=True)
class CountsIntervals(Prompt):
    """Notes when its intervals begin: after how many batches, and how long they will be."""

    noted: ClassVar[list[tuple[int, int]]] = []
    batches: ClassVar[list[int]] = []

    def begin(self, state, n_records):
        self.noted.append((len(self.batches), n_records))

    def route(self, keys, state, out):
        super().route(keys, state, out)
        self.batches.append(keys.size)


@pytest.mark.parametrize(
    ("horizon", "wanted"),
    [
        (0, [(1, 1_000), (2, 1_000), (3, 1_000)]),  # each window for itself
        (2_000, [(1, 2_000), (3, 2_000)]),
        (1_500, [(1, 1_500), (3, 1_500)]),  # an interval has whole windows
        (10**9, [(1, 10**9)]),
    ],
)
def test_intervals_begin_when_they_are_due(horizon, wanted):
    CountsIntervals.noted.clear()
    CountsIntervals.batches.clear()
    stream = Zipf(z=1.2, n_keys=500, n_records=2_500)
    simulate(CountsIntervals(), stream, n_workers=3, window=1_000, horizon=horizon)
    assert CountsIntervals.batches == [1, 1_000, 1_000, 500]  # the first one warms up
    assert CountsIntervals.noted == wanted


def test_every_source_expects_its_part_of_an_interval():
    CountsIntervals.noted.clear()
    CountsIntervals.batches.clear()
    stream = Zipf(z=1.2, n_keys=500, n_records=2_000)
    simulate(CountsIntervals(), stream, n_workers=3, n_sources=3, window=1_000, horizon=2_000)
    assert CountsIntervals.noted == [(1, 667)] * 3


def test_a_horizon_that_is_none_is_refused():
    with pytest.raises(ValueError, match="horizon must be"):
        simulate(Prompt(), WORKLOAD, n_workers=3, horizon=-1)
