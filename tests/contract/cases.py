"""Every strategy with its defaults, and with settings so small that everything happens often."""

from skewless.checks import applicable
from skewless.strategies import (
    ALL,
    DKG,
    CardinalityMinimal,
    Cascade,
    CascadeAhead,
    CountAffinity,
    DAGreedy,
    Dalton,
    DChoices,
    Fish,
    Hash,
    MinMig,
    MinTable,
    Mixed,
    MixedBruteForce,
    PdStream,
    PStream,
    Readj,
    Simple,
    WChoices,
)
from skewless.strategy import Merges

SMALL = [
    Hash(ring=True),
    Hash(ring=True, virtual_nodes=1),
    DChoices(refresh=20),
    DChoices(capacity=3, hot_factor=1.0),
    WChoices(capacity=3),
    CardinalityMinimal(window=64),
    CardinalityMinimal(window=7, measure="sum"),
    CountAffinity(window=64),
    CountAffinity(window=1, measure="keys"),
    DAGreedy(interval=50, hot_divisor=1),
    DAGreedy(interval=7),
    Fish(epoch=7, capacity=5, interval=0.01, alpha=0.5),
    Fish(classification="w-choices"),
    Fish(classification="d-choices", epoch=50),
    Fish(heuristic=False),
    Fish(ring=False, epoch=50),
    Fish(alpha=1.0, epoch=20),
    Fish(virtual_nodes=1, epoch=50, interval=0.001),
    Dalton(stats_window=40, slide=15, n_slides=3),
    Dalton(stats_window=40, slide=15, n_slides=3, statistics="count-min"),
    Dalton(stats_window=40, slide=15, n_slides=3, statistics="exact"),
    Dalton(stats_window=40, slide=15, n_slides=3, exact_keys=10),
    Dalton(stats_window=40, slide=15, n_slides=3, max_split=3),
    Dalton(stats_window=40, slide=15, n_slides=3, by_batch=True),
    Dalton(stats_window=40, slide=15, n_slides=3, by_batch=True, hybrid=False),
    Dalton(stats_window=40, slide=15, n_slides=3, share_loads=False, exploration=1.0),
    Dalton(stats_window=1, slide=1, n_slides=1),
    Cascade(tolerance=0.001),
    Cascade(without="splitting"),
    Cascade(without="grading"),
    Cascade(without="fading"),
    Cascade(without="yielding"),
    Cascade(without="handicaps"),
    CascadeAhead(tolerance=1e-9),
    CascadeAhead(tolerance=10.0),
    PdStream(adaptive=True),
    PdStream(count_incoming=True),
    PdStream(alpha=0.5),
    PdStream(alpha=40, theta=1),
    PdStream(adaptive=True, count_incoming=True, alpha=1),
    DKG(theta=0.05, buckets=1),
    PStream(f=1.0, length=2),
    PStream(f=0.05),
    PStream(least_f=0.01, interval=0.2, time_weight=0.9),
    PStream(least_f=0.3, interval=0.1, time_weight=0.1),
    PStream(f=0.2, whole_runs=True, until_evicted=True),
    Mixed(tolerance=0.0, max_entries=5),
    Mixed(compact=True),
    Mixed(compact=True, discretisation=0, max_entries=0),
    Mixed(pin_giants=False, two_sided=False, forget_after=1),
    Mixed(two_sided=False, max_entries=30),
    Mixed(pin_giants=False, tolerance=0.5),
    MixedBruteForce(max_entries=20, compact=True),
    MinTable(tolerance=0.0),
    MinTable(compact=True, discretisation=1),
    MinMig(beta=0.5, tolerance=0.0),
    Simple(tolerance=0.0),
    Readj(sigma=0.1),
    Readj(tolerance=0.0),
    Readj(pin_giants=True, two_sided=True, forget_after=2),
    Simple(pin_giants=True, two_sided=True),
]

DEFAULTS = [cls() for cls in ALL]
CASES = DEFAULTS + SMALL
IDS = [repr(case) for case in CASES]

#: What is merged on long streams: the defaults, and parts of FISH that merge otherwise.
MERGING = [
    *(case for case in DEFAULTS if isinstance(case, Merges)),
    Fish(heuristic=False),
    Fish(interval=0.05),
    Fish(classification="d-choices"),
]


def without_own_streams(strategy):
    """Return the checks of a strategy that are run on the streams that they are given."""
    return [check for check in applicable(strategy) if check.streams is None]
