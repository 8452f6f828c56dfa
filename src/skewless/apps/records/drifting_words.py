"""A stream of words whose hot ones keep changing, as Parquet files for Spark to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from skewless.apps.records.stream_files import event_times, write_stream_pieces
from skewless.parameters import check_types, require
from skewless.workloads import ShiftingZipf

#: The columns of the files, as Spark spells a schema.
SCHEMA = "ts timestamp, word string"


@dataclass(frozen=True)
class DriftingWords:
    """Words by a Zipf distribution whose hot words change after every period.

    Record i has the event time i · `seconds` / `n_records`. A micro-batch is `n_files` files, and
    each file is read by another source. The same seed makes the same files.

    Parameters
    ----------
    n_records
        Records in all.
    n_batches
        Micro-batches into which they are cut.
    n_files
        Files of a micro-batch.
    z, n_words
        The exponent and the size of the vocabulary.
    n_periods
        How often the hot words are drawn. Not a multiple of `n_batches`, or they would only change
        between micro-batches.
    seconds
        How long the stream lasts, in event time.
    seed
        Of all draws.
    """

    n_records: int = 400_000
    n_batches: int = 8
    n_files: int = 4
    z: float = 1.4
    n_words: int = 20_000
    n_periods: int = 5
    seconds: int = 360
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("n_batches", "n_files", "n_periods", "seconds"):
            require(self, name, getattr(self, name) >= 1, "at least 1")
        n_pieces = self.n_batches * self.n_files
        require(self, "n_records", self.n_records >= n_pieces, f"at least 1 per file, {n_pieces}")
        require(self, "seed", self.seed >= 0, "at least 0")

    def write(self, folder: Path) -> None:
        """Write the files; Spark reads them in the order of their times of modification."""
        write_stream_pieces(self._pieces(), self.n_records, folder, self.n_batches, self.n_files)

    def _pieces(self) -> Iterator[pa.Table]:
        stream = ShiftingZipf(
            z_min=self.z,
            z_max=self.z,
            n_keys=self.n_words,
            n_records=self.n_records,
            period=-(-self.n_records // self.n_periods),
        )
        begin = 0
        for ranks in stream.ranks(self.seed):
            times = event_times(self.n_records, self.seconds, begin, begin + ranks.size)
            texts = pa.array(ranks).cast(pa.string())
            yield pa.table({"ts": times, "word": pc.binary_join_element_wise("w", texts, "")})
            begin += ranks.size
