"""What growing lists cost: a micro-batch pays for its records, not for what its keys hold."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark import Append, KeyProcessor, Processor, Update
from skewless.spark.state.processor import KeyedRecords
from skewless.spark.state.versions import bases, version_files
from skewless.spark.state.versions.version_files import stack
from spark.state.chains import SCHEMA
from spark.state.counting import of_keys
from spark.state.operators.test_growing_joins import COUNTED, USUAL
from spark.state.without_spark import Query

#: It counts what is allocated, as `COUNTED` does.
MERGING = pa.proxy_memory_pool(USUAL)
TEXTS = pa.schema([("k", pa.string()), ("text", pa.string())])


class Texts(Processor):
    """Appends the texts of records, and returns how many there are; "all" asks for all of them."""

    state_schema = "n bigint, texts array<string>"
    result_schema = "k string, n bigint, bytes bigint"
    growing = ("texts",)

    def update(self, keyed: KeyedRecords) -> Update:
        held, texts = keyed.lists["texts"], keyed.records["text"].combine_chunks()
        n_new = np.diff(keyed.starts)
        asks = np.array([text == "all" for text in texts.take(keyed.starts[1:] - 1).to_pylist()])
        n_bytes = np.zeros(len(keyed), np.int64)
        for at, one in zip(np.flatnonzero(asks), held.read(np.flatnonzero(asks)), strict=True):
            n_bytes[at] = sum(map(len, one.as_py()))
        new = pa.ListArray.from_arrays(pa.array(keyed.starts, pa.int32()), texts)
        n = pa.array(held.lengths + n_new)
        results = pa.table([keyed.keys["k"], n, pa.array(n_bytes)], ["k", "n", "bytes"])
        return Update(results, pa.StructArray.from_arrays([n, new], ["n", "texts"]))


def texts(keys: list[str], some: list[str]) -> pa.Table:
    return pa.table([keys, some], schema=TEXTS)


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_a_micro_batch_costs_what_its_records_cost(tmp_path: Path) -> None:
    """Two keys hold 10,000 texts of 1,000 bytes each; a few more come."""
    n, many = 20_000, ["a", "b"]
    one = Query(tmp_path, Texts(), TEXTS, workers=1)
    one.step(0, texts(many * (n // 2), [f"{number:01000}" for number in range(n)]))
    before = written(tmp_path)
    assert max(before.values()) > 1_000 * n
    for batch in range(1, 5):
        pa.set_memory_pool(COUNTED)
        try:
            results = one.step(batch, texts(many * 5, ["few"] * 10))
        finally:
            pa.set_memory_pool(USUAL)
        assert results.to_pydict() == {
            "k": results["k"].to_pylist(),
            "n": [n // 2 + 5 * batch] * 2,
            "bytes": [0, 0],
        }
        assert 0 < COUNTED.max_memory() < 200_000
        after = written(tmp_path)
        assert sum(size for path, size in after.items() if path not in before) < 200_000
        before = after
    (asked,) = one.step(5, texts(["a"], ["all"])).to_pylist()
    assert asked["bytes"] == 1_000 * n // 2 + 4 * 5 * len("few")


class Recent(KeyProcessor):
    """Holds the values of the last micro-batches of a key."""

    state_schema = "recent array<bigint>, text string"
    result_schema = "k string, n bigint"
    growing = ("recent",)

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        added = Append([record["v"] for record in records], keeps=2)
        return [{"n": len(state["recent"]) if state else 0}], {"recent": added, "text": "x" * 50}


@pytest.mark.parametrize("merged", [0, 1 << 26])
def test_files_do_not_fill_with_what_does_not_count_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged: int
) -> None:
    """No file is small enough to be merged, or all are; a quarter of the keys have one record."""
    monkeypatch.setattr(version_files, "_MERGED_BYTES", merged)
    monkeypatch.setattr(version_files, "_FEW_ROWS", 100)
    often = [str(key) for key in range(20)]
    one = Query(tmp_path, Recent(), SCHEMA, workers=1, kept=2)
    n_rows, n_files, n_keys = [], [], 20
    for batch in range(40):
        keys = often + ([f"{batch}-{number}" for number in range(2)] if batch % 5 == 0 else [])
        n_keys += len(keys) - len(often)
        assert one.step(batch, of_keys(keys)).num_rows == len(keys)
        base = bases.newest(one.ledger)
        assert base is not None
        files = stack(one.ledger, base.version(0).file)
        n_rows.append(sum(file.table.num_rows for file in files))
        n_files.append(len(files))
        assert files[-1].about["held"] == n_keys + min(batch + 1, 3) * 20 + n_keys - 20
    assert one.states().num_rows == n_keys
    assert max(n_rows[20:]) <= 2 * files[-1].about["held"] + 100 + 60
    assert max(n_files) < 12


def test_the_memory_of_a_worker_is_bounded_by_the_files_that_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page says, sixteen times the size up to which files are merged; here 512 kB."""
    limit = 1 << 19
    monkeypatch.setattr(version_files, "_MERGED_BYTES", limit)
    monkeypatch.setattr(version_files, "_FEW_ROWS", 100)

    class Some(Texts):
        def update(self, keyed: KeyedRecords) -> Update:
            keeps = np.where(keyed.lists["texts"].lengths > 900, 0, 1 << 40)
            return super().update(keyed)._replace(keeps={"texts": keeps})

    one = Query(tmp_path, Some(), TEXTS, workers=1, kept=1)
    tracemalloc.start()
    pa.set_memory_pool(MERGING)
    try:
        for batch in range(60):
            one.step(batch, texts([str(batch % 3)] * 100, [f"{batch:01000}"] * 100))
    finally:
        pa.set_memory_pool(USUAL)
        peak = tracemalloc.get_traced_memory()[1] + MERGING.max_memory()
        tracemalloc.stop()
    base = bases.newest(one.ledger)
    assert base is not None
    n_bytes = sum(file.table.nbytes for file in stack(one.ledger, base.version(0).file))
    assert n_bytes > 2 * limit
    assert limit < peak < 16 * limit
