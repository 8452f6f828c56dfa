"""The examples in the docstrings of the verbs, on the session of the tests."""

from __future__ import annotations

import doctest
import sys
from typing import Any

import pytest

from skewless.spark import aggregate, hot_keys, join, plan_keys, process, route

pytestmark = pytest.mark.spark

VERBS = (aggregate, hot_keys, join, plan_keys, process, route)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_the_examples_of_a_verb_print_what_they_say(spark: Any, verb: Any) -> None:
    names = {**vars(sys.modules[verb.__module__]), "__name__": "__main__", "spark": spark}
    (found,) = doctest.DocTestFinder(recurse=False).find(verb, verb.__name__, globs=names)
    assert found.examples
    assert not any(doctest.SKIP in example.options for example in found.examples)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert not result.failed, "".join(said)
