"""Keys whose hashes collide, of every type, and with nulls keep their states apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.keys import hash_keys
from skewless.spark import KeyProcessor
from spark.state.chains import SCHEMA, chain, chained, in_order, random_moves, records
from spark.state.without_spark import Query


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("n_hashes", [1, 3, 20])
def test_keys_with_one_hash_have_states_of_their_own(tmp_path: Path, n_hashes: int) -> None:
    def few(table: pa.Table) -> Any:
        spread = np.uint64(0x9E3779B97F4A7C15)
        return hash_keys(table.column("k")) % np.uint64(n_hashes) * spread

    tables = [records(120, seed) for seed in range(10)]
    query = Query(tmp_path, chain(), SCHEMA, strategy=random_moves(), workers=3, hashes=few)
    found = [rows(query.step(batch, table)) for batch, table in enumerate(tables)]
    assert found == chained(tables)


class Counts(KeyProcessor):
    state_schema = "n bigint, names map<string, bigint>"
    result_schema = "text string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        n = len(records) + (state["n"] if state else 0)
        return [{"text": repr(key), "n": n}], {"n": n, "names": {"a": n}}


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "floats": (pa.float64(), [float("nan"), 0.0, 1.5, None, float("inf")]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x00\x00", None]),
    "lists": (pa.list_(pa.int64()), [[], [1], [1, None], None, [None]]),
    "structs": (pa.struct([("a", pa.string())]), [{"a": "x"}, {"a": None}, None]),
    "dates": (pa.date32(), [0, 1, None]),
    "decimals": (pa.decimal128(30, 2), [1, 2, None]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_are_found_again(tmp_path: Path, kind: str) -> None:
    arrow, values = KEYS[kind]
    rng = np.random.default_rng(0)
    chosen = [[values[i] for i in rng.integers(0, len(values), 30)] for _ in range(5)]
    schema = pa.schema([("k", arrow), ("j", pa.int32())])
    query = Query(tmp_path, Counts(), schema, key=("k", "j"), strategy=random_moves(), workers=2)
    counts: dict[str, int] = {}
    for batch, keys in enumerate(chosen):
        table = pa.table({"k": pa.array(keys, arrow), "j": pa.array([1] * 30, pa.int32())})
        touched = [repr(row) for row in table.to_pylist()]
        for text in touched:
            counts[text] = counts.get(text, 0) + 1
        found = query.step(batch, table).to_pylist()
        assert {row["text"]: row["n"] for row in found} == {t: counts[t] for t in touched}
        assert len(found) == len(set(touched))


def test_a_text_that_is_no_text_of_python_is_one_clear_line(tmp_path: Path) -> None:
    broken = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())  # as Spark lets it through
    table = pa.table({"k": broken, "v": [1, 2]})
    query = Query(tmp_path, CountsOfTexts(), table.schema, workers=2)
    with pytest.raises(ValueError, match=r"not valid UTF-8.*b'\\xff\\xfe'.*make_valid_utf8"):
        query.step(0, table)


class CountsOfTexts(KeyProcessor):
    state_schema = "n bigint"
    result_schema = "k string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [{"n": len(records)}], {"n": len(records)}
