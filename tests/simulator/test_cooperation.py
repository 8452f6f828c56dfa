import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes import needs_a_long_stream
from simulator.rounds import cooperate
from skewless.simulator import Measuring, simulate
from skewless.simulator.forwarding import merging_of, partials
from skewless.simulator.syncing import merge_and_fork, next_interval
from skewless.state import named_arrays
from skewless.strategies import Cascade, PartialKey
from skewless.strategies.dalton import Dalton
from skewless.workloads import PerSource, Zipf

SMALL = Dalton(stats_window=200, slide=100)
STREAM = Zipf(z=1.5, n_keys=1_000, n_records=24_000)
MIXED = PerSource(exponents=(0.0, 1.5, 1.5, 2.0), n_keys=1_000, n_records=24_000)


class WeightedZipf(Zipf):
    """Records cost 1 and 4 in turn."""

    def __init__(self):
        super().__init__(z=1.5, n_keys=1_000, n_records=24_000)

    def weights(self, seed, chunk_size=1 << 18):
        for keys in self.chunks(seed, chunk_size):
            yield np.where(np.arange(keys.size) % 2, 4.0, 1.0)


def run(strategy=SMALL, workload=STREAM, **options):
    options = {"n_workers": 8, "n_sources": 4, "window": 1_600, "interval": 200} | options
    return cooperate(strategy, workload, **options)


def test_without_delay_it_is_what_simulate_does_at_every_sync():
    cooperation = run(workload=MIXED, seed=3)
    simulated = simulate(SMALL, MIXED, n_workers=8, n_sources=4, window=1_600, sync=4 * 200, seed=3)
    np.testing.assert_array_equal(cooperation.loads, simulated.loads)
    np.testing.assert_array_equal(cooperation.windows.pairs, simulated.windows.pairs)
    assert len(cooperation.syncs) == 24_000 // 800


def test_a_run_can_be_repeated_exactly():
    options = {"delay": [3, 0, 50, 7], "work": 20, "adaptive": True, "workload": MIXED}
    one, other = run(**options), run(**options)
    assert one.syncs == other.syncs
    assert one.merging == other.merging
    np.testing.assert_array_equal(one.loads, other.loads)


def test_every_record_is_routed_once_whatever_the_delay():
    for delay in (0, 1, 150, 1_000):
        result = run(delay=delay, workload=Zipf(z=1.5, n_keys=1_000, n_records=10_003))
        assert result.loads.sum() == result.n_records == 10_003


def test_an_answer_takes_two_messages_and_the_work():
    syncs = run(delay=30, work=10).syncs
    assert {sync.received - sync.sent for sync in syncs} == {70}
    assert [sync.sent for sync in syncs[:3]] == [200, 400, 600]
    assert not any(sync.n_late for sync in syncs)


def test_the_answer_waits_for_the_slowest_source():
    syncs = run(delay=[0, 5, 80, 0]).syncs
    assert {sync.received - sync.sent for sync in syncs} == {160}


def test_a_source_waits_between_message_and_answer():
    states = [SMALL.start(8, 1, source=s) for s in range(2)]
    for state in states:
        SMALL.wait(state)
        assert state.counters[0]["waiting"] == 1
    for state in merge_and_fork(SMALL, states):
        assert state.counters[0]["waiting"] == 0


def test_late_answers_double_the_interval_until_it_is_long_enough():
    syncs = run(delay=300, adaptive=True, shortest=100).syncs
    # An exchange takes 600 rounds: late at 200 and at 400, not at 800.
    assert [sync.interval for sync in syncs[:4]] == [200, 400, 800, 800]
    assert [sync.n_late for sync in syncs[:4]] == [0, 4, 4, 0]
    assert {sync.interval for sync in syncs[3:]} == {800}


def test_an_idle_reducer_halves_the_interval_until_it_is_short_enough():
    syncs = run(work=30, adaptive=True, shortest=10).syncs
    # It settles where an exchange takes more than half of the interval, here 30 of 50.
    assert [sync.interval for sync in syncs[:4]] == [100, 50, 50, 50]
    assert {sync.interval for sync in syncs[2:]} == {50}


def test_the_interval_follows_the_work_and_comes_back():
    """Figure 14b: the work doubles, doubles again, and is then as before."""

    def work(now):
        return 30 if now < 1_000 or now >= 3_000 else 60 if now < 2_000 else 120

    syncs = run(work=work, adaptive=True, shortest=10, interval=50).syncs
    settled = {
        now: next(s.interval for s in reversed(syncs) if s.sent < now)
        for now in (1_000, 2_000, 3_000, 6_000)
    }
    assert settled == {1_000: 50, 2_000: 100, 3_000: 200, 6_000: 50}


@needs_a_long_stream
def test_the_interval_has_a_least_length():
    idle = run(adaptive=True, shortest=150).syncs
    assert min(sync.interval for sync in idle) == 150
    assert {sync.interval for sync in run(delay=300).syncs} == {200}  # unless told to adapt


def test_a_fitting_interval_is_kept():
    for busy in range(1, 200):
        interval = 200
        for _ in range(20):
            late = busy > interval
            interval = next_interval(interval, n_late=late, idle=interval - busy, busy=busy)
        assert interval / 2 <= busy <= interval


@needs_a_long_stream
def test_weights_are_what_records_cost():
    weighted = WeightedZipf()
    cooperation = run(Cascade(), weighted, seed=3)
    simulated = simulate(
        Cascade(), weighted, n_workers=8, n_sources=4, window=1_600, sync=4 * 200, seed=3
    )
    np.testing.assert_allclose(cooperation.loads, simulated.loads)
    assert cooperation.loads.sum() == pytest.approx(2.5 * 24_000)
    # A strategy that does not weigh records is measured by what they cost.
    assert run(SMALL, weighted).loads.sum() == pytest.approx(2.5 * 24_000)


# --- key forwarding ------------------------------------------------------------------------------


def test_with_a_sync_at_the_end_of_each_window_nothing_is_forwarded_wrongly():
    for workload in (STREAM, MIXED):
        windows = run(workload=workload, interval=200).merging
        assert len(windows) == 24_000 // 1_600
        assert sum(window.n_wrong for window in windows) == 0
        # Most pairs belong to cold keys and need no merging.
        assert sum(s.n_merged_pairs for s in windows) < 0.5 * sum(s.n_pairs for s in windows)


@pytest.mark.parametrize("delay", [1, 40, 150, [0, 30, 90, 200], [199, 0, 1, 100]], ids=str)
@pytest.mark.parametrize("workload", [STREAM, MIXED], ids=["alike", "mixed"])
def test_late_answers_forward_nothing_wrongly(delay, workload):
    """A source may split a key while another one, whose answer is late, still takes it for cold."""
    for interval in (200, 130):
        windows = run(workload=workload, interval=interval, delay=delay).merging
        assert sum(window.n_wrong for window in windows) == 0
        assert sum(s.n_merged_pairs for s in windows) < sum(s.n_pairs for s in windows)


@settings(deadline=None)
@given(
    records=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30
    )
)
def test_a_part_that_is_handed_on_is_the_whole(records):
    """By the messages themselves: (source, key, worker); key k is hashed to worker k mod 4."""
    told = {key for _, key, worker in records if worker != key % 4}  # by any source, to key % 4
    parts = {(key, worker) for _, key, worker in records}
    final = {(key, worker) for key, worker in parts if worker == key % 4 and key not in told}
    for key, worker in final:
        assert {w for k, w in parts if k == key} == {worker}
    keys = np.array([key for _, key, _ in records], np.uint64)
    workers = np.array([worker for *_, worker in records], np.int32)
    pairs = partials(keys, workers)
    merged = np.isin(pairs.keys, np.array(sorted(told), np.uint64))
    window = merging_of(pairs, merged)
    assert (window.n_keys, window.n_pairs) == (len({k for k, _ in parts}), len(parts))
    assert window.n_merged_pairs == len(parts) - len(final)
    assert window.n_wrong == 0


def test_without_an_answer_in_the_window_nothing_is_forwarded():
    windows = run(interval=10_000).merging
    assert all(window.n_merged_pairs == window.n_pairs for window in windows)


def test_one_source_forwards_without_asking():
    windows = run(n_sources=1, interval=100_000).merging
    assert all(window.n_merged_pairs < window.n_pairs for window in windows)
    assert sum(window.n_wrong for window in windows) == 0


def test_forwarding_can_be_switched_off():
    windows = run(Dalton(stats_window=200, slide=100, forwarding=False)).merging
    assert all(window.n_merged_pairs == window.n_pairs for window in windows)


# --- simulate ------------------------------------------------------------------------------------


def test_sync_is_exact_whatever_the_chunks():
    options = {"n_workers": 8, "n_sources": 3, "sync": 700}
    one = simulate(SMALL, STREAM, **options)
    other = simulate(SMALL, STREAM, measuring=Measuring(chunk_size=999), **options)
    np.testing.assert_array_equal(one.loads, other.loads)
    assert (one.loads != simulate(SMALL, STREAM, n_workers=8, n_sources=3).loads).any()


def test_sync_works_by_batch():
    strategy = Dalton(stats_window=200, slide=100, by_batch=True)
    result = simulate(strategy, STREAM, n_workers=8, n_sources=2, sync=2_000, window=1_000)
    assert result.loads.sum() == 24_000


def test_a_strategy_that_does_not_merge_cannot_cooperate():
    with pytest.raises(ValueError, match="pkg does not merge"):
        run(PartialKey())
    with pytest.raises(ValueError, match="pkg does not merge"):
        simulate(PartialKey(), STREAM, n_workers=8, sync=100)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("n_workers", 0),
        ("interval", 0),
        ("delay", -1),
        ("delay", [1, 2]),
    ],
)
def test_bad_options_are_refused_by_name(option, value):
    with pytest.raises(ValueError, match=option):
        run(**{option: value})


def test_an_interval_outside_its_bounds_is_refused():
    with pytest.raises(ValueError, match="interval"):
        run(adaptive=True, shortest=300)


def test_states_share_no_arrays_after_a_merge():
    states = merge_and_fork(SMALL, [SMALL.start(8, 1, source=s) for s in range(2)])
    one, other = ([a for _, a in named_arrays(state) if a.size] for state in states)
    assert not any(np.shares_memory(a, b) for a in one for b in other)
