"""Files of records: examined before Spark starts, then read by Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from skewless.parameters import nearest
from skewless.spark.diagnosis.counted_keys import BEGIN, FILE, ROW
from skewless.workloads.trace import FORMATS, is_remote
from skewless.workloads.trace_files import (
    BY_NAME,
    delimiter_by_ending,
    delimiter_of,
    files_of,
    require_csv,
    schema_of,
    suffix_of,
)

#: Spark's names of the formats; its json is JSON lines.
_FORMATS = {ending: "json" if name == "jsonl" else name for ending, name in FORMATS.items()}
_COMPRESSED = (".gz", ".bz2")  # of which Spark can read all files
#: The column of the words of a text.
WORD = "word"


@dataclass(frozen=True)
class Input:
    """Records in a file or a folder of files, all of one format."""

    path: str
    format: str
    separator: str = ","
    first: Path | None = None  # a file to examine; None if only Spark can open it

    def columns(self) -> list[str] | None:
        """Return the names of the columns; None if only Spark can open the files."""
        if self.first is None:
            return None
        if self.format == "text":
            return [WORD]
        try:
            kind = "jsonl" if self.format == "json" else self.format
            names = list(schema_of(self.first, kind, self.separator).names)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{str(self.first)!r} cannot be read as {self.format}: {error}"
            ) from None
        folders = self.first.relative_to(self.path).parts[:-1] if Path(self.path).is_dir() else ()
        return [*names, *(part.split("=")[0] for part in folders if "=" in part)]

    def require_columns(self, names: Iterable[str], option: str) -> None:
        """Raise ValueError unless the records have these columns, if that can be seen here."""
        there = self.columns()
        for name in names:
            if there is not None and name not in there:
                hint = nearest(name, there, "column")
                raise ValueError(f"{option}: {hint}; {self.path!r} has {', '.join(there)}")

    def require_folder(self) -> None:
        """Raise ValueError if this is a file, which cannot grow, if that can be seen here."""
        if not is_remote(self.path) and not Path(self.path).is_dir():
            raise ValueError(f"--stream reads a folder, and {self.path!r} is a file")

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the records."""
        return self._words(self._load(spark.read))

    def read_in_places(self, spark: SparkSession) -> DataFrame:
        """Return the records, with columns for the place of each in the files.

        An empty value of a CSV file is an empty text, not null.
        """
        places = [F.col("_metadata.file_path").alias(FILE)]
        places += [F.col("_metadata.file_block_start").alias(BEGIN)]
        records = self._load(spark.read).select("*", *places)
        if self.format == "csv":
            records = records.na.fill("")
        records = self._words(records, FILE, BEGIN)
        return records.withColumn(ROW, F.monotonically_increasing_id())

    def read_stream(self, spark: SparkSession, files_per_batch: int | None = None) -> DataFrame:
        """Return the records as a stream; a micro-batch reads this many files, or all."""
        reader = spark.readStream.schema(self._load(spark.read).schema)
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        return self._words(self._load(reader))

    def _load(self, reader: DataFrameReader | DataStreamReader) -> DataFrame:
        if self.format == "csv":
            reader = reader.options(header=True, sep=self.separator)
        return reader.format(self.format).load(self.path)

    def _words(self, records: DataFrame, *kept: str) -> DataFrame:
        if self.format != "text":
            return records
        words = F.filter(F.split("value", r"\s+"), lambda word: word != "")
        return records.select(F.explode(words).alias(WORD), *kept)


def find_input(path: str, format: str = "auto", delimiter: str = BY_NAME) -> Input:
    """Return the records at `path`; raise ValueError or OSError where they cannot be read.

    Unless they are given, the ends of the names decide the format and the delimiter of CSV. As in
    Spark, names in a folder that begin with `_` or `.` are ignored.
    """
    known = sorted(set(_FORMATS.values()))
    format = "json" if format == "jsonl" else format  # as traces call it
    if format not in ("auto", *known):
        raise ValueError(f"--format must be one of auto, {', '.join(known)}, not {format!r}")
    given = delimiter_of(delimiter, "--delimiter")
    if is_remote(path):
        name = Path(path.split("?")[0])
        kind = _format_of(name) if format == "auto" else format
        if kind is None:
            raise ValueError(f"--format is needed for {path!r}: one of {', '.join(known)}")
        require_csv(delimiter, "--delimiter", path, kind)
        return Input(path, kind, given or delimiter_by_ending(suffix_of(name, _COMPRESSED)))
    files = files_of(path, "--input")
    # An example of each format.
    kinds = {_format_of(file) if format == "auto" else format: file.name for file in files[::-1]}
    if None in kinds:
        raise ValueError(
            f"--input: the format of {kinds[None]!r} is not known by its name; "
            f"give --format, one of {', '.join(known)}"
        )
    if len(kinds) > 1:
        found = ", ".join(f"{kind} ({kinds[kind]!r})" for kind in sorted(map(str, kinds)))
        raise ValueError(
            f"--input: {path!r} has files of several formats: {found}; give a folder or a file of "
            "one, or --format to read all of them as one"
        )
    format = str(next(iter(kinds)))
    require_csv(delimiter, "--delimiter", path, format)
    first = _first_with_records(path, files, format)
    return Input(path, format, given or delimiter_by_ending(suffix_of(first, _COMPRESSED)), first)


def _first_with_records(path: str, files: list[Path], format: str) -> Path:
    """Return a file to examine; raise if all are empty, or if a Parquet file is."""
    full = [file for file in files if file.stat().st_size]
    if not full:
        what = "is empty" if files == [Path(path)] else "has only empty files"
        raise ValueError(f"--input: {path!r} {what}")
    if format == "parquet" and len(full) < len(files):
        empty = next(file for file in files if file not in full)
        raise ValueError(f"--input: {str(empty)!r} is empty and so not a valid Parquet file")
    with full[0].open("rb"):  # gives the best error for a file that cannot be read
        pass
    return full[0]


def _format_of(file: Path) -> str | None:
    return _FORMATS.get(suffix_of(file, _COMPRESSED))
