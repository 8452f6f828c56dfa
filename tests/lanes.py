"""Cases that `make test` runs, and cases of the same test that only `make test-slow` runs."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of one parameter, marked as slow."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


def slow_except(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return all cases of one parameter; those that are not among the quick ones are slow."""
    return [case if case in quick else slow([case])[0] for case in cases]
