"""What Cascade with foresight promises: balance, replicas, cost, and what an interval is."""

import numpy as np
import pytest

from skewless import make, metrics
from skewless.simulator import Cluster, simulate
from skewless.state import copy_state, named_arrays, state_bytes
from skewless.strategies.cascade import CascadeAhead
from skewless.strategies.cascade.ahead.state import TABLE
from skewless.workloads import EvolvingZipf, Zipf
from strategies.cascade.cascade_streams import STREAMS
from strategies.cascade.test_ahead_oracle import assert_equal_to_the_oracle
from strategies.streams import keys_of_one_order, keys_with_hash, routed, skewed, workers_by_key

N_WORKERS = 64


def intervals(keys, length, n_workers, tolerance, batch=2_500):
    """Yield the loads of each interval of a stream that comes in batches."""
    strategy = CascadeAhead(tolerance=tolerance)
    state = strategy.start(n_workers, 1)
    for first in range(0, keys.size, length):
        part = keys[first : first + length]
        strategy.begin(state, part.size)
        out = np.full(part.size, -1, np.int32)
        for i in range(0, part.size, batch):
            strategy.route(part[i : i + batch], state, out[i : i + batch])
        yield np.bincount(out, minlength=n_workers)


@pytest.mark.parametrize("tolerance", [1e-9, 0.03, 0.2])
@pytest.mark.parametrize("n_workers", [1, 7, 64])
@pytest.mark.parametrize("stream", STREAMS)
def test_no_worker_gets_more_than_is_promised(stream, n_workers, tolerance):
    for loads in intervals(STREAMS[stream], 5_000, n_workers, tolerance):
        mean = loads.mean()
        assert loads.max() <= mean + max(tolerance * mean, 1.0) + 2.0


@pytest.mark.parametrize("stream", STREAMS)
def test_a_batch_has_few_more_pieces_than_keys(stream):
    keys = STREAMS[stream][:10_000]
    strategy = CascadeAhead(tolerance=1e-9)
    out = routed(strategy, keys, N_WORKERS, 1)
    homes = routed(CascadeAhead(tolerance=1e9), np.unique(keys), N_WORKERS, 1)
    n_displaced = sum(
        bool(set(workers) - {home})
        for (_, workers), home in zip(
            sorted(workers_by_key(keys, out).items()), homes.tolist(), strict=True
        )
    )
    n_pairs = np.unique(np.stack([keys, out.astype(np.uint64)]), axis=1).shape[1]
    assert n_pairs <= np.unique(keys).size + n_displaced + N_WORKERS


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload",
    [
        Zipf(z=0.8, n_keys=3_000, n_records=100_000),
        Zipf(z=1.4, n_keys=50_000, n_records=100_000),
        Zipf(z=1.0, n_keys=40, n_records=100_000),
        EvolvingZipf(z=1.4, n_keys=10_000, n_records=100_000, period=50_000),
    ],
    ids=lambda workload: f"{workload.name}-{workload.z}-{workload.n_keys}",
)
def test_windows_are_balanced_with_fewer_replicas_than_ideal(workload):
    """Four sources that exchange nothing, one setting for all: the goals, with their margins."""
    own, ideal, online = (
        simulate(make(name), workload, n_workers=N_WORKERS, n_sources=4, seed=1).summary()
        for name in ("cascade-ahead", "ideal", "cascade")
    )
    assert own["window_imbalance_mean"] <= 0.04
    assert own["window_replication_mean"] <= 1.05 * ideal["window_replication_mean"]
    assert own["window_imbalance_mean"] < online["window_imbalance_mean"]
    assert own["replication"] <= online["replication"]  # over the whole stream


@pytest.mark.slow
@pytest.mark.parametrize("z", [0.0, 0.5])
def test_nothing_is_split_while_hash_is_within_the_tolerance(z):
    workload = Zipf(z=z, n_keys=1_000_000, n_records=400_000)
    plain = simulate(make("hash"), workload, n_workers=16, seed=1).summary()
    assert plain["imbalance"] < 0.03
    run = simulate(CascadeAhead(), workload, n_workers=16, seed=1, horizon=400_000)
    assert run.n_pairs == run.n_keys
    in_windows = simulate(CascadeAhead(), workload, n_workers=16, seed=1)
    assert in_windows.n_pairs > in_windows.n_keys  # where each window counts, it must be


@pytest.mark.slow
def test_an_interval_of_unknown_length_is_as_long_as_what_was_seen():
    keys = skewed(200_000, z=0.0, n_keys=100_000)
    n_workers, strategy = 16, CascadeAhead()
    known, unknown = strategy.start(n_workers, 1), strategy.start(n_workers, 1)
    strategy.begin(known, keys.size)
    loads = np.zeros(n_workers)
    moved = []
    for part in np.array_split(keys, 20):
        stay, out = np.empty(part.size, np.int32), np.empty(part.size, np.int32)
        strategy.route(part, known, stay)
        strategy.route(part, unknown, out)
        moved.append(int((stay != out).sum()))
        loads += np.bincount(out, minlength=n_workers)
        assert metrics.imbalance(loads) <= 0.03 + 2 / loads.mean()
    assert moved[0] > 0
    assert moved[-1] == 0


@pytest.mark.slow
def test_many_sources_are_balanced_together():
    workload = Zipf(z=1.2, n_keys=1_000_000, n_records=1_000_000)
    strategy = CascadeAhead()
    run = simulate(
        strategy, workload, n_workers=32, n_sources=32, seed=1, horizon=1_000_000
    ).summary()
    # One record too many in every source would be 32 · 32 / 1,000,000.
    assert run["imbalance"] <= 1.1e-3


@pytest.mark.slow
def test_workers_of_different_speed_are_balanced_in_windows():
    workload = Zipf(z=1.0, n_keys=1_000_000, n_records=200_000)
    speeds = 1.0 + np.arange(N_WORKERS) % 2
    run = simulate(
        CascadeAhead(), workload, n_workers=N_WORKERS, seed=1, cluster=Cluster(capacities=speeds)
    )
    assert run.summary()["makespan_ratio"] <= 1.03


def test_a_merge_begins_an_interval_as_long_as_the_last_one():
    strategy = CascadeAhead()
    states = [strategy.start(8, 1) for _ in range(3)]
    for n_records, state in zip((0, 3_000, 6_000), states, strict=True):
        strategy.route(skewed(n_records), state, np.empty(n_records, np.int32))
    merged = strategy.merge(states)
    assert merged.counters[0]["records"] == 0
    assert merged.counters[0]["expected"] == 3_000
    assert np.abs(merged.levels).max() <= 1.0


def test_a_report_is_small_and_of_bounded_size():
    strategy = CascadeAhead()
    state = strategy.start(N_WORKERS, 1)
    empty = state_bytes(strategy.condense(state))
    keys = np.arange(40_000, dtype=np.uint64)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    assert state_bytes(strategy.condense(state)) <= empty + 16 * (state.heavy.keys.size - 8)
    assert state_bytes(strategy.condense(state)) < 0.03 * state_bytes(state)


def test_what_is_left_in_the_buffers_does_not_matter():
    strategy = CascadeAhead()
    keys = skewed(3_000)
    state = strategy.start(16, 1)
    other = copy_state(state)
    rng = np.random.default_rng(1)
    for name, array in named_arrays(other.buffers):
        if name != "table":
            array[:] = rng.integers(0, 2 if array.dtype == bool else 100, array.size)
    outs = [np.empty(keys.size, np.int32) for _ in range(2)]
    strategy.route(keys, state, outs[0])
    strategy.route(keys, other, outs[1])
    assert outs[0].tolist() == outs[1].tolist()


def test_chosen_keys_of_one_order_are_placed_without_long_searches():
    n_workers, n_records = 128, 12_000
    keys = keys_of_one_order(n_records, n_workers, 5)
    oracle = assert_equal_to_the_oracle([keys], n_workers, 5)
    assert oracle.n_unsearched > 100  # without a bound, searches would be longer
    assert max(oracle.levels) <= n_records / n_workers * 1.03 + 1.0


def test_chosen_keys_that_meet_in_the_table_are_found_without_long_searches():
    n_workers, seed = 16, 5
    numbers = np.arange(4_000, dtype=np.uint64)
    keys = keys_with_hash(numbers * np.uint64(TABLE) * np.uint64(2**37 + 1), seed)
    oracle = assert_equal_to_the_oracle([np.tile(keys, 3)], n_workers, seed)
    assert oracle.n_unfound > 100  # without a bound, searches would be longer
    assert max(oracle.levels) <= 3 * numbers.size / n_workers * 1.03 + 1.0
