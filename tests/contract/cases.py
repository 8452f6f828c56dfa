"""Every strategy with its defaults, and with settings so small that everything happens often."""

from skewless.strategies import (
    ALL,
    CardinalityMinimal,
    CountAffinity,
    DAGreedy,
    DChoices,
    Hash,
    WChoices,
)

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
]

CASES = [cls() for cls in ALL] + SMALL
IDS = [repr(case) for case in CASES]
