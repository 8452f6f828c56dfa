"""Small streams for the applications: the same records each time, with hot keys that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.apps.records.stream_files import event_times, write_stream_pieces
from skewless.apps.tpch_tables import TpchStream
from skewless.arrays import Ints
from skewless.parameters import check_types, require, require_count
from skewless.workloads import CHUNK_SIZE, ShiftingZipf

#: The columns of `DriftingWords`, as Spark spells a schema.
SCHEMA = "ts timestamp, word string"
#: Files of a generated stream, and those of a micro-batch.
N_FILES, FILES_PER_BATCH = 8, 2
#: Records that are made at once. Their texts are Python objects, which take most of the memory.
PIECE = 250_000
_MOST_RECORDS = 100_000_000
#: The most line items: the tables of TPC-H are made in memory, in some 100 bytes a line item.
_MOST_ITEMS = 20_000_000
_SECONDS = 600
_N_BATCHES = N_FILES // FILES_PER_BATCH
_Rng = np.random.Generator
_FIRST = "anna bruno clara david elena felix greta hugo irene jonas katja lukas"
_LAST = "adler bergmann caspari dietrich engelhart fontane grossmann hildebrand"
_TALK = "today we meet in the town hall and everybody is welcome to come"


@dataclass(frozen=True)
class DriftingWords:
    """Words by a Zipf distribution whose hot words change after every period.

    Record i has the event time i · `seconds` / `n_records`. A micro-batch is `n_files` files, and
    each file is read by another source. The same seed makes the same files.
    """

    n_records: int = 400_000  # records in all
    n_batches: int = 8  # micro-batches into which they are cut
    n_files: int = 4  # files of a micro-batch
    # The exponent and the size of the vocabulary.
    z: float = 1.4
    n_words: int = 20_000
    # How often the hot words are drawn. Not a multiple of `n_batches`, or they would only change
    # between micro-batches.
    n_periods: int = 5
    seconds: int = 360  # how long the stream lasts, in event time
    seed: int = 0  # of all draws

    def __post_init__(self) -> None:
        check_types(self)
        require_count(self, "n_batches", "n_files", "n_periods", "seconds")
        n_pieces = self.n_batches * self.n_files
        require(self, "n_records", self.n_records >= n_pieces, f"at least 1 per file, {n_pieces}")
        require(self, "seed", self.seed >= 0, "at least 0")

    def write(self, folder: Path) -> None:
        """Write the files; Spark reads them in the order of their times of modification."""
        kind = _Kind(_words, self.n_words, self.z)
        pieces = _pieces(kind, self.n_records, self.n_periods, self.seconds, self.seed, CHUNK_SIZE)
        write_stream_pieces(pieces, self.n_records, folder, self.n_batches, self.n_files)


def write_generated(kind: str, folder: Path, n_records: int) -> None:
    """Write a stream of trades, posts, positions, flows, voters or words into a new folder.

    It lasts ten minutes of event time, from 2026-01-01 on. The hot keys change four times. The kind
    "tables" makes those of TPC-H, with this many line items: see `TpchStream`. All other kinds are
    made piece by piece, so memory does not grow with their number.
    """
    if kind == "tables":
        TpchStream(n_items=n_records, n_files=FILES_PER_BATCH).write(folder)
        return
    if kind == "words":
        DriftingWords(
            n_records=n_records, n_batches=_N_BATCHES, n_files=FILES_PER_BATCH, seconds=_SECONDS
        ).write(folder)
        return
    pieces = _pieces(_KINDS[kind], n_records, 5, _SECONDS, 0, PIECE)
    write_stream_pieces(pieces, n_records, folder, _N_BATCHES, FILES_PER_BATCH)


def allowed_records(kind: str) -> tuple[int, int]:
    """Return the fewest records of a kind with which no file is empty, and the most records."""
    if kind == "tables":
        return TpchStream.fewest(FILES_PER_BATCH), _MOST_ITEMS
    return N_FILES, _MOST_RECORDS


def _words(rng: _Rng, ranks: Ints) -> dict[str, Any]:
    texts = pa.array(ranks).cast(pa.string())
    return {"word": pc.binary_join_element_wise("w", texts, "")}


def _trades(rng: _Rng, symbols: Ints) -> dict[str, Any]:
    n = symbols.size
    cents = 1_000 + 37 * symbols + rng.integers(-50, 51, n)
    return {
        "symbol": _named("S", symbols),
        "price": cents / 100,
        "size": 100.0 * rng.integers(1, 20, n),
        "trader": _named("T", rng.integers(1, 40, n)),
        "side": pa.array(np.where(rng.random(n) < 0.5, "buy", "sell")),
    }


def _posts(rng: _Rng, ranks: Ints) -> dict[str, Any]:
    tags = ranks.reshape(-1, 2)
    n = len(tags)
    words = rng.choice(_TALK.split(), (n, 3))
    n_tags = rng.integers(0, 3, n)
    texts = [
        " ".join([*some, *(f"#Tag{tag}" for tag in mine[:count])])
        for some, mine, count in zip(words.tolist(), tags.tolist(), n_tags.tolist(), strict=True)
    ]
    return {"text": pa.array(texts, pa.string())}


def _positions(rng: _Rng, cells: Ints) -> dict[str, Any]:
    n = cells.size
    return {
        "cell": _named("C", cells),
        "vehicle": _named("V", rng.integers(1, 500, n)),
        "speed": rng.integers(0, 800, n) / 10,
    }


def _flows(rng: _Rng, sources: Ints) -> dict[str, Any]:
    n = sources.size
    return {
        "source": _addresses(10, sources),
        "destination": _addresses(192, 1 + rng.integers(0, 50, n) * (sources % 7 == 0)),
        "bytes": rng.integers(40, 1_500, n),
    }


def _voters(rng: _Rng, postcodes: Ints) -> dict[str, Any]:
    """Return names; a third of them has a doubled letter, like a typing error."""
    n = postcodes.size
    first, last = (rng.choice(some.split(), n).astype(object) for some in (_FIRST, _LAST))
    names = first + " " + last
    places = rng.integers(0, 12, n).tolist()
    wrong = (rng.random(n) < 1 / 3).tolist()
    typed = [
        name[: at + 1] + name[at:] if is_wrong else name
        for name, at, is_wrong in zip(names.tolist(), places, wrong, strict=True)
    ]
    return {"postcode": _named("P", postcodes), "name": pa.array(typed)}


class _Kind(NamedTuple):
    """How records are made from the ranks of keys, and the Zipf distribution of the ranks."""

    make: Callable[[_Rng, Ints], dict[str, Any]]
    n_keys: int
    z: float
    per_record: int = 1


_KINDS = {
    "trades": _Kind(_trades, 200, 1.2),
    "posts": _Kind(_posts, 5_000, 1.1, per_record=2),
    "positions": _Kind(_positions, 400, 1.1),
    "flows": _Kind(_flows, 20_000, 1.3),
    "voters": _Kind(_voters, 300, 1.2),
}


def _pieces(
    kind: _Kind, n_records: int, n_periods: int, seconds: int, seed: int, size: int
) -> Iterator[pa.Table]:
    """Yield the records, this many at a time; the hot keys are drawn anew in each period."""
    n_ranks = n_records * kind.per_record
    stream = ShiftingZipf(
        z_min=kind.z,
        z_max=kind.z,
        n_keys=kind.n_keys,
        n_records=n_ranks,
        period=-(-n_ranks // n_periods),
    )
    begin = 0
    for number, ranks in enumerate(stream.ranks(seed, size * kind.per_record)):
        end = begin + ranks.size // kind.per_record
        columns = kind.make(np.random.default_rng(number), ranks)
        yield pa.table({"ts": event_times(n_records, seconds, begin, end), **columns})
        begin = end


def _named(letter: str, numbers: Ints) -> pa.Array:
    return pa.array([f"{letter}{number}" for number in numbers.tolist()], pa.string())


def _addresses(first: int, numbers: Ints) -> pa.Array:
    texts = [f"{first}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers.tolist()]
    return pa.array(texts, pa.string())
