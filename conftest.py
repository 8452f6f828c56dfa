"""Examples in docstrings that need a session are run by tests/spark/test_docstrings.py."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the examples that use `spark`."""
    items[:] = [one for one in items if not (isinstance(one, pytest.DoctestItem) and _needs(one))]


def _needs(item: pytest.DoctestItem) -> bool:
    return item.dtest is not None and any("spark." in one.source for one in item.dtest.examples)
