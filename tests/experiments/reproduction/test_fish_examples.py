"""The worked examples of FISH, figures 7 and 8, with the numbers of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.kernels.ring import Ring, candidates, owner
from skewless.strategies.fish.worker_selection import send_to_least, set_queued, waiting_times

#: Figure 7: records assigned so far, those still unprocessed, and the time of a record (P_w).
ASSIGNED = np.array([400, 440, 280, 180])
UNPROCESSED = np.array([50.0, 40.0, 50.0, 30.0])
SECONDS = np.array([1.0, 1.0, 2.0, 2.0])


def test_figure_7_chooses_the_shortest_waiting_time_not_the_fewest_records() -> None:
    times = waiting_times(SECONDS)
    set_queued(times, UNPROCESSED)
    waits = times.ticks / times.costs * SECONDS
    assert waits.tolist() == [50.0, 40.0, 100.0, 60.0]  # ① to ④ of the figure
    assert int(ASSIGNED.argmin()) == 3  # what earlier schemes choose: W4
    assert send_to_least(times, np.array([0b1111], np.uint64), 0) == 1  # W2


def ring_of(points: dict[float, int]) -> Ring:
    """Return a ring with these workers, by their places on a circle of length 1."""
    places = sorted(points)
    workers = np.array([points[place] for place in places], np.int32)
    positions = np.array([int(place * 2**64) for place in places], np.uint64)
    starts = np.array([0, 1 << 63], np.uint64)
    return Ring(
        positions=np.append(positions, np.uint64(2**64 - 1)),
        workers=np.append(workers, workers[0]),
        first=np.searchsorted(positions, starts).astype(np.int32),
        shift=np.array([63], np.uint64),
        unit=np.ones(1),
        seen=np.zeros(5, np.int64),
        stamp=np.zeros(1, np.int64),
    )


#: Clockwise, as figure 8a has them: key1, worker1, key3, worker2, key2, key4, worker3.
KEYS = {"key1": 0.1, "key3": 0.4, "key2": 0.6, "key4": 0.8}
WORKERS = {0.2: 1, 0.5: 2, 0.9: 3}
A = {"key1": 1, "key3": 2, "key2": 3, "key4": 3}


@pytest.mark.parametrize(
    ("points", "owners"),
    [
        (WORKERS, A),
        ({0.2: 1, 0.9: 3}, {**A, "key3": 3}),  # (b): worker2 is gone
        ({**WORKERS, 0.7: 4}, {**A, "key2": 4}),  # (c): worker4 comes
        # (d): two virtual nodes for each of two workers
        ({0.2: 1, 0.45: 3, 0.65: 1, 0.9: 3}, {"key1": 1, "key2": 1, "key3": 3, "key4": 3}),
    ],
    ids=["a", "b", "c", "d"],
)
def test_figure_8_moves_only_the_keys_next_to_a_changed_worker(
    points: dict[float, int], owners: dict[str, int]
) -> None:
    ring = ring_of(points)
    places = {key: np.uint64(int(place * 2**64)) for key, place in KEYS.items()}
    assert {key: int(owner(ring, place)) for key, place in places.items()} == owners
    out = np.empty(4, np.int32)
    for key, place in places.items():  # the candidates of Algorithm 3 begin with the owner
        n_found = candidates(ring, place, 4, out)
        assert out[0] == owners[key]
        assert set(out[:n_found].tolist()) == set(points.values())
