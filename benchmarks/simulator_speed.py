"""How fast the simulator is: records per second of one core, by number of sources, with a clock."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from time import process_time

import typer
from rich.progress import track

from benchmarks.records import Report, Row, grouped, markdown, ratios, times
from benchmarks.streams import InMemory
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


def measure(
    *, stream: Zipf = STREAM, sources: Sequence[int] = SOURCES, repetitions: int = 3
) -> Iterator[Row]:
    """Yield one raw record per number of sources, kind of run and repetition.

    Seconds are those of the processor, so that other programs disturb little. The first run of each
    kind is not measured: it loads the kernels.
    """
    in_memory = InMemory.of(stream, _SEED)
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
                about = {"sources": n_sources, "kind": kind, "repetition": repetition}
                if repetition >= 0:
                    yield about | {"records": run.n_records, "seconds": seconds}


def table(records: Sequence[Row]) -> str:
    """Return a row per number of sources: millions of records per second, and the ratio to one."""
    runs = grouped(records, "sources", "kind")
    sources = sorted({n_sources for n_sources, _ in runs})
    rows = []
    for n_sources in sources:
        row: list[object] = [n_sources]
        for kind in KINDS:
            own, one = runs[n_sources, kind], runs[sources[0], kind]
            ratio = times(ratios(own, one, _speed, "repetition"))
            row.append(f"{statistics.median(map(_speed, own)):.1f} ({ratio})")
        rows.append(row)
    return markdown(("sources", *KINDS), rows)


def _speed(record: Row) -> float:
    """Return millions of records per second."""
    return float(record["records"] / record["seconds"] / 1e6)


REPORT = Report("simulator_speed.jsonl", {("docs/simulator.md", "simulator speed"): table})


def main() -> None:
    """Measure the simulator in records per second; write the raw records and the table."""
    n_cells = len(SOURCES) * len(KINDS) * 3
    REPORT.write(track(measure(), "simulating", total=n_cells))


if __name__ == "__main__":
    typer.run(main)
