"""Sources that learn together in `simulate`, compared with the protocol round by round."""

import numpy as np
import pytest

from lanes import slow
from reference.cooperation import Rounds
from simulator.rounds import cooperate
from skewless import registry
from skewless.simulator import Cluster, Event, Measuring, Sync, Timing, simulate
from skewless.simulator.starting import start_sources
from skewless.strategies import Cascade, Fish, Hash
from skewless.strategies.dalton import Dalton
from skewless.workloads import PerSource, Zipf

STREAM = Zipf(z=1.5, n_keys=300, n_records=6_011)
MIXED = PerSource(exponents=(0.0, 1.5, 2.0), n_keys=300, n_records=6_011)
FAR = 1 << 62

#: interval, delays, work, shortest and longest (None: the interval does not adapt)
UNEVEN = [
    (97, [5, 0, 31], 3, None),
    (50, [80, 1, 0], 7, (1, FAR)),
    (401, [0, 2, 0], 1, (3, FAR)),
]
MORE_UNEVEN = [
    (97, [0, 0, 0], 0, None),
    (3, [0, 0, 0], 0, None),
    (50, [80, 1, 0], 7, None),
    (401, [0, 0, 0], 13, (1, FAR)),
]


def _merging(strategy):
    return registry.make(strategy) if isinstance(strategy, str) else strategy


@pytest.mark.parametrize("setting", [*UNEVEN, *slow(MORE_UNEVEN)], ids=str)
@pytest.mark.parametrize(
    "strategy", [Dalton(stats_window=200, slide=100), "pstream", "fish", "cascade"], ids=str
)
def test_simulate_equals_the_protocol_round_by_round(strategy, setting):
    strategy = _merging(strategy)
    interval, delays, work, bounds = setting
    plain = Rounds(
        strategy,
        start_sources(strategy, 7, 3, 5),
        interval,
        delays,
        lambda _: work,
        bounds or (interval, interval),
    )
    keys = np.concatenate(list(MIXED.chunks(5)))
    workers = plain.route(keys, None)
    run = cooperate(
        strategy,
        MIXED,
        n_workers=7,
        n_sources=3,
        seed=5,
        window=300,
        interval=interval,
        delay=delays,
        work=work,
        adaptive=bounds is not None,
        shortest=1 if bounds is None else bounds[0],
    )
    syncs = [(sync.sent, sync.received, sync.interval, sync.n_late) for sync in run.syncs]
    assert syncs == plain.syncs
    assert run.loads.tolist() == np.bincount(workers, minlength=7).tolist()
    whole = workers[:6_000].reshape(-1, 300)
    assert run.windows.peaks[:20].tolist() == [np.bincount(w).max() for w in whole]


def test_a_sync_in_records_is_the_same_in_rounds():
    options = {"n_workers": 8, "n_sources": 3, "window": 300, "seed": 2}
    one = simulate(Fish(), STREAM, **options, sync=Sync(3 * 70, delay=3 * 11, work=3 * 4))
    other = cooperate(Fish(), STREAM, **options, interval=70, delay=11, work=4)
    assert one.loads.tolist() == other.loads.tolist()
    assert [sync.sent for sync in one.syncs] == [3 * sync.sent for sync in other.syncs]


def test_a_number_is_short_for_a_sync():
    options = {"n_workers": 8, "n_sources": 3, "window": 300}
    short = simulate(Fish(), STREAM, **options, sync=701)
    whole = simulate(Fish(), STREAM, **options, sync=Sync(701))
    assert short.loads.tolist() == whole.loads.tolist()
    assert short.syncs == whole.syncs


def test_a_sync_that_falls_between_two_rounds_is_at_its_record():
    run = simulate(Fish(), STREAM, n_workers=8, n_sources=4, sync=701)
    assert [sync.sent for sync in run.syncs] == list(range(701, 6_011, 701))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sync",
    [
        Sync(103),
        Sync(103, delay=[0, 31, 5, 0, 0, 211, 0, 2], adaptive=True),
        Sync(50, delay=[80, 1, 0, 0, 0, 0, 0, 0], work=7),
        Sync(3),
    ],
    ids=str,
)
def test_nothing_but_messages_says_when_sources_sync(sync):
    options = {"n_workers": 4, "n_sources": 8, "window": 100, "sync": sync}
    stream = Zipf(z=1.5, n_keys=300, n_records=1_511)
    # FISH would hear of the workers' times with a clock.
    dalton = Dalton(stats_window=200, slide=100)
    plain = simulate(dalton, stream, **options)
    timed = simulate(dalton, stream, **options, timing=Timing(service=1e-4))
    forwarding = simulate(dalton, stream, **options, measuring=Measuring(forwarding=True))
    assert plain.syncs == timed.syncs == forwarding.syncs
    assert plain.loads.tolist() == timed.loads.tolist() == forwarding.loads.tolist()
    if sync.interval == 103 and not sync.adaptive:
        assert [one.sent for one in plain.syncs] == list(range(103, 1_511, 103))
        fish = simulate(Fish(), stream, **options, timing=Timing(service=1e-4))
        assert fish.syncs == plain.syncs


def test_an_interval_shorter_than_a_round_is_a_round():
    stream = Zipf(z=1.5, n_keys=300, n_records=101)
    runs = [simulate(Fish(), stream, n_workers=4, n_sources=8, sync=sync) for sync in (1, 7, 8)]
    assert [one.sent for one in runs[0].syncs] == list(range(8, 101, 8))
    assert runs[0].syncs == runs[1].syncs == runs[2].syncs


def test_a_late_answer_is_followed_by_the_next_message_at_once():
    run = simulate(Fish(), STREAM, n_workers=8, n_sources=4, sync=Sync(400, work=500))
    assert [sync.sent for sync in run.syncs[:3]] == [400, 900, 1_400]


def test_sources_learn_together_by_batch_and_in_time():
    timing = Timing(service=1e-4, queue=50)
    events = [Event(at=2_000, worker=7, kind="leave")]
    run = simulate(
        Cascade(),
        STREAM,
        n_workers=8,
        n_sources=3,
        window=500,
        sync=Sync(300, delay=[400, 0, 90], adaptive=True),
        timing=timing,
        cluster=Cluster(events=events),
        measuring=Measuring(keep_loads=True),
    )
    assert run.loads.sum() == run.times.latencies.sum() == STREAM.n_records
    assert not run.windows.loads[4:, 7].any()  # an answer from before brings it not back
    summary = run.summary()
    assert summary["syncs"] == len(run.syncs) > 1
    assert summary["sync_interval"] == run.syncs[-1].interval > 300
    by_batch = simulate(
        registry.make("cascade-ahead"), STREAM, n_workers=8, n_sources=3, window=500, sync=701
    )
    assert [sync.sent for sync in by_batch.syncs[:4]] == [1_000, 1_500, 2_500, 3_000]


def test_forwarding_is_counted_on_request():
    dalton = Dalton(stats_window=200, slide=100)
    options = {"n_workers": 8, "n_sources": 3, "window": 600, "sync": 300}
    run = simulate(dalton, STREAM, **options, measuring=Measuring(forwarding=True))
    assert len(run.merging) == 6_011 // 600
    assert 0 < run.summary()["merged_pairs_share"] < 1
    assert run.summary()["forwarded_wrongly"] == 0
    assert not simulate(dalton, STREAM, **options).merging
    with pytest.raises(ValueError, match="forwarding: hash cannot tell"):
        simulate(Hash(), STREAM, n_workers=8, measuring=Measuring(forwarding=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval": 0}, "sync: interval must be at least 1, not 0"),
        ({"interval": 5, "delay": -1}, "sync: delay must be at least 0, not -1"),
        ({"interval": 5, "work": 0.5}, "sync: work must be a whole number, not 0.5"),
        ({"interval": 5, "adaptive": 1}, "sync: adaptive must be True or False, not 1"),
        ({"interval": 5, "shortest": 3}, "sync: adaptive must be True where shortest"),
        (
            {"interval": 5, "adaptive": True, "shortest": 8},
            "sync: interval must be at least shortest, 8, not 5",
        ),
    ],
)
def test_bad_syncs_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Sync(**settings)


def test_delays_and_sources_must_fit():
    with pytest.raises(ValueError, match="one for each of the 3 sources"):
        simulate(Fish(), STREAM, n_workers=8, n_sources=3, sync=Sync(500, delay=[1, 2]))
