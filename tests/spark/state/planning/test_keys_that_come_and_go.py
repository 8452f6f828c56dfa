"""Keys that come and go: plans do not grow, and a key that is forgotten moves with its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark.ledger.names import state_plan_name
from skewless.strategies import MinMig, Mixed
from spark.state.chains import SCHEMA, chain, chained, in_order
from spark.state.counting import SECOND, Visits, of_keys
from spark.state.without_spark import Query

N_BATCHES = 120


def churning(batch: int) -> pa.Table:
    """Return records of a hot key that changes every four batches, and of keys that pass by."""
    rng = np.random.default_rng(batch)
    passing = batch * 10 + rng.integers(0, 60, 400)
    hot = rng.random(400) < 0.4
    keys = [
        f"hot-{batch // 4}" if is_hot else str(key)
        for is_hot, key in zip(hot, passing.tolist(), strict=True)
    ]
    return of_keys(keys, batch)


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [MinMig(forget_after=8), Mixed(max_entries=100_000, forget_after=8)],
    ids=["min-mig", "mixed"],
)
def test_table_and_plans_do_not_grow(tmp_path: Path, strategy: Any) -> None:
    query = Query(
        tmp_path,
        Visits(),
        SCHEMA,
        strategy=strategy,
        workers=4,
        most=4,
        time="ts",
        delay=SECOND,
        kept=4,
    )
    sizes, n_moved = [], 0
    for batch in range(N_BATCHES):
        query.step(batch, churning(batch))
        plan = query.plan(batch)
        n_moved += plan.moving.hashes.size
        name = state_plan_name(batch, query.ledger.run)
        n_bytes = (tmp_path / name).stat().st_size
        sizes.append((plan.placing.entries()[0].size, n_bytes))
    assert n_moved > N_BATCHES  # there was something to forget
    # The first quarter fills the table. Medians, because a table has room for a power of two.
    middle, end = sizes[N_BATCHES // 4 : N_BATCHES // 2], sizes[N_BATCHES // 2 :]
    for before, after in zip(np.median(middle, 0), np.median(end, 0), strict=True):
        # Without forgetting, both grow in proportion to the batches: by a factor of two. How
        # many keys move depends on the worker of the hot key, so one half may have a third more.
        assert after <= 1.5 * before, (np.median(middle, 0), np.median(end, 0))


def test_a_key_without_records_is_forgotten_and_its_state_moves_home(tmp_path: Path) -> None:
    strategy = MinMig(tolerance=0.05, forget_after=2)
    query = Query(tmp_path, chain(), SCHEMA, strategy=strategy, workers=4)
    rng = np.random.default_rng(0)
    tables, found, n_home = [], [], 0
    for batch in range(16):
        # Other keys are hot in every second batch; those of the beginning come back at the end.
        weights = (2.0 + np.roll(np.arange(200), 25 * (batch // 2 % 7))) ** -1.3
        chosen = rng.choice(200, 1500, p=weights / weights.sum())
        present = chosen[(chosen // 25 + batch // 2) % 3 > 0]
        tables.append(of_keys([f"key {key}" for key in present.tolist()], batch))
        results = query.step(batch, tables[-1])
        found.append(in_order(tuple(row.values()) for row in results.to_pylist()))
        plan = query.plan(batch)
        gone = ~np.isin(plan.moving.hashes, plan.placing.entries()[0])
        if batch:
            idle = ~np.isin(plan.moving.hashes, query.observed(plan).hashes)
            n_home += int((gone & idle).sum())
    assert n_home > 0
    assert found == chained(tables)
