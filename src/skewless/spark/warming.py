"""Compiles kernels, or loads them from their cache, before the first record needs them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from skewless import registry
from skewless.aggregations import group
from skewless.arrays import read_only
from skewless.keys import hash_keys
from skewless.spark.ledger.files import LONG_BYTES, seal
from skewless.spark.marks import marked, none_told
from skewless.strategy import AnyStrategy


def warm(names: Iterable[str]) -> None:
    """Load the kernels for routing by these registered strategies, for combining and for seals."""
    strategies = [registry.make(name) for name in names]  # a wrong name is told at once
    hash_keys(pa.array(["a"]))
    group([pa.array(["a"])])
    seal(bytes(LONG_BYTES + 1))
    for strategy in strategies:
        warm_strategy(strategy)


def warm_strategy(strategy: AnyStrategy) -> None:
    """Route no records, which loads the kernels for routing without weights.

    Whether a job has weights is not known here, and few jobs have. So the kernels for weights are
    compiled by the first job on a machine that needs them.
    """
    keys = read_only(np.empty(0, np.uint64))  # like Arrow's, for users' strategies too
    state, out = strategy.start(2, seed=0), np.empty(0, np.int32)
    strategy.route(keys, state, out)
    if hasattr(strategy, "homes"):
        marked(keys, out, strategy.homes(keys, state), 2, none_told())
