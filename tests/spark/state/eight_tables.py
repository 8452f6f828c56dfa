"""Test support: a query over eight tables, and the offset log of its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from skewless.spark import KeyProcessor
from spark.state.chains import SCHEMA, chain, in_order, random_moves, records
from spark.state.without_spark import Query, stamp_of

TABLES = [records(100, seed) for seed in range(8)]


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


def query(folder: Path, run: int = 0, **settings: Any) -> Query:
    chosen = {"strategy": random_moves(), "workers": 3, **settings}
    return Query(folder, chain(), SCHEMA, run=f"run-{run}", **chosen)


def ran(folder: Path, n_batches: int, **settings: Any) -> Query:
    one = query(folder, **settings)
    for batch in range(n_batches):
        one.step(batch, TABLES[batch])
    return one


#: From micro-batch 3 on, the source cuts the stream differently.
OTHERS = [*TABLES[:3], pa.concat_tables(TABLES[3:5]), *TABLES[5:]]


def offsets_of(tables: Sequence[pa.Table]) -> dict[int, int]:
    """Return the offset log of a checkpoint after these micro-batches."""
    return {batch: stamp_of(table) for batch, table in enumerate(tables)}


class Wide(KeyProcessor):
    state_schema = "n bigint, more bigint"
    result_schema = "k string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        n = len(records) + (state["n"] if state else 0)
        return [{"n": n}], {"n": n}


class Narrow(Wide):
    state_schema = "n bigint"
