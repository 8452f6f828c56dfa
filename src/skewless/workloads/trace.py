"""Traces: the keys of real streams, read from files in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from skewless.arrays import Floats, Keys
from skewless.keys import hash_keys
from skewless.parameters import WeightError, check_types, require
from skewless.plumbing.arguments import path_text, shown
from skewless.workloads.trace_files import (
    BY_NAME,
    delimiter_of,
    files_of,
    open_csv,
    open_json,
    schema_of,
    suffix_of,
)
from skewless.workloads.workload import CHUNK_SIZE

T = TypeVar("T", bound=np.generic)

#: The formats of files by their endings.
FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
}
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Trace:
    """The keys of a file, or of a folder of files in the order of their names.

    Formats: Parquet, CSV with a header (`.tsv`: tabs), and JSON lines. Files are read piece by
    piece, however large they are; all but Parquet may be compressed. The file, its format and the
    columns are checked when the trace is made.

    Parameters
    ----------
    path
        The file or folder. In a folder, names that begin with `_` or `.` are left out. Empty
        files are left out, except Parquet.
    key
        The columns that are the key; as text with commas between them. Columns of CSV files are
        hashed as the text that is written there.
    format
        `"parquet"`, `"csv"` or `"jsonl"`; `"auto"` goes by the end of the name.
    limit
        At most this many records; None: all.
    weight
        The column with what a record costs, a number of at least 0; None: all cost the same.
    delimiter
        The character between the columns of CSV files, such as `";"` or `"\\t"`; `"auto"`: a comma,
        and a tab for `.tsv`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "words.csv"
    ...     _ = path.write_text("word\\nto\\nbe\\nor\\nnot\\nto\\nbe\\n")
    ...     keys = next(Trace(path=str(path), key=("word",)).chunks(seed=0))
    >>> bool(keys[0] == keys[4]), len(set(keys.tolist()))
    (True, 4)
    """

    name: ClassVar[str] = "trace"

    path: str = ""
    key: tuple[str, ...] = ("key",)
    format: Literal["auto", "parquet", "csv", "jsonl"] = "auto"
    limit: int | None = None
    weight: str | None = None
    delimiter: str = BY_NAME

    def __post_init__(self) -> None:
        path = path_text(self.path, "trace: path", "the path of a file or folder")
        object.__setattr__(self, "path", path)
        if isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key.split(",")))
        are_names = isinstance(self.key, tuple | list) and all(
            isinstance(name, str) and name for name in self.key
        )
        require(self, "key", are_names and bool(self.key), "at least one column, each by its name")
        object.__setattr__(self, "key", tuple(self.key))
        check_types(self)
        require(self, "limit", self.limit is None or self.limit >= 0, "at least 0, or None")
        delimiter_of(self.delimiter)
        for file in files_of(self.path):
            with file.open("rb"):  # has the best message for a file that cannot be read
                pass
            self._require_columns(file)

    @property
    def n_records(self) -> int | None:
        """How many records there are; None for formats that would have to be read for it."""
        files = files_of(self.path)
        if any(_format_of(file, self.format) != "parquet" for file in files):
            return None
        n_records = sum(int(pa.parquet.read_metadata(file).num_rows) for file in files)
        return n_records if self.limit is None else min(n_records, self.limit)

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        """Yield the key hashes in order; a trace is the same for every seed."""
        pieces = (hash_keys(*batch.columns) for batch in self._key_batches(chunk_size))
        return _cut(pieces, chunk_size, self.limit)

    def weights(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Floats] | None:
        """Yield what the records cost, cut like `chunks`; None where all cost the same."""
        if self.weight is None:
            return None
        pieces = (self._costs(file, chunk_size) for file in files_of(self.path))
        return _cut(chain.from_iterable(pieces), chunk_size, self.limit)

    def values(self, hashes: Keys) -> dict[int, tuple[Any, ...]]:
        """Return the values of the key columns by hash, if they occur; reads the files again."""
        wanted = np.unique(hashes)
        found: dict[int, tuple[Any, ...]] = {}
        for batch in self._key_batches(CHUNK_SIZE):
            keys = hash_keys(*batch.columns)
            for key, row in zip(*np.unique(keys, return_index=True), strict=True):
                if int(key) not in found and key in wanted:
                    found[int(key)] = tuple(column[int(row)].as_py() for column in batch.columns)
            if len(found) == wanted.size:
                break
        return found

    def _require_columns(self, file: Path) -> None:
        kind = _format_of(file, self.format)
        schema = _schema(file, kind, self.delimiter)
        named = [("key", column) for column in self.key]
        named += [] if self.weight is None else [("weight", self.weight)]
        for parameter, column in named:
            if column not in schema.names:
                hint = delimiter_hint(schema.names) if kind == "csv" else ""
                raise ValueError(
                    f"trace: {parameter}: {str(file)!r} has no column {column!r}; "
                    f"it has {', '.join(schema.names)}{hint and '. ' + hint}"
                )
        if self.weight is not None and not _is_number(schema.field(self.weight).type):
            raise ValueError(
                f"trace: weight: column {self.weight!r} of {str(file)!r} must be numbers, "
                f"not {schema.field(self.weight).type}"
            )

    def _key_batches(self, chunk_size: int) -> Iterator[pa.RecordBatch]:
        for file in files_of(self.path):
            for batch in self._batches(file, self.key, chunk_size):
                yield batch.select(list(self.key))  # a file may have another order

    def _costs(self, file: Path, chunk_size: int) -> Iterator[Floats]:
        """Yield the weights of one file; a missing weight is NaN."""
        assert self.weight is not None
        try:
            for batch in self._batches(file, (self.weight,), chunk_size, as_number=True):
                costs = pc.cast(batch.column(0), pa.float64(), safe=False)
                yield costs.to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise WeightError(
                f"trace: weight: column {self.weight!r} of {str(file)!r} must be numbers: {error}"
            ) from error

    def _batches(
        self, file: Path, columns: tuple[str, ...], chunk_size: int, *, as_number: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns of a file, in pieces of any size."""
        kind = _format_of(file, self.format)
        if kind == "parquet":
            with pa.parquet.ParquetFile(file) as parquet:
                # One reader per row group: a reader of all keeps what it has read to the end.
                for group in range(parquet.num_row_groups):
                    yield from parquet.iter_batches(chunk_size, [group], columns=list(columns))
            return
        opened = (
            open_csv(file, columns, self.delimiter)
            if kind == "csv"
            else open_json(file, columns, as_number=as_number)
        )
        with opened as rows:
            yield from rows


def delimiter_hint(columns: Iterable[str]) -> str:
    """Return a hint if the only column of a table looks like several, else an empty text.

    >>> delimiter_hint(["user;n"])
    "The only column may be several: give the delimiter ';'"
    >>> delimiter_hint(["a", "b;c"])
    ''
    """
    names = list(columns)
    found = [mark for mark in ";\t|" if len(names) == 1 and mark in names[0]]
    return f"The only column may be several: give the delimiter {found[0]!r}" if found else ""


def _cut(pieces: Iterator[NDArray[T]], chunk_size: int, limit: int | None) -> Iterator[NDArray[T]]:
    """Yield at most `limit` records, in chunks that are all of `chunk_size` except the last."""
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
    waiting: list[NDArray[T]] = []
    n_waiting = 0
    left = limit
    for piece in pieces:
        records = piece if left is None else piece[:left]
        left = None if left is None else left - records.size
        waiting.append(records)
        n_waiting += records.size
        if n_waiting >= chunk_size:
            records = np.concatenate(waiting)
            cut = n_waiting - n_waiting % chunk_size
            for first in range(0, cut, chunk_size):
                yield records[first : first + chunk_size]
            waiting, n_waiting = [records[cut:]], n_waiting - cut
        if left == 0:
            break
    if n_waiting:
        yield np.concatenate(waiting)


def _is_number(kind: pa.DataType) -> bool:
    kinds = pa.types
    is_one = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
    return kinds.is_null(kind) or any(test(kind) for test in is_one)  # null: there are no records


def is_remote(path: str) -> bool:
    """Return whether a path is an address that only Spark can open.

    >>> is_remote("s3a://orders/2026"), is_remote("orders/2026")
    (True, False)
    """
    return bool(_REMOTE.match(path))


def columns_of(path: str, format: str = "auto", delimiter: str = BY_NAME) -> dict[str, pa.DataType]:
    """Return the columns of the first file of a trace."""
    known = sorted(set(FORMATS.values()))
    if format not in ("auto", *known):
        raise ValueError(f"format must be one of auto, {', '.join(known)}, not {shown(format)}")
    file = files_of(path)[0]
    kind = _format_of(file, format)
    delimiter_of(delimiter)
    schema = _schema(file, kind, delimiter)
    return dict(zip(schema.names, schema.types, strict=True))


def _schema(file: Path, kind: str, delimiter: str) -> pa.Schema:
    if delimiter != BY_NAME and kind != "csv":
        raise ValueError(
            f"trace: delimiter goes with CSV files, and {shown(file.name)} is read as {kind}"
        )
    try:
        return schema_of(file, kind, delimiter)
    except pa.ArrowInvalid as error:
        raise ValueError(f"trace: {str(file)!r} cannot be read as {kind}: {error}") from error


def _format_of(file: Path, format: str) -> str:
    if format != "auto":
        return format
    suffix = suffix_of(file)
    if suffix not in FORMATS:
        raise ValueError(
            f"trace: format must be one of {', '.join(sorted(set(FORMATS.values())))}: that of "
            f"{file.name!r} is not known by its name"
        )
    return FORMATS[suffix]
