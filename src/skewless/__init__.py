"""skewless: which worker gets this record?

Strategies that keep all workers of a keyed stream equally busy although a few hot keys carry most
of the records, and the hot keys keep changing.
"""

from importlib.metadata import version

from skewless.keys import hash_keys
from skewless.plumbing.compiling import kernel
from skewless.registry import get, make, names
from skewless.simulator import Run, simulate
from skewless.strategy import Merges, Moves, Rebalances, Report, Rescales, Strategy, Traits, Weighs

__version__ = version("skewless")

__all__ = [
    "Merges",
    "Moves",
    "Rebalances",
    "Report",
    "Rescales",
    "Run",
    "Strategy",
    "Traits",
    "Weighs",
    "__version__",
    "get",
    "hash_keys",
    "kernel",
    "make",
    "names",
    "simulate",
]
