"""Examples in docstrings that need a session are run by tests/spark/test_docstrings.py."""

import re

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the examples that use a session, or the ledger of a query."""
    items[:] = [one for one in items if not (isinstance(one, pytest.DoctestItem) and _needs(one))]


def _needs(item: pytest.DoctestItem) -> bool:
    examples = [] if item.dtest is None else item.dtest.examples
    return any(re.search(r"(?<![.\w])(?:spark[.,]|ledger[,)])", one.source) for one in examples)
