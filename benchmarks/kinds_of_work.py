"""The work of a task: it waits, computes, keeps a state for each key, or makes partial results."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations import VectorAggregator

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
#: What a task does with the keys of a batch, of which so many are new to it.
Spend = Callable[[list[str], int], None]

COUNTS = "records bigint, keys bigint"
SKETCHES = "key string, records bigint, sketch binary"
_SKETCH = 32_768  # bytes of a partial result
_BLOCK = b"x" * 1024
#: The next state of the machine.
_NEXT = tuple((5 * state + 3) % 64 for state in range(64))


def counting(start: Callable[[], Spend]) -> Work:
    """Return work that counts records and keys, and spends time as each task begins to."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: set[str] = set()
        n_records = 0
        spend = start()
        for batch in batches:
            before, keys = len(known), batch.column(0).to_pylist()
            known.update(keys)
            n_records += len(keys)
            spend(keys, len(known) - before)
        yield pa.RecordBatch.from_pydict({"records": [n_records], "keys": [len(known)]})

    return work


def waiting(per_record: float, per_pair: float) -> Work:
    """Return work that waits, for each record and for each key that is new to the task."""

    def spend(keys: list[str], n_new: int) -> None:
        time.sleep(len(keys) * per_record + n_new * per_pair)

    return counting(lambda: spend)


def computing(per_record: float, per_pair: float = 0.0) -> Work:
    """Return work that computes as long, by as many checksums as that takes on this machine."""
    of_record, of_pair = rounds_for(per_record), rounds_for(per_pair)

    def spend(keys: list[str], n_new: int) -> None:
        for _ in keys:
            compute(of_record)
        compute(n_new * of_pair)

    return counting(lambda: spend)


def compute(rounds: int) -> None:
    """Make this many checksums of a kilobyte, each from the one before."""
    checksum = 0
    for _ in range(rounds):
        checksum = zlib.crc32(_BLOCK, checksum)


def stepping(**costs: float) -> Work:
    """Return work that keeps the state of a small machine for each key: it costs what it does."""

    def start() -> Spend:
        states: dict[str, int] = {}

        def spend(keys: list[str], n_new: int) -> None:
            for key in keys:
                state = states.get(key, 0)
                for symbol in key.encode() * 8:
                    state = _NEXT[(state ^ symbol) & 63]
                states[key] = state

        return spend

    return counting(start)


def sketching(**costs: float) -> Work:
    """Return work that makes a partial result for each key of the task."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: dict[str, int] = {}
        for batch in batches:
            for count in batch.column(0).value_counts().to_pylist():
                counts[count["values"]] = counts.get(count["values"], 0) + count["counts"]
        keys = list(counts)
        for begin in range(0, len(keys), 1000):
            some = keys[begin : begin + 1000]
            sketches = [key.encode()[:_SKETCH].ljust(_SKETCH, b"0") for key in some]
            columns = [pa.array(some), pa.array([counts[key] for key in some]), pa.array(sketches)]
            yield pa.RecordBatch.from_arrays(columns, ["key", "records", "sketch"])

    return work


def rounds_for(seconds: float) -> int:
    """Count the checksums of a kilobyte that take so long on this machine."""
    n = 20_000
    begin = time.process_time()
    compute(n)
    return round(seconds * n / (time.process_time() - begin))


#: The kinds of work by name; what they cost is given to each.
KINDS: dict[str, Callable[..., Work]] = {
    "sleeps": waiting,
    "computes": computing,
    "steps": stepping,
    "sketches": sketching,
}


class OwnTotals(VectorAggregator):
    """Counts and adds. It is here, not where it is used: tasks import its module."""

    inputs = ("v",)
    state = "n bigint, total double"
    result = "struct<n: bigint, total: double>"

    def update(self, records: Any, keys: Any, n_keys: int) -> Any:
        sums = np.bincount(keys, records["v"].to_numpy(), n_keys)
        return {"n": np.bincount(keys, minlength=n_keys), "total": sums}

    def merge(self, states: Any, keys: Any, n_keys: int) -> Any:
        n, total = (np.bincount(keys, states[name].to_numpy(), n_keys) for name in ("n", "total"))
        return {"n": n.astype(np.int64), "total": total}

    def finish(self, states: Any) -> Any:
        return pa.StructArray.from_arrays([states["n"], states["total"]], ["n", "total"])
