"""The files of traces: what columns they have, read piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from skewless.plumbing.arguments import shown

#: It goes by the end of the file's name.
BY_NAME = "auto"
_NEVER = '"\n\r\0'


def delimiter_of(text: object) -> str | None:
    r"""Return the delimiter that a text means, None for "auto"; raise ValueError for other texts.

    >>> delimiter_of(";"), delimiter_of(r"\t")
    (';', '\t')
    """
    if text == BY_NAME:
        return None
    found = "\t" if text == r"\t" else text
    if isinstance(found, str) and len(found) == 1 and found.isascii() and found not in _NEVER:
        return found
    allowed = r"one ASCII character (\t is a tab), no quote and no end of a line"
    raise ValueError(f"trace: delimiter must be {allowed}, not {shown(text)}")


_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
# Readers work ahead by some blocks of this size; a CSV or JSON record must fit into one.
_BLOCK_BYTES = 1 << 20


def schema_of(file: Path, kind: str, delimiter: str = BY_NAME) -> pa.Schema:
    """Return the columns of a file, from its beginning or its footer."""
    if kind == "parquet":
        return pa.parquet.read_schema(file)
    opened = open_csv(file, (), delimiter) if kind == "csv" else open_json(file, None)
    with opened as reader:
        return reader.schema


def open_csv(file: Path, columns: tuple[str, ...], delimiter: str) -> Any:
    """Return a reader of some columns as text; no columns means all."""
    between = delimiter_of(delimiter) or ("\t" if suffix_of(file) == ".tsv" else ",")
    return pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(delimiter=between),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(columns), column_types={column: pa.string() for column in columns}
        ),
    )


def open_json(file: Path, columns: tuple[str, ...] | None, *, as_number: bool = False) -> Any:
    """Return a reader of some columns, typed by what the file begins with; None means all.

    With `as_number`, a column that begins with whole numbers may contain other numbers later.
    """
    reading = pa.json.ReadOptions(block_size=_BLOCK_BYTES)
    if columns is None:
        return pa.json.open_json(file, reading)
    found = schema_of(file, "jsonl")
    # Arrow takes text that looks like a time for a time; JSON, and Spark, know only text.
    types = {
        name: pa.string() if pa.types.is_timestamp(kind) else kind
        for name, kind in ((name, found.field(name).type) for name in columns)
    }
    if as_number:
        types = dict.fromkeys(columns, pa.float64())
    parsing = pa.json.ParseOptions(
        explicit_schema=pa.schema(types.items()), unexpected_field_behavior="ignore"
    )
    return pa.json.open_json(file, reading, parsing)


def files_of(path: str) -> list[Path]:
    """Return the file, or the files of a folder in the order of their names.

    Names that begin with `_` or `.` are left out, as Spark does. Empty files, which jobs leave
    behind, count only if there are no others. An empty Parquet file is broken, and not left out.
    """
    place = Path(path)
    try:
        is_there = place.exists()
    except OSError as error:  # such as a name that is too long
        raise ValueError(f"trace: path {shown(path)}: {error.strerror}") from None
    if not is_there:
        raise FileNotFoundError(f"trace: there is no file or folder {path!r}")
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.rglob("*") if file.is_file())
    seen = [
        file
        for file in files
        if not any(part.startswith(("_", ".")) for part in file.relative_to(place).parts)
    ]
    if not seen:
        raise ValueError(f"trace: there are no files in {path!r}")
    full = [file for file in seen if file.stat().st_size or suffix_of(file) in (".parquet", ".pq")]
    return full or seen


def suffix_of(file: Path) -> str:
    """Return the end of the name that tells the format, without that of the compression."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
