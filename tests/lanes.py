"""Which cases of a test `make test` runs, which `make test-slow`, and which need compilation."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from skewless.plumbing.compiling import JIT_OFF

#: For tests of thousands of records and more: without compilation they would take minutes.
needs_a_long_stream = pytest.mark.skipif(JIT_OFF, reason="routes a long stream")


def slow(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of one parameter, marked as slow."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


def slow_except(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return all cases of one parameter; those that are not among the quick ones are slow."""
    return [case if case in quick else slow([case])[0] for case in cases]
