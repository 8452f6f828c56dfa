"""Aggregators as a user would write them, right ones and broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations import Aggregation, Aggregator


class Mean(Aggregator[dict[str, Any]]):
    """The mean of x: a struct as state, changed in place."""

    inputs = ("x",)
    state: Any = "struct<n: bigint, total: double>"
    result: Any = "double"

    def zero(self) -> dict[str, Any]:
        return {"n": 0, "total": 0.0}

    def update(self, state: dict[str, Any], records: pa.RecordBatch) -> dict[str, Any]:
        values = records["x"].drop_null().to_pylist()
        state["n"] += len(values)
        state["total"] += float(sum(values))
        return state

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {"n": a["n"] + b["n"], "total": a["total"] + b["total"]}

    def finish(self, state: dict[str, Any]) -> float | None:
        return state["total"] / state["n"] if state["n"] else None


class Words(Aggregator[dict[str, int]]):
    """How often each word occurs: a map as state, merged into the first."""

    inputs = ("word",)
    state: Any = "map<string, bigint>"
    result: Any = "map<string, bigint>"

    def zero(self) -> dict[str, int]:
        return {}

    def update(self, state: dict[str, int], records: pa.RecordBatch) -> dict[str, int]:
        for word in records["word"].drop_null().to_pylist():
            state[word] = state.get(word, 0) + 1
        return state

    def merge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        for word, n in b.items():
            a[word] = a.get(word, 0) + n
        return a

    def finish(self, state: dict[str, int]) -> dict[str, int]:
        return dict(state)


class Records(Aggregator[int]):
    """How many records there are, of whatever columns."""

    inputs = ()
    state: Any = "bigint"
    result: Any = "bigint"

    def zero(self) -> int:
        return 0

    def update(self, state: int, records: pa.RecordBatch) -> int:
        return state + records.num_rows

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, state: int) -> int:
        return state


class OneKey(Aggregator[list[Any]]):
    """A ready aggregation used for one key, so that the laws can be tested on it."""

    def __init__(self, aggregation: Aggregation, types: Sequence[pa.DataType]) -> None:
        self.aggregation = aggregation
        self.inputs = aggregation.inputs
        self.kinds = aggregation.state_types(types)
        self.types = list(types)
        self.state = pa.struct([(f"s{i}", kind) for i, kind in enumerate(self.kinds)])
        self.result = aggregation.result_type(types)

    def _python(self, states: Sequence[pa.Array]) -> Any:
        return {f"s{i}": state[0].as_py() for i, state in enumerate(states)}

    def _arrow(self, *states: Any) -> list[pa.Array]:
        return [
            pa.array([state[f"s{i}"] for state in states], kind)
            for i, kind in enumerate(self.kinds)
        ]

    def zero(self) -> Any:
        nothing = [pa.nulls(0, kind) for kind in self.types]
        return self._python(self.aggregation.update(nothing, np.zeros(0, np.int64), 1))

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        codes = np.zeros(records.num_rows, np.int64)
        columns = [records[name] for name in self.inputs]
        more = self._python(self.aggregation.update(columns, codes, 1))
        return self.merge(state, more)

    def merge(self, a: Any, b: Any) -> Any:
        return self._python(self.aggregation.merge(self._arrow(a, b), np.zeros(2, np.int64), 1))

    def finish(self, state: Any) -> Any:
        result = self.aggregation.finish(self._arrow(state))[0].as_py()
        # The order of collected values is not promised.
        collects = "Collect" in type(self.aggregation).__name__
        return sorted(result, key=str) if collects else result
