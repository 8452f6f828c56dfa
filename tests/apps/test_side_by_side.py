"""A comparison that says equal must be able to say unequal."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from skewless.apps.main_job import JobRun


def result(*rows: tuple[int, str, int]) -> pa.Table:
    return pa.table(
        dict(zip(("start", "word", "n"), map(list, zip(*rows, strict=True)), strict=True))
    )


TRUTH = result((0, "a", 2), (0, "b", 1), (60, "a", 5))


@pytest.mark.parametrize(
    ("found", "n_differences"),
    [
        (TRUTH, 0),
        (TRUTH.slice(1), 1),
        (result((0, "a", 2), (0, "b", 1), (60, "a", 6)), 2),
        (result((0, "a", 2), (0, "b", 1), (0, "b", 1), (60, "a", 5)), 1),
        (TRUTH.set_column(2, "n", pa.array([2.0, 1.0, 5.0])), 1),
    ],
    ids=["equal", "row missing", "other count", "row twice", "other type"],
)
def test_every_difference_is_seen(found: pa.Table, n_differences: int) -> None:
    assert JobRun("hash", (), found).n_differences(TRUTH) == n_differences
