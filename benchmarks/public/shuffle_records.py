"""ShuffleBench's stream: records of 1 KB, and rules that say which consumers get each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.streams import write_files
from skewless.arrays import Floats, Ints
from skewless.parameters import check_types, require

#: The columns of the files, as Spark spells a schema.
RECORD = "id bigint, value binary"

_FIELDS = 4  # numbers of eight bytes at the beginning of a record, which the rules look at
_HEAD = 8 * _FIELDS


@dataclass(frozen=True)
class Rules:
    """One rule per consumer: a number of the record is in the consumer's range.

    The ranges of the rules differ in width by Zipf's law, so a few consumers get most records. A
    record begins with four numbers, and a rule looks at one of them; ranges of the same number do
    not overlap. So a record has up to four consumers.
    """

    n_consumers: int = 1000  # how many consumers there are, from 0; consumer 0 gets the most
    z: float = 1.0  # the exponent
    matches: float = 1.5  # how many consumers a record has on average

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "n_consumers", self.n_consumers >= _FIELDS, f"at least {_FIELDS}")
        require(self, "z", self.z >= 0, "at least 0")
        require(self, "matches", self.matches > 0, "above 0")
        widest = max(self.selectivities()[field::_FIELDS].sum() for field in range(_FIELDS))
        require(self, "matches", bool(widest <= 1), "less: the ranges of a number do not fit")

    def selectivities(self) -> Floats:
        """Return the share of all records that each consumer gets."""
        weights = np.arange(1, self.n_consumers + 1, dtype=np.float64) ** -self.z
        shares: Floats = weights / weights.sum() * self.matches
        return shares

    def match(self, values: pa.Array) -> tuple[Ints, Ints]:
        """Return all pairs of a record and a consumer whose rule it fulfils."""
        heads = b"".join(pc.binary_slice(values, 0, _HEAD).to_pylist())
        # 53 bits are what a float has: no number is rounded up to 1.
        numbers = (np.frombuffer(heads, "<u8").reshape(-1, _FIELDS) >> np.uint64(11)) * 2.0**-53
        shares = self.selectivities()
        rows, consumers = [], []
        for field in range(_FIELDS):
            ends = np.cumsum(shares[field::_FIELDS])
            places = np.searchsorted(ends, numbers[:, field], "right")
            found = np.flatnonzero(places < ends.size)
            rows.append(found)
            consumers.append(places[found] * _FIELDS + field)
        return np.concatenate(rows), np.concatenate(consumers)


@dataclass(frozen=True)
class ShuffleRecords:
    """Records of random bytes; the same seed makes the same files."""

    n_records: int = 20_000  # records in all
    n_batches: int = 4  # micro-batches into which they are cut
    record_bytes: int = 1024  # the size of a record
    seed: int = 0  # of all bytes

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "n_batches", self.n_batches >= 1, "at least 1")
        enough = self.n_records >= self.n_batches
        require(self, "n_records", enough, f"at least 1 per batch, {self.n_batches}")
        # The largest state takes in as many bytes of a record as it has.
        require(self, "record_bytes", self.record_bytes >= 1024, "at least 1024")
        require(self, "seed", self.seed >= 0, "at least 0")

    def records(self, batch: int) -> pa.Table:
        begin, end = (self.n_records * i // self.n_batches for i in (batch, batch + 1))
        rng = np.random.default_rng([self.seed, batch])
        content = rng.bytes((end - begin) * self.record_bytes)
        values: Any = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(self.record_bytes), end - begin, [None, pa.py_buffer(content)]
        )
        return pa.table({"id": np.arange(begin, end), "value": values.cast(pa.binary())})

    def write(self, folder: Path) -> None:
        """Write the folder `records`, one file per micro-batch."""
        write_files(folder / "records", (self.records(i) for i in range(self.n_batches)))
