"""The examples in the docstrings of the verbs, on the session of the tests."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

import pytest

import skewless.spark
from skewless.spark import KeyProcessor, process

pytestmark = pytest.mark.spark

#: The names of the package that are described where they are used.
WITHOUT = {"JoinPlan", "KeyPlan", "KeyedRecords", "Update", "Window"}
WITHOUT |= {"check_processor", "observed_hot_keys", "session"}
VERBS = sorted({*skewless.spark.__all__} - WITHOUT)


class Visits(KeyProcessor):
    """The processor of the example of `process`."""

    state_schema = "clicks bigint"
    result_schema = "user string, clicks bigint"

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        clicks = sum(1 for _ in records) + (state["clicks"] if state else 0)
        return [{"clicks": clicks}], {"clicks": clicks}


@pytest.fixture(scope="module")
def ledger(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the ledger of a query that has counted clicks, which some examples read."""
    folder: Path = tmp_path_factory.mktemp("clicks")
    clicks = spark.createDataFrame([("ann",), ("bob",), ("ann",)], "user string")
    clicks.coalesce(1).write.parquet(str(folder / "clicks"))
    stream = spark.readStream.schema("user string").parquet(str(folder / "clicks"))
    kept = str(folder / "ledger")
    counted = process(stream, "user", Visits(), workers=2, max_workers=4, ledger=kept)
    writer = counted.writeStream.format("noop").outputMode("append")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return kept


def examples(name: str, **names: Any) -> doctest.DocTest:
    verb = getattr(skewless.spark, name)
    known = {**vars(sys.modules[verb.__module__]), "__name__": "__main__", **names}
    found: doctest.DocTest
    (found,) = doctest.DocTestFinder(recurse=False).find(verb, name, globs=known)
    return found


@pytest.mark.parametrize("name", VERBS)
def test_the_examples_of_a_verb_print_what_they_say(spark: Any, ledger: str, name: str) -> None:
    found = examples(name, spark=spark, ledger=ledger)
    assert found.examples
    assert not any(doctest.SKIP in example.options for example in found.examples)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert not result.failed, "".join(said)
