"""What happens to workers, keys and windows in virtual time."""

import numpy as np
import pytest

from examples.three_choices import ThreeChoices
from lanes import needs_a_long_stream
from skewless.simulator import Cluster, Event, Measuring, Sync, Timing, simulate
from skewless.simulator.starting import Membership
from skewless.simulator.timed.clock import Clock
from skewless.state import copy_state
from skewless.strategies import DKG, Cascade, Fish, Hash, Mixed, PartialKey, Shuffle
from skewless.workloads import Zipf

STREAM = Zipf(z=1.2, n_keys=1_000, n_records=40_000)
KEYS = np.arange(12, dtype=np.uint64)


def _clock(n_workers=2, n_sources=1, window=4, **settings):
    timing = Timing(**{"service": 1.0, **settings})
    return Clock(timing, n_sources=n_sources, window=window, capacities=np.ones(n_workers), seed=0)


def _send(clock, workers, keys=KEYS):
    workers = np.array(workers, np.int32)
    clock.add(keys[: workers.size], workers, None)


def test_windows_overlap():
    clock = _clock()
    _send(clock, [0, 0, 0, 1])
    _send(clock, [1, 1, 1, 1])
    assert clock.finish().last.tolist() == [3.0, 5.0]


def test_reducers_merge_each_replica_of_a_key():
    clock = _clock(merge=0.25, reducers=2)
    _send(clock, [0, 1, 0, 1], keys=np.array([2, 2, 3, 4], np.uint64))  # reducers 0, 0, 1, 0
    times = clock.finish()
    assert times.last.tolist() == [2.0]
    assert times.merged.tolist() == [2.0 + 3 * 0.25]


def test_sources_wait_for_a_slow_merge_stage():
    free, bound = (_clock(merge=5.0, unmerged=unmerged) for unmerged in (0, 1))
    for clock in (free, bound):
        for _ in range(3):
            _send(clock, [0, 1, 0, 1])
    assert free.finish().first[2] < 5.0
    assert bound.finish().first.tolist() == [0.0, 2.0 + 20.0, 22.0 + 2.0 + 20.0]


def test_a_held_key_waits_and_others_go_on():
    clock = _clock(n_workers=3, window=3)
    clock.hold(KEYS[:1], np.array([10.0]))
    _send(clock, [0, 1, 2])
    times = clock.finish()
    assert times.last.tolist() == [11.0]
    assert times.latency_sum.tolist() == [11.0 + 1.0 + 1.0]
    clock = _clock(n_workers=3, window=3, arrivals="even", rate=1.0)
    clock.hold(KEYS[:1], np.array([4.5]))
    for _ in range(4):
        _send(clock, [0, 1, 2])
    times = clock.finish()
    assert times.latencies.sum() == 12
    # Records 0 and 3 of the key came at 0 and 3, wait until 4.5, and keep the worker busy until
    # 6.5, so that record 6 waits for half a second.
    assert times.latency_max.tolist() == pytest.approx([5.5, 3.5, 1.5, 1.0])


def test_random_service_of_a_held_record_is_that_of_the_record():
    ends = []
    for until in (0.0, 1e-9):
        clock = _clock(n_workers=1, n_sources=2, window=12, spread="exponential")
        clock.hold(KEYS, np.full(KEYS.size, until))
        _send(clock, [0] * 12)
        ends.append(float(clock.finish().last[0]))
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)


@needs_a_long_stream
def test_a_transfer_that_takes_no_time_changes_nothing():
    stream = Zipf(z=0.9, n_keys=1_000, n_records=60_000)
    runs = [
        simulate(
            Mixed(),
            stream,
            n_workers=4,
            window=5_000,
            timing=Timing(service=1e-3, arrivals="even", rate=3_000, transfer=transfer),
        ).summary()
        for transfer in (0.0, 1e-12, 1e-4, 1e-3)
    ]
    assert runs[1]["latency_mean"] == pytest.approx(runs[0]["latency_mean"], rel=1e-3)
    assert runs[0]["latency_mean"] < runs[2]["latency_mean"] < runs[3]["latency_mean"]


def test_a_merge_stage_that_is_in_time_delays_nothing():
    ends = []
    for unmerged in (0, 25):  # a source may be many windows ahead of the other
        clock = _clock(n_sources=2, window=40, queue=1, merge=1e-9, unmerged=unmerged)
        rng = np.random.default_rng(3)
        for _ in range(30):
            _send(clock, rng.integers(0, 2, 40), keys=rng.integers(0, 9, 40).astype(np.uint64))
        ends.append(clock.finish().last.tolist())
    assert ends[0] == pytest.approx(ends[1])


def test_an_answer_does_not_bring_back_a_worker_that_left():
    run = simulate(
        Fish(),
        STREAM,
        n_workers=4,
        n_sources=2,
        window=1_000,
        sync=Sync(4_000, work=1_500),
        cluster=Cluster(events=[Event(at=5_000, worker=3, kind="leave")]),
        measuring=Measuring(keep_loads=True),
    )
    assert not run.windows.loads[5:, 3].any()


def test_balance_over_the_stream_counts_workers_while_they_are_there():
    run = simulate(
        Cascade(),
        STREAM,
        n_workers=4,
        window=1_000,
        cluster=Cluster(events=[Event(at=36_000, worker=3, kind="join")]),
    ).summary()
    assert run["imbalance"] < 0.05


@pytest.mark.parametrize("n_records", [0, 1])
def test_a_clock_without_records_or_with_one(n_records):
    stream = Zipf(z=1.0, n_records=n_records)
    run = simulate(Hash(), stream, n_workers=3, timing=Timing(service=2.0, merge=1.0))
    assert run.summary()["execution_seconds"] == 2.0 * n_records
    assert run.summary()["latency_p99"] == pytest.approx(2.0 * n_records, rel=0.05)
    assert run.by_window()["window_throughput"] == [0.5] * n_records


def test_records_that_cost_nothing_take_no_time():
    clock = _clock(n_workers=1, window=4)
    clock.add(KEYS[:4], np.zeros(4, np.int32), np.zeros(4))
    assert clock.finish().last.tolist() == [0.0]


def test_a_worker_that_slows_down_is_slow_from_then_on():
    timing = Timing(service=1e-3, queue=10)
    slow = [Event(at=20_000, worker=0, kind="speed", value=0.25)]
    usual, slowed = (
        simulate(
            Shuffle(), STREAM, n_workers=4, timing=timing, cluster=Cluster(events=events)
        ).summary()
        for events in ((), slow)
    )
    # Shuffle goes on sending a quarter of the records to the slow worker.
    assert usual["execution_seconds"] == pytest.approx(10.0, rel=0.01)
    assert slowed["execution_seconds"] == pytest.approx(5.0 + 20.0, rel=0.02)


def test_fish_measures_the_slow_worker_and_sends_it_less():
    timing = Timing(service=1e-3, queue=100)
    slow = [Event(at=10_000, worker=0, kind="speed", value=0.25)]
    run = simulate(
        Fish(),
        STREAM,
        n_workers=4,
        window=1_000,
        timing=timing,
        cluster=Cluster(events=slow),
        measuring=Measuring(keep_loads=True),
    )
    shares = run.windows.loads[20:, 0].sum() / run.windows.loads[20:].sum()
    assert shares < 0.13  # a fair share is 0.25 / 3.25 = 0.077


@needs_a_long_stream
def test_inferred_queues_can_be_compared_with_the_true_ones():
    timing = Timing(service=1e-3, arrivals="poisson", rate=3_600, queue=100_000)
    known = simulate(
        Fish(interval=0.01, utilisation=0.9), STREAM, n_workers=4, window=1_000, timing=timing
    )
    assert known.inferred.shape == (40, 4)
    summary = known.summary()
    # At nine tenths of the speed the true queues are short, and so are the inferred ones.
    assert summary["queue_inferred_error"] < 20
    blind = simulate(Shuffle(), STREAM, n_workers=4, window=1_000, timing=timing)
    assert "queue_inferred_error" not in blind.summary()


@pytest.mark.parametrize(
    "strategy", [Hash(), Fish(), PartialKey(), Cascade(), Mixed(), DKG()], ids=lambda one: one.name
)
def test_any_worker_can_leave_and_come_back(strategy):
    run = simulate(
        strategy,
        STREAM,
        n_workers=4,
        window=1_000,
        timing=Timing(service=1e-3),
        cluster=Cluster(
            events=[
                Event(at=10_000, worker=2, kind="leave"),
                Event(at=20_000, worker=2, kind="join"),
                Event(at=30_000, worker=3, kind="leave"),
            ]
        ),
        measuring=Measuring(keep_loads=True),
    )
    there = run.windows.loads[:, 2] > 0
    assert there.tolist() == [True] * 10 + [False] * 10 + [True] * 20
    assert not run.windows.loads[30:, 3].any()
    assert run.n_records == run.loads.sum() == 40_000
    assert run.windows.capacity.tolist() == [4.0] * 10 + [3.0] * 10 + [4.0] * 10 + [3.0] * 10


def test_moves_are_between_workers_not_between_numbers_of_a_strategy():
    """Worker 0 leaves, and worker 3 takes its number: keys of both move, and nothing else does."""
    members = Membership(Mixed(), np.ones(4), [Event(0, 0, "leave"), Event(1, 0, "join")])
    keys = np.arange(2_000, dtype=np.uint64)
    state, before = Mixed().start(4, 0), np.empty(keys.size, np.int32)
    Mixed().route(keys, state, before)
    for at, stays in enumerate([(1, 2, 3), (0, 1, 2, 3)]):
        members.apply(members.due(at)[0])
        for _ in range(2):  # as for two sources
            found, moves = members.rescaled(copy_state(state), keys)
        after = np.empty(keys.size, np.int32)
        Mixed().route(keys, found, after)
        after = members.workers_of(after)
        assert set(after.tolist()) == set(stays)
        changed = before != after
        assert moves.keys.tolist() == keys[changed].tolist()
        assert moves.origins.tolist() == before[changed].tolist()
        assert moves.targets.tolist() == after[changed].tolist()
        state, before = found, after


@pytest.mark.parametrize("strategy", [Cascade(), Mixed()], ids=["cascade", "mixed"])
def test_the_last_worker_can_join_later(strategy):
    run = simulate(
        strategy,
        STREAM,
        n_workers=4,
        window=1_000,
        cluster=Cluster(events=[Event(at=20_000, worker=3, kind="join")]),
        measuring=Measuring(keep_loads=True),
    )
    assert (run.windows.loads[:, 3] > 0).tolist() == [False] * 20 + [True] * 20


@needs_a_long_stream
def test_moves_take_time_and_plans_do():
    stream = Zipf(z=0.9, n_keys=1_000, n_records=100_000)
    timings = [
        Timing(service=1e-3, arrivals="even", rate=3_000, queue=100_000, **more)
        for more in ({}, {"transfer": 1e-3}, {"plan": 20.0})
    ]
    at_once, moving, late = (
        simulate(Mixed(), stream, n_workers=4, window=5_000, timing=timing) for timing in timings
    )
    assert at_once.rebalances[0].planned
    assert moving.summary()["latency_max"] > at_once.summary()["latency_max"]
    assert moving.loads.tolist() == at_once.loads.tolist()
    assert moving.times.latencies.sum() == 100_000
    # The first plan is ready 20 seconds, 12 windows, later: so long the loads are those of hashing.
    late_ratio = late.by_window()["window_max_load_ratio"]
    at_once_ratio = at_once.by_window()["window_max_load_ratio"]
    assert late_ratio[:5] == [at_once_ratio[0], *late_ratio[1:5]]
    assert min(late_ratio[1:11]) > max(at_once_ratio[2:11])
    assert late_ratio[-1] < 1.1


@needs_a_long_stream
def test_answers_of_a_sync_may_come_later():
    runs = [
        simulate(Fish(), STREAM, n_workers=8, n_sources=4, sync=Sync(4_000, work=delay))
        for delay in (0, 1_500, 100_000)
    ]
    alone = simulate(Fish(), STREAM, n_workers=8, n_sources=4)
    assert runs[0].loads.tolist() != runs[1].loads.tolist()
    assert runs[2].loads.tolist() == alone.loads.tolist()  # the answer came after the end


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"cluster": Cluster(events=[Event(0, 9, "speed", 1.0)])},
            "worker 9 is not one of the 4 workers",
        ),
        ({"cluster": Cluster(events=[Event(5, 1, "leave")])}, "three-choices has a fixed number"),
        (
            {"cluster": Cluster(events=[Event(5, 1, "speed", 2.0, told=True)])},
            "three-choices cannot be told of speeds",
        ),
        ({"cluster": Cluster(events="leave")}, "events must be a list of Event"),
        ({"timing": 3}, "timing must be a Timing, not 3"),
        ({"cluster": [1, 2]}, "cluster must be a Cluster, not \\[1, 2\\]"),
        ({"measuring": None}, "measuring must be a Measuring, not None"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(options, message):
    with pytest.raises(ValueError, match=message):
        simulate(ThreeChoices(), STREAM, n_workers=4, **options)


@pytest.mark.parametrize(
    ("strategy", "events", "message"),
    [
        (Cascade(), [Event(5, 0, "leave"), Event(6, 1, "leave")], "no worker is left at record 6"),
        (Hash(), [Event(5, 1, "leave"), Event(6, 1, "leave")], "it is not active"),
        (Hash(), [Event(5, 1, "leave"), Event(6, 1, "speed", 2.0)], "it is not active"),
        (Hash(), [Event(5, 1, "speed", 2.0), Event(6, 1, "join")], "it is not active"),
        (Hash(), [Event(5, 1, "leave"), Event(7, 0, "leave")], "no worker is left at record 7"),
    ],
)
def test_impossible_members_are_refused_before_any_work(strategy, events, message):
    with pytest.raises(ValueError, match=message):
        simulate(strategy, STREAM, n_workers=2, cluster=Cluster(events=events))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"service": 0.0}, r"service must be above 0 and at most 1e\+09, not 0.0"),
        (
            {"arrivals": "poisson"},
            r"rate must be 1e-06 … 1e\+12 where arrivals are poisson, not 0.0",
        ),
        ({"rate": 5.0}, "rate must be 0 where arrivals are full, not 5.0"),
        ({"arrivals": "daily"}, "arrivals must be one of full, even, poisson, not 'daily'"),
        ({"queue": 0}, "queue must be 1 … 1,048,576, not 0"),
        ({"merge": -1.0}, r"merge must be 0 … 1e\+09, not -1.0"),
        ({"unmerged": 2}, "unmerged must be 0 where merge is 0, not 2"),
    ],
)
def test_bad_times_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Timing(**settings)
