"""skewless: which worker gets this record?

Strategies that keep all workers of a keyed stream equally busy although a few hot keys carry most
of the records, and the hot keys keep changing.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from skewless.plumbing.lazy_names import lazy_names

if TYPE_CHECKING:
    from skewless.keys import hash_keys
    from skewless.plumbing.compiling import kernel
    from skewless.registry import get, make, names
    from skewless.simulator.run import Run
    from skewless.simulator.simulate import simulate
    from skewless.strategy import (
        Merges,
        Moves,
        Rebalances,
        Report,
        Rescales,
        Strategy,
        Traits,
        Weighs,
    )
else:  # numba and the strategies take seconds to import
    __getattr__ = lazy_names(
        __name__,
        {
            "keys": "hash_keys",
            "plumbing.compiling": "kernel",
            "registry": "get make names",
            "simulator": "Run simulate",
            "strategy": "Merges Moves Rebalances Report Rescales Strategy Traits Weighs",
        },
    )

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
__dir__ = __all__.copy  # what an interactive session completes
