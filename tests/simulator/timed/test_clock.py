"""Virtual time against queueing theory, and against a plain event simulation."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import needs_a_long_stream
from skewless.simulator import Timing, simulate
from skewless.simulator.timed.clock import Clock
from skewless.simulator.timed.under_way import latency_quantile
from skewless.strategies import Hash, Shuffle
from skewless.workloads import Zipf

N_RECORDS = 400_000
STREAM = Zipf(z=0.5, n_records=N_RECORDS)


def _waiting_room(**settings):
    """Records at random to one worker whose queue is never full."""
    timing = Timing(service=1.0, arrivals="poisson", queue=100_000, **settings)
    return simulate(Hash(), STREAM, n_workers=1, n_sources=1, seed=5, timing=timing).summary()


# Over 400,000 records the mean latency of these queues has a standard error of at most 2 %.
@needs_a_long_stream
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_random_service_is_as_theory_says(load):
    """M/M/1: 1 / (μ − λ)."""
    assert _waiting_room(rate=load, spread="exponential")["latency_mean"] == pytest.approx(
        1 / (1 - load), rel=0.05
    )


@needs_a_long_stream
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_fixed_service_is_as_theory_says(load):
    """M/D/1: Pollaczek and Khinchine."""
    assert _waiting_room(rate=load)["latency_mean"] == pytest.approx(
        1 + load / (2 * (1 - load)), rel=0.05
    )


@needs_a_long_stream
def test_the_median_of_random_service_is_as_theory_says():
    """The time in an M/M/1 system is exponential; a bucket is 9 % wide."""
    summary = _waiting_room(rate=0.6, spread="exponential")
    assert summary["latency_p50"] == pytest.approx(math.log(2) / 0.4, rel=0.08)
    assert summary["latency_p99"] == pytest.approx(math.log(100) / 0.4, rel=0.1)


@needs_a_long_stream
def test_littles_law():
    """Records in a system = rate · time in it; here over queues as the windows ended."""
    timing = Timing(service=1.0, arrivals="poisson", rate=5.6, queue=1_000, spread="exponential")
    stream = Zipf(z=0.0, n_keys=100_000, n_records=N_RECORDS)
    run = simulate(Shuffle(), stream, n_workers=8, seed=2, window=200, timing=timing).summary()
    waits = run["latency_mean"] - 1.0
    assert run["queue_mean"] * 8 == pytest.approx(5.6 * waits, rel=0.1)


@needs_a_long_stream
def test_work_is_conserved():
    """A worker is busy for as long as its records take, and the last one ends when all are done."""
    run = simulate(
        Hash(), STREAM, n_workers=4, n_sources=3, timing=Timing(service=1e-3, queue=1_000_000)
    )
    assert run.times is not None
    assert run.times.last.max() == pytest.approx(run.loads.max() * 1e-3)


class _Plain:
    """The same rules, record by record with plain lists; the order of events is a heap's."""

    def __init__(self, n_workers, n_sources, queue, pending, emit, capacities):
        self.free = [0.0] * n_workers
        self.taken = [[-math.inf] * queue for _ in range(n_workers)]
        self.queue, self.pending, self.emit = queue, pending, emit
        self.capacities = capacities
        self.n_sources = n_sources

    def run(self, workers, costs):
        """Return the completion of each record."""
        shares = [list(range(s, len(workers), self.n_sources)) for s in range(self.n_sources)]
        under_way = [[] for _ in shares]
        events = [(0.0, s) for s in range(self.n_sources) if shares[s]]
        heapq.heapify(events)
        done = [0.0] * len(workers)
        while events:
            time, source = heapq.heappop(events)
            i = shares[source].pop(0)
            w = workers[i]
            time = max(time, self.taken[w][-self.queue])
            begin = max(time, self.free[w])
            self.free[w] = done[i] = begin + costs[i] / self.capacities[w]
            self.taken[w].append(begin)
            under_way[source].append(done[i])
            if shares[source]:
                heapq.heappush(events, (self._room(under_way[source], time), source))
        return done

    def _room(self, under_way, time):
        """Return when a source is free, and fewer than `pending` of its records are not done."""
        if not self.pending or len(under_way) < self.pending:
            return time + self.emit
        return max(time + self.emit, sorted(under_way)[len(under_way) - self.pending])


@given(
    seed=st.integers(0, 1000),
    n_workers=st.integers(1, 5),
    n_sources=st.integers(1, 4),
    queue=st.integers(1, 4),
    pending=st.integers(0, 3),
    emit=st.sampled_from([0.0, 0.3]),
    window=st.integers(1, 40),
)
def test_times_equal_those_of_a_plain_simulation(
    seed, n_workers, n_sources, queue, pending, emit, window
):
    rng = np.random.default_rng(seed)
    workers = rng.integers(0, n_workers, 60).astype(np.int32)
    costs = rng.integers(1, 9, 60) / 4
    capacities = rng.integers(1, 3, n_workers).astype(np.float64)
    timing = Timing(service=1.0, queue=queue, pending=pending, emit=emit)
    clock = Clock(timing, n_sources=n_sources, window=window, capacities=capacities, seed=0)
    for first in range(0, 60, window):
        part = slice(first, first + window)
        clock.add(np.arange(60, dtype=np.uint64)[part], workers[part], costs[part])
    times = clock.finish()
    plain = _Plain(n_workers, n_sources, queue, pending, emit, capacities)
    done = np.array(plain.run(workers.tolist(), costs.tolist()))
    for number, first in enumerate(range(0, 60, window)):
        assert times.last[number] == pytest.approx(done[first : first + window].max())


def test_a_quantile_is_that_of_its_bucket():
    counts = np.zeros(384, np.int64)
    counts[80] = 99
    counts[160] = 1
    assert latency_quantile(counts, 0.5) == pytest.approx(1e-9 * 2 ** (80.5 / 8))
    assert latency_quantile(counts, 1.0) == pytest.approx(1e-9 * 2 ** (160.5 / 8))
    assert latency_quantile(np.zeros(384, np.int64), 0.5) == 0.0
