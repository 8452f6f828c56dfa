"""One file per small algorithm, one folder per system of several files; `ALL` is the registry.

Each folder's `__init__.py` says what to read first, and which part of the paper each file holds.
"""

from skewless.strategies.cardinality import CardinalityMinimal, CountAffinity
from skewless.strategies.cascade import Cascade, CascadeAhead
from skewless.strategies.d_choices import DChoices, WChoices
from skewless.strategies.dagreedy import DAGreedy
from skewless.strategies.dalton import Dalton
from skewless.strategies.dkg import DKG
from skewless.strategies.fish import Fish
from skewless.strategies.hash import Hash
from skewless.strategies.ideal import Ideal
from skewless.strategies.mixed import MinMig, MinTable, Mixed, MixedBruteForce, Readj, Simple
from skewless.strategies.partial_key import PartialKey
from skewless.strategies.pd_stream import PdStream
from skewless.strategies.prompt import Prompt
from skewless.strategies.pstream import PStream
from skewless.strategies.shuffle import Shuffle

ALL = (
    Hash,
    Shuffle,
    PartialKey,
    DChoices,
    WChoices,
    CardinalityMinimal,
    CountAffinity,
    DAGreedy,
    Fish,
    Dalton,
    PStream,
    PdStream,
    Prompt,
    Cascade,
    CascadeAhead,
    Mixed,
    MixedBruteForce,
    MinTable,
    MinMig,
    Simple,
    Readj,
    DKG,
    Ideal,
)

__all__ = [
    "ALL",
    "DKG",
    "CardinalityMinimal",
    "Cascade",
    "CascadeAhead",
    "CountAffinity",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Fish",
    "Hash",
    "Ideal",
    "MinMig",
    "MinTable",
    "Mixed",
    "MixedBruteForce",
    "PStream",
    "PartialKey",
    "PdStream",
    "Prompt",
    "Readj",
    "Shuffle",
    "Simple",
    "WChoices",
]
