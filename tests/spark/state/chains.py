"""Test support: a processor whose results depend on every record and their order, and an oracle."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

DDL = "k string, v bigint, ts timestamp"
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
BEGIN = 1_700_000_000_000_000
_KEYS = ("", "ключ", "🦊", None, "a.b", *map(str, range(40)))


def records(n_records: int, seed: int, seconds: int = 60) -> pa.Table:
    """Return records of one hot key and many others, among them a null, in the order of time."""
    rng = np.random.default_rng(seed)
    cold = [_KEYS[i] for i in rng.integers(0, len(_KEYS), n_records)]
    keys = [
        "hot" if hot else key for hot, key in zip(rng.random(n_records) < 0.3, cold, strict=True)
    ]
    micros = BEGIN + (seed * seconds + np.sort(rng.integers(0, seconds, n_records))) * 1_000_000
    return pa.table(
        {"k": keys, "v": rng.integers(-50, 50, n_records).tolist(), "ts": micros.tolist()},
        schema=SCHEMA,
    )


def chain() -> Any:
    """Return a processor that chains checksums: no two orders of records give the same."""
    from skewless.spark import KeyProcessor

    class Chain(KeyProcessor):
        state_schema = "n bigint, sum bigint, last bigint"
        result_schema = "k string, n bigint, sum bigint, last bigint"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            import zlib

            state = state or {"n": 0, "sum": 0, "last": None}
            rows = []
            for record in records:
                total = zlib.crc32(f"{state['sum']} {record['v']}".encode())
                rows.append({"n": state["n"] + 1, "sum": total, "last": state["last"]})
                state = {"n": state["n"] + 1, "sum": total, "last": record["v"]}
            return rows, (None if state["n"] % 17 == 0 else state)

    return Chain()


def chained(tables: Sequence[pa.Table]) -> list[list[tuple[Any, ...]]]:
    """Return for each table the sorted results of `chain`, by plain Python.

    A key forgets its state when it has 17 records at the end of a table.
    """
    states: dict[Any, tuple[int, int, Any]] = {}
    batches = []
    for table in tables:
        rows = []
        touched = set()
        for record in table.to_pylist():
            n, total, last = states.get(record["k"], (0, 0, None))
            total = zlib.crc32(f"{total} {record['v']}".encode())
            rows.append((record["k"], n + 1, total, last))
            states[record["k"]] = (n + 1, total, record["v"])
            touched.add(record["k"])
        for key in touched:
            if states[key][0] % 17 == 0:
                del states[key]
        batches.append(in_order(rows))
    return batches


def rows_of(batches: Mapping[int, Iterable[Row]]) -> list[list[tuple[Any, ...]]]:
    """Return the sorted rows of each micro-batch."""
    return [in_order(map(tuple, batches[number])) for number in sorted(batches)]


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def random_moves(seed: int = 0) -> Any:
    """Return a strategy that moves keys at random with every plan; Spark gets it by value."""
    from dataclasses import dataclass

    import numpy as np

    from skewless.strategies import Mixed
    from skewless.strategies.mixed import routing_table
    from skewless.strategy import Moves

    @dataclass(frozen=True)
    class RandomMoves(Mixed):
        def rebalance(self, report: Any, state: Any) -> Any:
            rng = np.random.default_rng([int(report.loads.sum()) % 1000, seed])
            n_workers = state.capacities.size
            moved = report.keys[rng.random(report.keys.size) < 0.5]
            targets = rng.integers(0, n_workers, moved.size).astype(np.int32)
            after = routing_table.with_entries(state, moved, targets)
            none = np.empty(0, np.int32)
            return after, Moves(np.empty(0, np.uint64), none, none)

    return RandomMoves()
