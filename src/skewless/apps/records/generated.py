"""Small streams for the applications: the same records each time, with hot keys that change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.apps.records.drifting_words import DriftingWords
from skewless.apps.records.stream_files import event_times, write_stream_files
from skewless.apps.tpch.generating import TpchStream
from skewless.arrays import Ints
from skewless.workloads import ShiftingZipf

#: Files of a generated stream, and those of a micro-batch.
N_FILES, FILES_PER_BATCH = 8, 2
#: The most records: they are made in memory.
MOST_RECORDS = 100_000_000
_SECONDS = 600
_N_BATCHES = N_FILES // FILES_PER_BATCH
_Rng = np.random.Generator
_FIRST = [
    "anna",
    "bruno",
    "clara",
    "david",
    "elena",
    "felix",
    "greta",
    "hugo",
    "irene",
    "jonas",
    "katja",
    "lukas",
]
_LAST = [
    "adler",
    "bergmann",
    "caspari",
    "dietrich",
    "engelhart",
    "fontane",
    "grossmann",
    "hildebrand",
]
_TALK = [
    "today",
    "we",
    "meet",
    "in",
    "the",
    "town",
    "hall",
    "and",
    "everybody",
    "is",
    "welcome",
    "to",
    "come",
]


def write_generated(kind: str, folder: Path, n_records: int) -> None:
    """Write a stream of trades, posts, positions, flows, voters or words into a new folder.

    It lasts ten minutes of event time, from 2026-01-01 on. The hot keys change four times. "tables"
    are those of TPC-H, with so many line items: see `TpchStream`.
    """
    if kind == "tables":
        TpchStream(n_items=n_records, n_files=FILES_PER_BATCH).write(folder)
        return
    if kind == "words":
        DriftingWords(
            n_records=n_records, n_batches=_N_BATCHES, n_files=FILES_PER_BATCH, seconds=_SECONDS
        ).write(folder)
        return
    make = {
        "trades": _trades,
        "posts": _posts,
        "positions": _positions,
        "flows": _flows,
        "voters": _voters,
    }[kind]
    columns = {"ts": event_times(n_records, _SECONDS), **make(np.random.default_rng(0), n_records)}
    write_stream_files(pa.table(columns), folder, _N_BATCHES, FILES_PER_BATCH)


def fewest_records(kind: str) -> int:
    """Return how many records of a kind there must be at least, so that no file is empty."""
    return TpchStream.fewest(FILES_PER_BATCH) if kind == "tables" else N_FILES


def _trades(rng: _Rng, n: int) -> dict[str, Any]:
    symbols = _ranks(n, n_keys=200, z=1.2)
    cents = 1_000 + 37 * symbols + rng.integers(-50, 51, n)
    return {
        "symbol": _named("S", symbols),
        "price": cents / 100,
        "size": 100.0 * rng.integers(1, 20, n),
        "trader": _named("T", rng.integers(1, 40, n)),
        "side": pa.array(np.where(rng.random(n) < 0.5, "buy", "sell")),
    }


def _posts(rng: _Rng, n: int) -> dict[str, Any]:
    words = rng.choice(_TALK, (n, 3))
    tags = _ranks(2 * n, n_keys=5_000, z=1.1).reshape(n, 2)
    n_tags = rng.integers(0, 3, n)
    texts = [
        " ".join([*some, *(f"#Tag{tag}" for tag in mine[:count])])
        for some, mine, count in zip(words.tolist(), tags.tolist(), n_tags.tolist(), strict=True)
    ]
    return {"text": pa.array(texts, pa.string())}


def _positions(rng: _Rng, n: int) -> dict[str, Any]:
    cells = _ranks(n, n_keys=400, z=1.1)
    return {
        "cell": _named("C", cells),
        "vehicle": _named("V", rng.integers(1, 500, n)),
        "speed": rng.integers(0, 800, n) / 10,
    }


def _flows(rng: _Rng, n: int) -> dict[str, Any]:
    sources = _ranks(n, n_keys=20_000, z=1.3)
    return {
        "source": _addresses(10, sources),
        "destination": _addresses(192, 1 + rng.integers(0, 50, n) * (sources % 7 == 0)),
        "bytes": rng.integers(40, 1_500, n),
    }


def _voters(rng: _Rng, n: int) -> dict[str, Any]:
    """Names of which a third has a letter doubled, as a typing error would."""
    names = rng.choice(_FIRST, n).astype(object) + " " + rng.choice(_LAST, n).astype(object)
    places = rng.integers(0, 12, n).tolist()
    wrong = (rng.random(n) < 1 / 3).tolist()
    typed = [
        name[: at + 1] + name[at:] if is_wrong else name
        for name, at, is_wrong in zip(names.tolist(), places, wrong, strict=True)
    ]
    return {"postcode": _named("P", _ranks(n, n_keys=300, z=1.2)), "name": pa.array(typed)}


def _ranks(n: int, n_keys: int, z: float) -> Ints:
    period = -(-n // 5)
    stream = ShiftingZipf(z_min=z, z_max=z, n_keys=n_keys, n_records=n, period=period)
    return np.concatenate(list(stream.ranks(0)))


def _named(letter: str, numbers: Ints) -> pa.Array:
    return pa.array([f"{letter}{number}" for number in numbers.tolist()], pa.string())


def _addresses(first: int, numbers: Ints) -> pa.Array:
    texts = [f"{first}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers.tolist()]
    return pa.array(texts, pa.string())
