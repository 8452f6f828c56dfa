"""One file per published algorithm; `ALL` is the registry."""

from skewless.strategies.cardinality import CardinalityMinimal, CountAffinity
from skewless.strategies.d_choices import DChoices
from skewless.strategies.dagreedy import DAGreedy
from skewless.strategies.hash import Hash
from skewless.strategies.partial_key import PartialKey
from skewless.strategies.shuffle import Shuffle
from skewless.strategies.w_choices import WChoices

ALL = (
    Hash,
    Shuffle,
    PartialKey,
    DChoices,
    WChoices,
    CardinalityMinimal,
    CountAffinity,
    DAGreedy,
)

__all__ = [
    "ALL",
    "CardinalityMinimal",
    "CountAffinity",
    "DAGreedy",
    "DChoices",
    "Hash",
    "PartialKey",
    "Shuffle",
    "WChoices",
]
