"""One file per small algorithm, one folder per system of several files; `ALL` is the registry.

Each folder's `__init__.py` says what to read first, and which part of the paper each file holds.
"""

from skewless.strategies.cardinality import CardinalityMinimal as CardinalityMinimal
from skewless.strategies.cardinality import CountAffinity as CountAffinity
from skewless.strategies.cascade import Cascade as Cascade
from skewless.strategies.cascade import CascadeAhead as CascadeAhead
from skewless.strategies.d_choices import DChoices as DChoices
from skewless.strategies.d_choices import WChoices as WChoices
from skewless.strategies.dagreedy import DAGreedy as DAGreedy
from skewless.strategies.dalton import Dalton as Dalton
from skewless.strategies.dkg import DKG as DKG
from skewless.strategies.fish import Fish as Fish
from skewless.strategies.hash import Hash as Hash
from skewless.strategies.ideal import Ideal as Ideal
from skewless.strategies.mixed import MinMig as MinMig
from skewless.strategies.mixed import MinTable as MinTable
from skewless.strategies.mixed import Mixed as Mixed
from skewless.strategies.mixed import MixedBruteForce as MixedBruteForce
from skewless.strategies.mixed import Readj as Readj
from skewless.strategies.mixed import Simple as Simple
from skewless.strategies.partial_key import PartialKey as PartialKey
from skewless.strategies.pd_stream import PdStream as PdStream
from skewless.strategies.prompt import Prompt as Prompt
from skewless.strategies.pstream import PStream as PStream
from skewless.strategies.shuffle import Shuffle as Shuffle

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
