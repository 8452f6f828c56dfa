"""Kernels compiled, or loaded from their cache, before the first record needs them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from skewless import registry
from skewless.aggregations import group
from skewless.arrays import read_only
from skewless.keys import hash_keys
from skewless.strategy import AnyStrategy


def warm(names: Iterable[str]) -> None:
    """Load what routing by these strategies of the registry, and combining, need."""
    hash_keys(pa.array(["a"]))
    group([pa.array(["a"])])
    for name in names:
        warm_strategy(registry.make(name))


def warm_strategy(strategy: AnyStrategy) -> None:
    """Route nothing: that loads what routing without weights needs.

    Whether a job has weights is not known here, and compiling for them too would make
    every job wait for what few use. The first job with weights on a machine compiles for itself.
    """
    keys = read_only(np.empty(0, np.uint64))  # as Arrow's are, for strategies of users as well
    strategy.route(keys, strategy.start(2, seed=0), np.empty(0, np.int32))
