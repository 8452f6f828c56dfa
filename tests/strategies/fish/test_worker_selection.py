import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.fish.worker_selection import least_waiting
from skewless.kernels.bits import words_for
from skewless.state import check_state
from skewless.strategies.fish.worker_selection import (
    LEVELS,
    TICKS,
    pass_time,
    queued,
    send,
    send_to_least,
    set_seconds,
    waiting_times,
)

SPEEDS = {
    "equal": lambda w: 1.0,
    "two kinds": lambda w: 1.0 + w % 2,
    "one far slower": lambda w: 40.0 if w == 1 else 1.0,
    "all different": lambda w: 1.0 + 0.37 * w,
}


def as_words(workers, n_workers):
    words = np.zeros(words_for(n_workers), np.uint64)
    for worker in workers:
        words[worker // 64] |= np.uint64(1) << np.uint64(worker % 64)
    return words


@settings(deadline=None)
@given(
    data=st.data(),
    n_workers=st.sampled_from([1, 2, 5, 63, 64, 65, 130]),
    speeds=st.sampled_from(sorted(SPEEDS)),
)
def test_a_record_goes_to_who_waits_least(data, n_workers, speeds):
    turn = data.draw(st.integers(0, n_workers - 1))
    times = waiting_times(np.array([SPEEDS[speeds](w) for w in range(n_workers)]), turn)
    expected = [0] * n_workers
    a_worker = st.integers(0, n_workers - 1)
    for step in data.draw(st.lists(st.sampled_from("lllspx"), max_size=40)):
        if step == "l":
            some = data.draw(st.sets(a_worker, min_size=1, max_size=min(n_workers, 9)))
            worker = send_to_least(times, as_words(some, n_workers), 0)
            assert worker == least_waiting(expected, some, turn)
            expected[worker] += int(times.costs[worker])
        elif step == "s":
            worker = data.draw(a_worker)
            send(times, worker)
            expected[worker] += int(times.costs[worker])
        elif step == "p":
            passed = data.draw(st.integers(0, 3 * TICKS))
            pass_time(times, float(passed))
            turn = least_waiting(expected, range(n_workers), turn)
            expected = [max(0, wait - passed) for wait in expected]
        else:  # somebody falls far behind
            worker = data.draw(a_worker)
            for _ in range(2 * LEVELS):
                send(times, worker)
            expected[worker] += 2 * LEVELS * int(times.costs[worker])
        assert times.ticks.tolist() == expected


@pytest.mark.parametrize("speeds", sorted(SPEEDS))
@pytest.mark.parametrize("n_workers", [3, 64, 100])
def test_it_stays_right_over_a_long_stream(n_workers, speeds):
    rng = np.random.default_rng(n_workers)
    times = waiting_times(np.array([SPEEDS[speeds](w) for w in range(n_workers)]))
    for _ in range(2_000):
        some = np.flatnonzero(rng.random(n_workers) < rng.choice([0.05, 0.5]))
        if some.size == 0 or rng.random() < 0.3:
            send(times, rng.integers(n_workers))
        else:
            expected = least_waiting(times.ticks.tolist(), some.tolist(), int(times.turn[0]))
            assert send_to_least(times, as_words(some.tolist(), n_workers), 0) == expected
        if rng.random() < 0.01:
            pass_time(times, float(rng.integers(8 * TICKS)))


def test_every_worker_is_in_exactly_one_set():
    rng = np.random.default_rng(4)
    n_workers = 70
    times = waiting_times(1.0 + rng.random(n_workers))
    for _ in range(3_000):
        some = rng.choice(n_workers, 5, replace=False)
        send_to_least(times, as_words(some.tolist(), n_workers), 0)
    bits = np.unpackbits(times.sets.view(np.uint8), bitorder="little").reshape(LEVELS + 1, -1)
    assert bits.sum(axis=0).tolist() == [1] * n_workers + [0] * (128 - n_workers)


def test_other_speeds_keep_the_records_that_wait():
    times = waiting_times(np.array([0.5, 1.0]))
    for _ in range(6):
        send(times, 0)
        send(times, 1)
    assert (times.ticks * (0.5 / TICKS)).tolist() == [3.0, 6.0]
    set_seconds(times, np.array([0.25, 2.0]))
    assert queued(times).tolist() == [6.0, 6.0]
    assert (times.ticks * (0.25 / TICKS)).tolist() == [1.5, 12.0]
    assert times.costs.tolist() == [TICKS, 8 * TICKS]


@pytest.mark.parametrize("n_workers", [3, 64, 130])
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_equal_waits_are_taken_in_turn(n_workers, turn):
    turn = turn * (n_workers - 1) // 2
    times = waiting_times(np.ones(n_workers), turn)
    everybody = as_words(range(n_workers), n_workers)
    sent_to = [int(send_to_least(times, everybody, 0)) for _ in range(n_workers + 2)]
    order = [(turn + j) % n_workers for j in range(n_workers)]
    assert sent_to == order + order[:2]


def test_the_turn_goes_on_after_an_estimate():
    times = waiting_times(np.ones(4))
    everybody = as_words(range(4), 4)
    sent_to = []
    for _ in range(6):
        sent_to += [int(send_to_least(times, everybody, 0)) for _ in range(3)]
        pass_time(times, 100.0 * TICKS)  # all have done everything
    assert sent_to == [i % 4 for i in range(18)]


def test_a_worker_that_has_left_is_not_counted():
    times = waiting_times(np.array([1.0, np.inf, 1.0]))
    some = as_words([0, 2], 3)
    for _ in range(5 * LEVELS):
        send_to_least(times, some, 0)
    assert queued(times).tolist() == [2.5 * LEVELS, 0.0, 2.5 * LEVELS]
    assert times.same[0] == 1
    # The floor rises past it; else all others would be stragglers before long.
    assert times.floor[0] >= 2.5 * LEVELS - 1
    check_state(times, waiting_times(np.array([1.0, np.inf, 1.0])))
