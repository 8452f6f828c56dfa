"""Every kernel is compiled once, whatever may be written into the arrays of the caller."""

import numpy as np
import pytest
from numba.core.event import install_recorder

from contract.cases import DEFAULTS
from skewless.arrays import read_only
from skewless.plumbing.compiling import JIT_OFF
from skewless.strategy import Weighs

pytestmark = pytest.mark.skipif(JIT_OFF, reason="compilation is off")


@pytest.mark.parametrize("strategy", DEFAULTS, ids=lambda strategy: strategy.name)
def test_arrays_that_cannot_be_written_need_no_other_kernel(strategy):
    keys, weights = np.arange(9, dtype=np.uint64), np.ones(9)

    def route(keys, weights):
        strategy.route(keys, strategy.start(3, seed=1), np.empty(keys.size, np.int32))
        if isinstance(strategy, Weighs):
            state, out = strategy.start(3, seed=1), np.empty(keys.size, np.int32)
            strategy.route_weighted(keys, weights, state, out)

    route(keys, weights)
    with install_recorder("numba:compile") as compiled:
        route(read_only(keys), read_only(weights))
    assert not compiled.buffer
