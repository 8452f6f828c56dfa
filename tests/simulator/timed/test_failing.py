"""Workers that fail: what they had is lost or sent again, and nothing else changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.three_choices import ThreeChoices
from skewless.simulator import Cluster, Event, Measuring, Timing, simulate
from skewless.simulator.timed.clock import Clock
from skewless.strategies import Cascade, Fish, Hash, Mixed
from skewless.workloads import Zipf

STREAM = Zipf(z=1.2, n_keys=1_000, n_records=20_000)
KEYS = np.arange(200, dtype=np.uint64)


def _clock(n_workers=2, n_sources=1, window=100, failing=(0,), **settings):
    timing = Timing(**{"service": 1.0, **settings})
    ones = np.ones(n_workers)
    return Clock(
        timing, n_sources=n_sources, window=window, capacities=ones, seed=0, failing=failing
    )


def _send(clock, workers):
    workers = np.array(workers, np.int32)
    clock.add(KEYS[: workers.size], workers, None)


def _to(worker):
    return lambda keys, costs, sources: np.full(keys.size, worker, np.int32)


def test_what_a_failing_worker_has_is_lost_or_sent_again():
    for replay in (False, True):
        clock = _clock()
        _send(clock, [0, 0, 0, 1])
        clock.fail(0, _to(1), replay=replay)
        _send(clock, [1])
        times = clock.finish()
        assert (times.lost.tolist(), times.replayed.tolist()) == (
            [0 if replay else 3],
            [3 * replay],
        )
        # Worker 1 is done with its own records at 1 and 2; what is sent again follows in turn.
        assert times.latency_sum.tolist() == [1 + 2 + (3 + 4 + 5 if replay else 0)]
        assert times.last.tolist() == [5.0 if replay else 2.0]
        assert times.latencies.sum() == (5 if replay else 2)


def test_a_worker_may_fail_256_times():
    clock = _clock(failing=(0,) * 256)
    _send(clock, [0, 0, 0, 1])
    clock.fail(0, _to(1), replay=False)
    assert clock.finish().lost.tolist() == [3]


def test_what_was_done_before_is_kept():
    clock = _clock(emit=1.0)
    _send(clock, [0, 0, 0])  # sent at 0, 1 and 2, done at 1, 2 and 3; it is 3 then
    clock.fail(0, _to(1), replay=False)
    assert clock.finish().lost.tolist() == [0]
    clock = _clock(emit=1.0, network=0.5)
    _send(clock, [0, 0, 0])  # the last one is done at 3.5
    clock.fail(0, _to(1), replay=False)
    times = clock.finish()
    assert times.lost.tolist() == [1]
    assert times.latency_sum.tolist() == [3.0]


def test_a_source_that_waits_for_the_worker_goes_on():
    # Source 0 has filled the queue of worker 0; its third record waits for a place until 1.
    clock = _clock(n_workers=6, n_sources=2, queue=1, emit=0.25)
    _send(clock, [0, 1, 0, 2, 0])
    assert clock.now == 0.5
    clock.fail(0, _to(5), replay=False)
    _send(clock, [3, 4])  # of sources 1 and 0
    times = clock.finish()
    assert times.lost.tolist() == [2]  # the record that waits at its source is not lost
    assert times.latency_sum.tolist() == [5.0]  # it goes to worker 5 at once
    assert times.last.tolist() == [1.75]  # and source 0 sends the next one at 0.75


def test_a_worker_that_comes_back_begins_with_an_empty_queue():
    clock = _clock(failing=(0, 0))
    for _ in range(2):
        _send(clock, [0] * 10)
        clock.fail(0, _to(1), replay=False)
    _send(clock, [0])
    times = clock.finish()
    assert times.lost.sum() == 20
    assert times.last.max() == 1.0


class _Plain:
    """One source, record by record; a worker fails before the record `at`."""

    def __init__(self, n_workers, queue, emit, network):
        self.n_workers, self.queue, self.emit, self.network = n_workers, queue, emit, network

    def run(self, workers, fails, at, replay):
        free = [0.0] * self.n_workers
        taken = [[-np.inf] * self.queue for _ in range(self.n_workers)]
        records = []  # worker, born, done
        due = 0.0
        n_lost = 0

        def serve(worker, time):
            begin = max(time + self.network, free[worker])
            free[worker] = begin + 1.0
            taken[worker].append(begin)
            return begin + 1.0

        for i, chosen in enumerate(workers):
            if i == at:
                had = [r for r in records if r[0] == fails and r[2] > due]
                records = [r for r in records if not (r[0] == fails and r[2] > due)]
                free[fails], taken[fails] = due, [-np.inf] * self.queue
                n_lost = len(had)
                other = (fails + 1) % self.n_workers
                if replay:
                    records += [(other, born, serve(other, due)) for _, born, _ in had]
            time = max(due, taken[chosen][-self.queue])
            records.append((chosen, time, serve(chosen, time)))
            due = time + self.emit
        latencies = sum(done - born for _, born, done in records)
        return n_lost, latencies, max(done for *_, done in records)


@given(
    seed=st.integers(0, 1000),
    n_workers=st.integers(2, 4),
    queue=st.integers(1, 4),
    emit=st.sampled_from([0.0, 0.3]),
    network=st.sampled_from([0.0, 0.7]),
    at=st.integers(0, 59),
    replay=st.booleans(),
)
def test_failures_equal_those_of_a_plain_simulation(
    seed, n_workers, queue, emit, network, at, replay
):
    rng = np.random.default_rng(seed)
    workers = rng.integers(0, n_workers, 60).astype(np.int32)
    fails = int(rng.integers(n_workers))
    other = (fails + 1) % n_workers
    workers[at:][workers[at:] == fails] = other
    clock = _clock(n_workers, window=60, failing=(fails,), queue=queue, emit=emit, network=network)
    clock.add(KEYS[:at], workers[:at], None)
    clock.fail(fails, _to(other), replay=replay)
    clock.add(KEYS[at:60], workers[at:], None)
    times = clock.finish()
    plain = _Plain(n_workers, queue, emit, network)
    n_lost, latency, last = plain.run(workers.tolist(), fails, at, replay)
    assert (times.replayed if replay else times.lost).sum() == n_lost
    assert times.latency_sum.sum() == pytest.approx(latency)
    assert times.last.max() == pytest.approx(last)


@pytest.mark.parametrize("queued", ["replayed", "lost"])
@pytest.mark.parametrize("n_sources", [1, 3])
@pytest.mark.parametrize("strategy", [Hash(), Fish(), Cascade(), Mixed()], ids=str)
def test_every_record_is_done_or_lost(strategy, n_sources, queued):
    any_worker = strategy.traits.any_may_leave
    run = simulate(
        strategy,
        STREAM,
        n_workers=4,
        n_sources=n_sources,
        window=1_000,
        timing=Timing(service=1e-3, queue=50, merge=1e-5),
        cluster=Cluster(
            events=[
                Event(at=7_003, worker=1 if any_worker else 3, kind="fail", queued=queued),
                Event(at=12_001, worker=1 if any_worker else 3, kind="join"),
                Event(at=15_000, worker=3, kind="fail", queued=queued),
            ]
        ),
        measuring=Measuring(keep_loads=True),
    )
    summary = run.summary()
    gone, kept = ("replayed", "lost") if queued == "replayed" else ("lost", "replayed")
    # With hash, the busiest worker slows all sources down, so that the queues of others are short.
    assert (0 if isinstance(strategy, Hash) else 1) <= summary[gone] < 200
    assert summary[kept] == 0
    assert run.times.latencies.sum() + run.times.lost.sum() == STREAM.n_records
    assert not run.windows.loads[16:, 3].any()
    assert run.times.merged.size == 20
    if queued == "lost":
        again = summary["throughput"] * summary["execution_seconds"]
        assert again == pytest.approx(STREAM.n_records - summary["lost"])


@pytest.mark.parametrize("more", [{"barrier": True}, {"merge": 1e-4, "unmerged": 1}], ids=str)
def test_failures_go_with_barriers_and_a_slow_merge_stage(more):
    run = simulate(
        Fish(),
        STREAM,
        n_workers=4,
        n_sources=2,
        window=1_000,
        timing=Timing(service=1e-3, spread="exponential", queue=50, **more),
        cluster=Cluster(
            events=[Event(at=at, worker=w, kind="fail") for w, at in ((1, 5_500), (2, 9_000))]
        ),
    )
    assert run.times.latencies.sum() == STREAM.n_records
    assert run.times.replayed.sum() > 0
    assert (np.diff(run.times.merged) > 0).all()


def test_what_cannot_fail_is_refused():
    fail = [Event(at=5, worker=1, kind="fail")]
    with pytest.raises(ValueError, match="a worker can fail only in a run with timing"):
        simulate(Hash(), STREAM, n_workers=4, cluster=Cluster(events=fail))
    with pytest.raises(ValueError, match="three-choices has a fixed number of workers"):
        simulate(ThreeChoices(), STREAM, n_workers=4, cluster=Cluster(events=fail), timing=Timing())
    with pytest.raises(ValueError, match="queued must be replayed unless kind is fail, not 'lost'"):
        Event(at=5, worker=1, kind="leave", queued="lost")
    with pytest.raises(ValueError, match="queued must be one of replayed, lost, not 'gone'"):
        Event(at=5, worker=1, kind="fail", queued="gone")


def test_a_worker_that_will_fail_is_measured_as_others_are():
    """A failure that hits nothing changes no time."""
    timing = Timing(service=1e-3, arrivals="poisson", rate=2_000, spread="exponential")
    usual = Event(at=19_999, worker=3, kind="leave")
    failing = Event(at=19_999, worker=3, kind="fail")
    one, other = (
        simulate(
            Hash(),
            STREAM,
            n_workers=4,
            window=1_000,
            timing=timing,
            cluster=Cluster(events=[event]),
        )
        for event in (usual, failing)
    )
    n_lost = other.times.replayed.sum()
    for column in ("first", "last", "latency_sum", "latency_max", "latencies"):
        ours, theirs = getattr(one.times, column)[:19], getattr(other.times, column)[:19]
        np.testing.assert_allclose(ours, theirs)
    assert n_lost < 50
