"""How fast the simulator is: records per second of one core, by number of sources, with a clock."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from time import process_time
from typing import ClassVar

import numpy as np

from skewless.arrays import Keys
from skewless.experiments.tables import Row, markdown
from skewless.simulator import Timing, simulate
from skewless.strategies import Hash
from skewless.workloads import Workload, Zipf

SOURCES = (1, 8, 32)
N_WORKERS = 32
STREAM = Zipf(z=1.2, n_keys=100_000, n_records=1_000_000)
TIMING = Timing(service=1e-5, queue=100)
#: What a run includes besides routing and counting.
KINDS = ("counting", "and generating the keys", "and a clock")
_SEED = 1


class InMemory:
    """Keys that are there already."""

    name: ClassVar[str] = "in memory"

    def __init__(self, keys: Keys) -> None:
        """Hand out these keys."""
        self._keys = keys
        self.n_records = keys.size

    def chunks(self, seed: int, chunk_size: int = 1 << 18) -> Iterator[Keys]:
        """Yield the keys in chunks."""
        for begin in range(0, self._keys.size, chunk_size):
            yield self._keys[begin : begin + chunk_size]


def measure(
    *,
    stream: Zipf = STREAM,
    sources: Sequence[int] = SOURCES,
    repetitions: int = 5,
) -> Iterator[Row]:
    """Yield one raw record per number of sources, kind of run and repetition.

    Seconds are those of the processor, so that other programs disturb little. The first run of each
    kind is not measured: it loads the kernels.
    """
    in_memory = InMemory(np.concatenate(list(stream.chunks(_SEED))))
    warm_up = InMemory(next(in_memory.chunks(_SEED, 20_000)))
    for repetition in range(-1, repetitions):
        for n_sources in sources:
            for kind in KINDS:
                workload: Workload = stream if kind == KINDS[1] else in_memory
                begin = process_time()
                run = simulate(
                    Hash(),
                    warm_up if repetition < 0 else workload,
                    n_workers=N_WORKERS,
                    n_sources=n_sources,
                    seed=_SEED,
                    timing=TIMING if kind == KINDS[2] else None,
                )
                seconds = process_time() - begin
                if repetition >= 0:
                    yield {
                        "sources": n_sources,
                        "kind": kind,
                        "repetition": repetition,
                        "records": run.n_records,
                        "seconds": seconds,
                    }


def table(records: Sequence[Row]) -> str:
    """Return a row per number of sources: millions of records per second, and the ratio to one."""
    speeds: dict[tuple[int, str], list[float]] = {}
    for r in records:
        speed = r["records"] / r["seconds"] / 1e6
        speeds.setdefault((r["sources"], r["kind"]), []).append(speed)
    first = min(sources for sources, _ in speeds)
    rows = []
    for n_sources in sorted({sources for sources, _ in speeds}):
        row: list[object] = [f"{n_sources}"]
        for kind in KINDS:
            own, one = speeds[n_sources, kind], speeds[first, kind]
            ratio = statistics.median(a / b for a, b in zip(own, one, strict=True))
            row.append(f"{statistics.median(own):.1f} ({ratio:.2f})")
        rows.append(row)
    return markdown(("sources", *KINDS), rows)
