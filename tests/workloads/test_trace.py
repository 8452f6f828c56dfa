from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from lanes import needs_a_long_stream
from skewless import workloads
from skewless.keys import hash_keys
from skewless.parameters import WeightError
from skewless.workloads import Trace, trace_files
from skewless.workloads import trace as trace_module

N = 1_000
WORDS = [f"word{i * i % 37}" if i % 50 else None for i in range(N)]
NUMBERS = [i % 11 for i in range(N)]
TABLE = pa.table({"other": ["x"] * N, "key": WORDS, "number": NUMBERS})


def keys_of(trace: Any, chunk_size: int = 1 << 18) -> list[int]:
    chunks = list(trace.chunks(0, chunk_size))
    assert all(chunk.size == chunk_size for chunk in chunks[:-1])
    return [int(key) for chunk in chunks for key in chunk]


def json_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    pa.parquet.write_table(TABLE, tmp_path / "trace.parquet", row_group_size=130)
    return str(tmp_path / "trace.parquet")


@pytest.mark.parametrize("chunk_size", [1, 7, 130, 999, 1_000, 5_000])
def test_parquet_keys_are_the_hashes_of_the_column(parquet: str, chunk_size: int) -> None:
    assert keys_of(Trace(path=parquet), chunk_size) == hash_keys(TABLE["key"]).tolist()


def test_several_columns_make_one_key(parquet: str) -> None:
    expected = hash_keys(TABLE["number"], TABLE["key"]).tolist()
    assert keys_of(Trace(path=parquet, key=("number", "key"))) == expected
    assert keys_of(workloads.make("trace", path=parquet, key="number,key")) == expected
    found = Trace(path=parquet, key=("number", "key")).values(np.array(expected[:1], np.uint64))
    assert found == {expected[0]: (TABLE["number"][0].as_py(), TABLE["key"][0].as_py())}


def test_a_trace_is_the_same_for_every_seed(parquet: str) -> None:
    first, second = (next(Trace(path=parquet).chunks(seed)) for seed in (0, 1))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("limit", [0, 1, 129, 131, 1_000, 2_000])
def test_a_limit_cuts_the_trace(parquet: str, limit: int) -> None:
    trace = Trace(path=parquet, limit=limit)
    assert keys_of(trace, 64) == hash_keys(TABLE["key"]).tolist()[:limit]
    assert trace.n_records == min(limit, N)


def test_csv_keys_are_hashed_as_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("a,key,b\n1,007,x\n2,7,y\n3,seven,z\n4,,\n")
    assert keys_of(Trace(path=str(path))) == hash_keys(["007", "7", "seven", ""]).tolist()
    assert Trace(path=str(path)).n_records is None
    assert (
        keys_of(Trace(path=str(path), key=("b", "a"), limit=2))
        == hash_keys(["x", "y"], ["1", "2"]).tolist()
    )


def test_tabs_keep_the_columns_of_tsv_apart(tmp_path: Path) -> None:
    path = tmp_path / "trace.tsv"
    path.write_text("key\tb\na,b\t1\n")
    assert keys_of(Trace(path=str(path))) == hash_keys(["a,b"]).tolist()


@pytest.mark.parametrize(
    ("delimiter", "between"), [(";", ";"), ("|", "|"), (r"\t", "\t"), ("\t", "\t"), (" ", " ")]
)
def test_any_delimiter_keeps_columns_apart(tmp_path: Path, delimiter: str, between: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"key{between}b\na,b{between}1\n")
    trace = Trace(path=str(path), delimiter=delimiter, weight="b")
    assert keys_of(trace) == hash_keys(["a,b"]).tolist()
    weights = trace.weights(0)
    assert weights is not None
    assert next(weights).tolist() == [1.0]
    assert list(trace.values(hash_keys(["a,b"])).values()) == [("a,b",)]
    assert [*trace_module.columns_of(str(path), delimiter=delimiter)] == ["key", "b"]


def test_a_delimiter_that_is_none_or_of_no_csv_is_refused(tmp_path: Path, parquet: str) -> None:
    (tmp_path / "a.csv").write_text("key\na\n")
    (tmp_path / "a.jsonl").write_text('{"key": 1}')
    for wrong in ("", ";;", "é", '"', "\n", "\0"):
        with pytest.raises(ValueError, match=r"^trace: delimiter must be one ASCII character"):
            Trace(path=str(tmp_path / "a.csv"), delimiter=wrong)
    for other in (parquet, str(tmp_path / "a.jsonl")):
        with pytest.raises(ValueError, match=r"^trace: delimiter goes with CSV files, and"):
            Trace(path=other, delimiter=";")
        with pytest.raises(ValueError, match=r"^trace: delimiter goes with CSV files, and"):
            trace_module.columns_of(other, delimiter=";")


def test_json_keys_have_the_types_of_json(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    times = ["2024-01-01 00:00:00", "2024-01-01T00:00:00Z", "today", None]
    path.write_text(json_lines([{"key": i, "at": at} for i, at in enumerate(times)]))
    assert keys_of(Trace(path=str(path))) == hash_keys([0, 1, 2, 3]).tolist()
    assert keys_of(Trace(path=str(path), key=("at",))) == hash_keys(times).tolist()


@pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.gz"])
def test_compressed_files_are_read(tmp_path: Path, suffix: str) -> None:
    content = {
        ".csv.gz": "key\na\nb\n",
        ".jsonl.gz": json_lines([{"key": "a"}, {"key": "b"}]),
    }[suffix]
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(gzip.compress(content.encode()))
    assert keys_of(Trace(path=str(path))) == hash_keys(["a", "b"]).tolist()


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    for name, words in (("part-1", ["c"]), ("part-0", ["a", "b"])):
        pa.parquet.write_table(pa.table({"key": words}), tmp_path / f"{name}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").touch()
    trace = Trace(path=str(tmp_path))
    assert keys_of(trace, 2) == hash_keys(["a", "b", "c"]).tolist()
    assert trace.n_records == 3


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("limit", [None, 0, 131])
@pytest.mark.parametrize("chunk_size", [7, 130, 5_000])
def test_weights_are_cut_like_the_keys(
    tmp_path: Path, suffix: str, limit: int | None, chunk_size: int
) -> None:
    weights = [i % 13 if i < 500 else i % 13 + 0.25 for i in range(N)]  # whole numbers at first
    rows = [{"w": w, "key": k} for w, k in zip(weights, map(str, NUMBERS), strict=True)]
    path = tmp_path / f"trace{suffix}"
    if suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=130)
    elif suffix == ".csv":
        path.write_text("w,key\n" + "".join(f"{row['w']},{row['key']}\n" for row in rows))
    else:
        path.write_text(json_lines(rows))
    trace = workloads.make("trace", path=str(path), weight="w", limit=limit)
    found = list(trace.weights(0, chunk_size))  # type: ignore[attr-defined]
    assert [part.size for part in found] == [part.size for part in trace.chunks(0, chunk_size)]
    assert [weight for part in found for weight in part] == weights[:limit]


def test_weights_may_be_of_any_kind_of_number(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(5, 2)):
        weights = pa.array([0, 1, None, 7], pa.int8()).cast(kind)
        pa.parquet.write_table(pa.table({"key": [1] * 4, "w": weights}), path)
        (found,) = list(Trace(path=str(path), weight="w").weights(0) or ())
        # What is missing is no number, so that whoever uses the weights can refuse it.
        assert np.array_equal(found, [0.0, 1.0, np.nan, 7.0], equal_nan=True)
        assert found.dtype == np.float64


def test_a_trace_without_a_weight_column_has_no_weights(parquet: str) -> None:
    assert Trace(path=parquet).weights(0) is None


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, parquet: str) -> None:
    with pytest.raises(ValueError, match=r"column 'other' of .* must be numbers, not string"):
        Trace(path=parquet, weight="other")
    with pytest.raises(ValueError, match="has no column 'w'; it has other, key, number"):
        Trace(path=parquet, weight="w")


@pytest.mark.parametrize(
    ("name", "begin", "record", "end"),
    [("a.csv", "key,w\n", "a,1\n", "b,x\n"), ("a.jsonl", "", '{"w": 1}\n', '{"w": "x"}\n')],
)
def test_a_weight_that_is_no_number_is_refused_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, begin: str, record: str, end: str
) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_BYTES", 1 << 10)  # the types go by the first block
    path = tmp_path / name
    path.write_text(begin + record * 5_000 + end)
    trace = Trace(path=str(path), key=("w",), weight="w")
    with pytest.raises(WeightError, match=r"trace: weight: column 'w' of .* must be numbers"):
        list(trace.weights(0) or ())


def test_an_empty_trace_has_no_chunks(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("key\n")
    assert list(Trace(path=str(tmp_path / "trace.csv")).chunks(0)) == []


def test_a_missing_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file or folder .*none.parquet"):
        Trace(path=str(tmp_path / "none.parquet"))
    with pytest.raises(ValueError, match="trace: path must be the path of a file or folder"):
        Trace()
    with pytest.raises(ValueError, match="trace: there are no files in"):
        Trace(path=str(tmp_path))


def test_a_missing_column_is_refused_with_those_that_exist(parquet: str) -> None:
    with pytest.raises(ValueError, match="has no column 'word'; it has other, key, number"):
        Trace(path=parquet, key=("key", "word"))


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "x,y\n1,2\n"), ("a.json", '{"x": 1, "y": 2}\n')]
)
def test_text_formats_name_their_columns_too(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match="has no column 'key'; it has x, y"):
        Trace(path=str(tmp_path / name))


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    path.write_text("key\na\nb\na\n")
    with pytest.raises(ValueError, match=r"csv, jsonl, parquet: that of 'trace.dat' is"):
        Trace(path=str(path))
    assert len(keys_of(Trace(path=str(path), format="csv"))) == 3
    with pytest.raises(ValueError, match=r"trace: format must be one of .*, not 'xml'"):
        Trace(path=str(path), format="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.parquet", "a.json", "a.csv"])
def test_a_file_of_another_format_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be read as"):
        Trace(path=str(tmp_path / name))


def test_settings_that_make_no_sense_are_refused(parquet: str) -> None:
    with pytest.raises(ValueError, match="trace: limit must be at least 0"):
        Trace(path=parquet, limit=-1)
    with pytest.raises(ValueError, match="trace: key must be at least one column"):
        Trace(path=parquet, key=())
    with pytest.raises(ValueError, match="chunk_size must be at least 1"):
        next(Trace(path=parquet).chunks(0, 0))


@needs_a_long_stream
@pytest.mark.parametrize(
    "suffix", [".parquet", ".csv", pytest.param(".jsonl", marks=pytest.mark.slow)]
)
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_BYTES", 1 << 14)

    def peak(n_records: int) -> int:
        path = tmp_path / f"trace{n_records}{suffix}"
        table = pa.table({"key": np.arange(n_records).astype(str), "rest": np.zeros(n_records)})
        if suffix == ".parquet":
            pa.parquet.write_table(table, path, row_group_size=5_000)
        elif suffix == ".csv":
            pa.csv.write_csv(table, path)
        else:
            path.write_text(json_lines(table.to_pylist()))
        del table
        trace = Trace(path=str(path))
        tracemalloc.start()
        most = 0
        for _ in trace.chunks(0, 1_000):
            most = max(most, pa.total_allocated_bytes())
        most += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # Readers work ahead by some 32 blocks, or by one row group; the large file has hundreds.
    peak(10_000)  # what is loaded once
    small, large = peak(100_000), peak(400_000)
    assert large < 2 * small + 1_000_000
