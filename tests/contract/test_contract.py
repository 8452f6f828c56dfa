"""All strategies × all checks that apply to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.cases import CASES, DEFAULTS, IDS, MERGING, without_own_streams
from lanes import needs_a_long_stream, slow_except
from skewless.checks import STREAMS, Stream, applicable, check_strategy
from skewless.kernels.hashing import mix
from skewless.plumbing.compiling import JIT_OFF
from skewless.strategies import Cascade

#: `make test` checks the strategies as they are; `make test-slow` checks their variants.
PAIRS = [
    pytest.param(
        case,
        check,
        id=f"{name}-{check.name}",
        marks=[] if case in DEFAULTS else pytest.mark.slow,
    )
    for case, name in zip(CASES, IDS, strict=True)
    for check in applicable(case)
    if check.streams is None
]
QUICK = (Cascade(), "merging_makes_nothing_worse")
# Whatever must be true of the defaults, and of variants that merge otherwise. Their streams are
# long, so `make test` has one of them, for one strategy.
WITH_OWN_STREAMS = [
    pytest.param(
        case,
        check,
        id=f"{case!r}-{check.name}",
        marks=[] if (case, check.name) == QUICK else pytest.mark.slow,
    )
    for case in MERGING
    for check in applicable(case)
    if check.streams is not None
]


def streams() -> st.SearchStrategy[Stream]:
    """Streams over few keys, so that keys meet again; key 0 and the largest hash among them."""

    def stream(ids: list[int], n_workers: int, seed: int) -> Stream:
        keys = np.array([0 if i == 0 else int(mix(np.uint64(i))) for i in ids], np.uint64)
        return Stream("generated", keys, n_workers, seed)

    few_keys = st.lists(st.integers(0, 12), max_size=300)
    return st.builds(stream, few_keys, st.integers(1, 70), st.integers(0, 2**32))


@pytest.mark.parametrize(("strategy", "check"), PAIRS)
@given(stream=streams())
@settings(max_examples=2 if JIT_OFF else 12)
def test_contract_holds_on_generated_streams(strategy, check, stream):
    check.claim(strategy, stream)


@pytest.mark.parametrize("strategy", slow_except(DEFAULTS, CASES), ids=IDS)
def test_contract_holds_on_streams_that_broke_strategies_before(strategy):
    # Without compilation a record takes a thousand times as long.
    longest = 50 if JIT_OFF else None
    streams = [s._replace(keys=s.keys[:longest]) for s in STREAMS]
    assert check_strategy(strategy, streams, checks=without_own_streams(strategy))


@needs_a_long_stream
@pytest.mark.parametrize(("strategy", "check"), WITH_OWN_STREAMS)
def test_contract_holds_on_the_streams_of_a_check(strategy, check):
    assert check_strategy(strategy, checks=[check]) == [check.name]
