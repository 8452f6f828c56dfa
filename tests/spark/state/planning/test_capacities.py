"""Workers of given speeds: loads follow them, restarts may bring others, and no record is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skewless.spark.state.arguments import speeds
from spark.state.chains import SCHEMA, chain, chained, in_order
from spark.state.counting import Counts, of_keys
from spark.state.planning.test_controller import loads, skewed
from spark.state.without_spark import Query


def even(n_records: int, batch: int) -> Any:
    rng = np.random.default_rng(batch)
    return of_keys([str(key) for key in rng.integers(0, 2000, n_records).tolist()])


@pytest.mark.parametrize("strategy", ["mixed", "min-table", "min-mig", "readj", "hash"])
def test_a_worker_of_half_the_speed_gets_half_the_load(tmp_path: Path, strategy: str) -> None:
    given = [2.0, 2.0, 1.0, 2.0]
    query = Query(
        tmp_path, Counts(), SCHEMA, strategy=strategy, workers=4, most=4, capacities=given
    )
    for batch in range(3):
        query.step(batch, even(4000, batch) if strategy == "hash" else skewed(4000, batch))
    found = loads(query, 2)
    others = found[[0, 1, 3]].mean()
    # A tolerance of 0.08 on both sides, and 4 % of chance in 570 records; the ring of "hash" has
    # 128 points a worker, and so deviates by about a tenth.
    assert found[2] == pytest.approx(others / 2, rel=0.3 if strategy == "hash" else 0.25)
    if strategy != "hash":
        assert found[[0, 1, 3]].max() < 1.25 * others


def test_other_capacities_at_a_restart_are_taken_and_none_keeps_them(tmp_path: Path) -> None:
    tables = [skewed(1500, batch) for batch in range(9)]
    given: list[Any] = [None, [1, 1, 1, 3], None, [3, 1, 1, 1], [1, 1, 1, 1]]
    found, are_whole = [], []
    for batch, table in enumerate(tables):
        query = Query(
            tmp_path,
            chain(),
            SCHEMA,
            strategy="mixed",
            workers=4,
            most=4,
            capacities=given[min(batch // 2, 4)],
            run=f"run-{batch // 2}",
        )
        results = query.step(batch, table)
        found.append(in_order(tuple(row.values()) for row in results.to_pylist()))
        are_whole.append(query.plan(batch).moving.whole)
        if batch in (3, 5):
            assert loads(query, batch).argmax() == 3
        if batch == 7:
            assert loads(query, batch).argmax() == 0
    assert found == chained(tables)
    assert are_whole == [False, False, True, False, False, False, True, False, True]


def test_workers_keep_their_speeds_when_others_come(tmp_path: Path) -> None:
    from skewless.spark import scale_to

    given = [1.0, 4.0, 1.0, 4.0]
    query = Query(tmp_path, Counts(), SCHEMA, strategy="mixed", workers=2, most=4, capacities=given)
    for batch in range(6):
        query.step(batch, even(4000, batch))
        if batch == 2:
            assert loads(query, batch)[1] == pytest.approx(3200, rel=0.1)
            scale_to(str(tmp_path), 4)
    assert loads(query, 5) == pytest.approx([400, 1600, 400, 1600], rel=0.25)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, 2.0], r"capacities must be one number per worker: 3, not 2"),
        ([1.0, 0.0, 1.0], r"capacities must be finite numbers above 0, not \[1.0, 0.0, 1.0\]"),
        ("fast", r"capacities must be numbers, not 'fast'"),
    ],
)
def test_bad_capacities_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        speeds(given, 3)
