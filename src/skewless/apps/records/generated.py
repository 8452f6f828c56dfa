"""Small streams for the applications: the same records each time, with hot keys that change.

They are written as files that Spark reads in order.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skewless.arrays import Ints
from skewless.workloads import ShiftingZipf

#: The columns of words, as Spark spells a schema.
SCHEMA = "ts timestamp, word string"
#: Files of a generated stream, and those of a micro-batch.
N_FILES, FILES_PER_BATCH = 8, 2
#: Records that are made at once. Their texts are Python objects, which take most of the memory.
PIECE = 250_000
#: A stream of fewer records than files would have empty files.
FEWEST, MOST = N_FILES, 100_000_000
#: How often the hot keys are drawn: not a multiple of the micro-batches of the main job or of a
#: generated stream, or they would only change between micro-batches.
N_PERIODS = 5
#: When generated streams begin: 2026-01-01 00:00 UTC, in microseconds.
BEGIN_US = 1_767_225_600_000_000
_Rng = np.random.Generator
_TALK = "today we meet in the town hall and everybody is welcome to come"


def write_generated(
    kind: str,
    folder: Path,
    n_records: int,
    *,
    n_batches: int = N_FILES // FILES_PER_BATCH,
    n_files: int = FILES_PER_BATCH,
    seconds: int = 600,
    seed: int = 0,
) -> None:
    """Write a stream of trades, posts, positions, flows or words into a new folder.

    It is cut into micro-batches of `n_files` files, each for another source, and lasts this many
    seconds of event time, from 2026-01-01 on. The hot keys change four times. The same seed makes
    the same files. They are made piece by piece, so memory does not grow with their records.
    """
    pieces = _pieces(_KINDS[kind], n_records, seconds, seed)
    write_stream_pieces(pieces, n_records, folder, n_batches, n_files)


def _words(rng: _Rng, ranks: Ints) -> dict[str, Any]:
    return {"word": _named("w", ranks)}


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
    "words": _Kind(_words, 20_000, 1.4),
}


def _pieces(kind: _Kind, n_records: int, seconds: int, seed: int) -> Iterator[pa.Table]:
    """Yield the records, some at a time; the hot keys are drawn anew in each period."""
    n_ranks = n_records * kind.per_record
    stream = ShiftingZipf(
        z_min=kind.z,
        z_max=kind.z,
        n_keys=kind.n_keys,
        n_records=n_ranks,
        period=-(-n_ranks // N_PERIODS),
    )
    begin = 0
    for number, ranks in enumerate(stream.ranks(seed, PIECE * kind.per_record)):
        end = begin + ranks.size // kind.per_record
        columns = kind.make(np.random.default_rng(number), ranks)
        times = np.arange(begin, end) * seconds * 1_000_000 // n_records + BEGIN_US
        yield pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **columns})
        begin = end


def _named(letter: str, numbers: Ints) -> pa.Array:
    return pc.binary_join_element_wise(letter, pa.array(numbers).cast(pa.string()), "")


def _addresses(first: int, numbers: Ints) -> pa.Array:
    texts = [f"{first}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers.tolist()]
    return pa.array(texts, pa.string())


def write_stream_pieces(
    pieces: Iterable[pa.Table], n_records: int, folder: Path, n_batches: int, n_files: int
) -> None:
    """Write micro-batches of `n_files` files, which Spark orders by their modification time.

    Of the tables, which follow each other and have `n_records` rows together, one is in memory.
    """
    folder.mkdir(parents=True)
    waiting = iter(pieces)
    piece = next(waiting)
    ends = [n_records * (i + 1) // n_batches for i in range(n_batches)]
    for batch, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        paths = [folder / f"batch-{batch:04}-{number:02}.parquet" for number in range(n_files)]
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(pq.ParquetWriter(path, piece.schema)) for path in paths]
            done = begin
            while done < end:
                piece = piece if piece.num_rows else next(waiting)
                records = piece.slice(0, end - done)
                for number, file in enumerate(files):
                    first = (number - (done - begin)) % n_files
                    mine = pa.array(np.arange(first, records.num_rows, n_files))
                    file.write_table(records.take(mine))
                done += records.num_rows
                piece = piece.slice(records.num_rows)
        for number, path in enumerate(paths):
            moment = BEGIN_US // 1_000_000 + batch * n_files + number
            os.utime(path, (moment, moment))
