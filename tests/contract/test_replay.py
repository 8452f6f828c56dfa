"""The same seed gives the same routing in another process, with and without compilation."""

import pytest

from contract.cases import CASES, IDS
from skewless.checks.routing import elsewhere, routing_digest, routing_digests
from skewless.plumbing.compiling import JIT_OFF


@pytest.fixture(scope="module")
def here():
    return {name: routing_digest(case) for name, case in zip(IDS, CASES, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("jit", [not JIT_OFF, False], ids=["another process", "JIT off"])
def test_routing_is_the_same_elsewhere(here, jit):
    there = dict(zip(IDS, elsewhere(routing_digests, CASES, jit=jit), strict=True))
    assert {name for name in IDS if here[name] != there[name]} == set()
