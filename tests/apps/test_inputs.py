"""What is wrong with the input is said before Spark starts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from skewless.apps.records.inputs import find_input


@pytest.mark.parametrize(
    ("name", "content", "format", "columns"),
    [
        ("a.csv", b"user,n\nx,1\n", "csv", ["user", "n"]),
        ("a.tsv", b"user\tn\nx\t1\n", "csv", ["user", "n"]),
        ("a.csv.gz", gzip.compress(b"user,n\nx,1\n", mtime=0), "csv", ["user", "n"]),
        ("a.jsonl", b'{"user": "x"}\n', "json", ["user"]),
        ("a.txt", b"to be or not", "text", ["word"]),
    ],
)
def test_format_and_columns_are_found(
    tmp_path: Path, name: str, content: bytes, format: str, columns: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path / name, tmp_path):
        found = find_input(str(path))
        assert (found.format, found.columns()) == (format, columns)


def test_folders_that_are_partitions_are_columns_and_hidden_files_are_not_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"user": ["x"]}), tmp_path / "day=1" / "a.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert find_input(str(tmp_path)).columns() == ["user", "day"]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("a\n1\n")
    (tmp_path / "mixed" / "b.txt").write_text("b")
    (tmp_path / "empty").mkdir()
    (tmp_path / "strange.xyz").write_text("?")
    cases = {
        "missing.csv": "there is no file or folder",
        "mixed": r"files of several formats: csv \('a\.csv'\), text \('b\.txt'\); give a folder",
        "empty": "there are no files in",
        "strange.xyz": "format of 'strange.xyz' is not known by its name; give --format",
    }
    for name, message in cases.items():
        with pytest.raises((ValueError, OSError), match=message):
            find_input(str(tmp_path / name))
    with pytest.raises(ValueError, match="--format must be one of"):
        find_input(str(tmp_path), format="xml")


def test_empty_files_are_passed_over_unless_all_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(ValueError, match=r"a\.csv' is empty"):
        find_input(str(tmp_path / "a.csv"))
    with pytest.raises(ValueError, match="has only empty files"):
        find_input(str(tmp_path))
    (tmp_path / "b.csv").write_text("user,n\nx,1\n")
    assert find_input(str(tmp_path)).columns() == ["user", "n"]
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table({"user": ["x"]}), tmp_path / "parquet" / "a.parquet")
    (tmp_path / "parquet" / "b.parquet").touch()
    with pytest.raises(ValueError, match=r"b\.parquet' is empty and so not a valid Parquet file"):
        find_input(str(tmp_path / "parquet"))


def test_a_broken_file_is_refused_when_its_columns_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is none")
    with pytest.raises(ValueError, match=r"broken\.parquet' cannot be read as parquet"):
        find_input(str(tmp_path / "broken.parquet")).columns()


def test_a_stream_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    with pytest.raises(ValueError, match=r"--stream reads a folder, and .*a\.csv' is a file"):
        find_input(str(tmp_path / "a.csv")).require_folder()


def test_an_unknown_column_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,n\nx,1\n")
    with pytest.raises(ValueError, match="--key: unknown column 'usr'; did you mean 'user'"):
        find_input(str(tmp_path / "a.csv")).require_columns(["usr"], "--key")


def test_an_address_is_left_to_spark() -> None:
    found = find_input("s3a://bucket/words.csv")
    assert (found.format, found.columns()) == ("csv", None)
    assert find_input("s3a://bucket/words.tsv.gz").separator == "\t"
    assert find_input("s3a://bucket/words.csv", delimiter=";").separator == ";"
    with pytest.raises(ValueError, match="--format is needed"):
        find_input("s3a://bucket/words")


def test_a_delimiter_is_taken_for_csv_and_refused_for_others(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user;n\nx,y;1\n")
    (tmp_path / "b.tsv").write_text("user|n\nx|1\n")
    (tmp_path / "c.txt").write_text("a;b")
    assert find_input(str(tmp_path / "a.csv"), delimiter=";").columns() == ["user", "n"]
    assert find_input(str(tmp_path / "b.tsv"), delimiter="|").columns() == ["user", "n"]
    assert find_input(str(tmp_path / "a.csv"), delimiter=r"\t").separator == "\t"
    with pytest.raises(
        ValueError, match=r"^--delimiter goes with CSV files, and '.*c\.txt' is read"
    ):
        find_input(str(tmp_path / "c.txt"), delimiter=";")
    for wrong in ("", ";;", "é", '"', "\n"):
        with pytest.raises(ValueError, match=r"^--delimiter must be one ASCII character"):
            find_input(str(tmp_path / "a.csv"), delimiter=wrong)
