"""Measure how plans, reports, ledger reads and state grow; write raw records and the table.

A micro-batch of keyed state touches the same number of keys, however many are held.
Needs no Spark session: seconds are CPU seconds of Python, the least of some rounds.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from benchmarks.on_spark.micro_batches import Totals
from benchmarks.records import Report, Row, grouped, markdown
from benchmarks.streams import zipf_keys
from skewless import strategy as contract
from skewless.cli.option import option
from skewless.keys import hash_keys
from skewless.planning.packing import KeyCounts, buckets_of, first_homes, listed_per_bucket, pack
from skewless.plumbing.text_tables import bytes_text, seconds_text
from skewless.registry import make
from skewless.spark.ledger import Ledger
from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.names import SOURCES, plan_name, report_name
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.planning.controller import Controller
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.schemas import shape_of
from skewless.spark.state.tasks import StateTasks
from skewless.spark.state.versions import version_files
from skewless.spark.state.worker_step import Work
from skewless.state import state_bytes
from skewless.strategies import Hash, Mixed
from skewless.workloads.zipf import zipf_probabilities

N_WORKERS, N_SOURCES, N_KEYS, N_OBSERVED = 64, 4, 1_000_000, 1 << 14
#: Of keyed state: its workers, the keys of a micro-batch, and the micro-batches.
N_STATE_WORKERS, N_TOUCHED, N_BATCHES = 8, 10_000, 3
#: The seconds and bytes of each thing that grows.
Found = dict[str, tuple[float, int]]


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a job, and its result."""
    begin, result = time.process_time(), job()
    return time.process_time() - begin, result


def key_plan(n_workers: int = N_WORKERS, n_keys: int = N_KEYS) -> Found:
    """Pack counted keys, as the driver does for `plan_keys`."""
    hashes = np.random.default_rng(0).integers(0, 2**64, n_keys, np.uint64)
    loads, n_buckets = 1e9 * zipf_probabilities(1.1, n_keys), first_homes(n_workers).size
    buckets = buckets_of(hashes, n_buckets)
    listed = slice(n_buckets * listed_per_bucket(n_buckets))  # the heaviest come first
    sums = np.bincount(buckets, loads, n_buckets).astype(np.float64)
    counts = KeyCounts(hashes[listed], loads[listed], sums, n_keys)
    took, packed = timed(lambda: pack(counts, n_workers))
    size = packed.homes.nbytes + sum(16 + 12 * len(pieces) for _, pieces in packed.placed)
    return {"plan of a batch (`plan_keys`), on the driver": (took, size)}


def source_plan(n_workers: int = N_WORKERS, n_sources: int = N_SOURCES) -> Found:
    """Let sources report what they learned, and make the next plan from that."""
    maker = PlanMaker(make("cascade-ahead"), n_workers)
    keys, out = zipf_keys(1.1, 100_000, 20_000), np.empty(20_000, np.int32)
    state, about = maker.start(0), {"records": out.size, "seconds": 1.0}
    maker.strategy.route(keys, state, out)
    loads = np.bincount(out, minlength=n_workers)
    reporting, report = timed(lambda: maker.report(state, loads, None, about))
    size = len(to_bytes(report))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(folder).of_run("run")
        ledger.publish(plan_name(0), maker.next_plan(ledger, 0))
        for source in range(n_sources):
            ledger.write(report_name(SOURCES, 0, "run", source), report)
        reading, n_read = timed(lambda: sum(1 for _ in ledger.reports(SOURCES, 0)))
        planning, plan = timed(lambda: maker.next_plan(ledger, 1))
    return {
        "report of a source (`cascade-ahead`)": (reporting, size),
        "ledger: the reports of all sources, read": (reading, n_read * size),
        "plan of sources (`cascade-ahead`), with that": (planning, len(to_bytes(plan))),
    }


def plans(n_workers: int) -> Found:
    """Make all plans; that of keyed state knows as many loads as it keeps."""
    keys = np.random.default_rng(0).integers(0, 2**64, N_OBSERVED, np.uint64)
    loads, strategy = 1e6 * zipf_probabilities(0.85, N_OBSERVED), Mixed()
    state, report = strategy.start(n_workers, 0), contract.Report(keys, loads, loads)
    took, (state, _) = timed(lambda: strategy.rebalance(report, state))
    moved = {"plan of keyed state (`mixed`)": (took, state_bytes(state))}
    return key_plan(n_workers) | source_plan(n_workers) | moved


class Stamps:
    """The stamps of the micro-batches: their numbers."""

    def searched(self) -> str:
        return "there is no checkpoint"

    def stamp(self, batch: int) -> int:
        return batch


def state_seconds(n_held: int, folder: Path, *, cold: bool) -> float:
    """Return the median CPU seconds of all workers in a micro-batch.

    The first micro-batch has all keys and does not count.
    """
    records = [("k", pa.string()), ("v", pa.float64())]
    ours = [("hash", pa.int64()), ("worker", pa.int32()), ("source", pa.int32())]
    sent = SentColumns(pa.schema([*ours, *records]), ("k", "v"), (3,), ("k",))
    shape = shape_of(Totals())
    controller = Controller(as_moving(Hash()), N_STATE_WORKERS, N_STATE_WORKERS, N_STATE_WORKERS)
    tasks = StateTasks(None, controller, Work(shape, sent), 100)  # type: ignore[arg-type]
    ledger = Ledger(str(folder)).of_run("run")
    rng = np.random.default_rng(0)
    taken = []
    for batch in range(N_BATCHES + 1):
        chosen = np.arange(n_held) if not batch else rng.choice(n_held, N_TOUCHED, replace=False)
        keys = pa.array([f"key-{key}" for key in chosen.tolist()])
        hashes = hash_keys(keys, np.full(chosen.size, hash_seed(0)))
        nothing = pa.array(np.zeros(chosen.size, np.int32))
        values = pa.array(rng.random(chosen.size))
        whole = [pa.array(hashes.view(np.int64)), nothing, nothing, keys, values]
        plan = controller.plan(ledger, batch, 0, shape, Stamps())  # type: ignore[arg-type]
        owners = plan.placing.owners(hashes)
        table = pa.table(whole, schema=sent.schema)
        parts = [
            table.filter(pa.array(owners == w)).combine_chunks() for w in range(N_STATE_WORKERS)
        ]
        if cold:
            version_files._mapped.clear()
        begin = time.process_time()
        for worker, part in enumerate(parts):
            tasks.step(ledger, plan, batch, worker, part)
        taken.append(time.process_time() - begin)
    return float(np.median(taken[1:]))


def state(n_held: int) -> Found:
    """Touch some keys of keyed state, with files kept open and with files read anew."""
    found = {}
    for cold, files in ((False, "kept open"), (True, "read anew")):
        with tempfile.TemporaryDirectory() as folder:
            took = state_seconds(n_held, Path(folder), cold=cold)
            size = sum(file.stat().st_size for file in Path(folder).glob("state/00000000/*/*"))
        found[f"keyed state, a micro-batch of {N_TOUCHED:,} keys, files {files}"] = took, size
    return found


#: What is measured against what: its sizes, the largest one of interest, and a function of it.
GROWING: tuple[tuple[str, Sequence[int], int, Callable[[int], Found]], ...] = (
    ("workers", (16, 128, 1_024, 10_000), 10_000, plans),
    ("sources", (1, 10, 100, 1_000, 10_000), 10_000, lambda n: source_plan(N_WORKERS, n)),
    ("keys", (100_000, 1_000_000, 10_000_000), 10**9, lambda n: key_plan(N_WORKERS, n)),
    ("keys", (100_000, 300_000, 1_000_000), 10**9, state),
)


def measure(n_rounds: int) -> Iterator[Row]:
    """Yield a raw record for each thing and size; the first size runs once more, to compile."""
    for against, sizes, end, function in GROWING:
        function(sizes[0])
        for size in sizes:
            rounds = [function(size) for _ in range(n_rounds)]
            for part in rounds[0]:
                row = {"part": part, "against": against, "size": size, "end": end}
                least = min(found[part] for found in rounds)
                yield row | dict(zip(("seconds", "bytes"), least, strict=True))


def table(records: Sequence[Row]) -> str:
    """Return a row per thing; what is extrapolated lies on the line through the two largest."""
    rows = []
    for (part, against), mine in grouped(records, "part", "against").items():
        first, second, last = mine[0], mine[-2], mine[-1]
        cells = [part, against, f"{first['size']:,} – {last['size']:,}"]
        for name, shown in (("seconds", seconds_text), ("bytes", bytes_text)):
            more, times = last[name] - second[name], last["size"] / second["size"]
            end = last[name] + max(more, 0.0) * (last["end"] / second["size"] - times) / (times - 1)
            cells += [shown(one[name]) for one in (first, last)]
            cells += [f"{math.log(last[name] / second[name], times):.2f}"]
            cells += [shown(end) if last["end"] > last["size"] else "–"]
        rows.append(cells)
    heads = "part | grows with | measured | time: first | last | exponent | extrapolated"
    return markdown(f"{heads} | size: first | last | exponent | extrapolated", rows, 3)


REPORT = Report("growth.jsonl", {("docs/background/scale.md", "growth"): table})


def main(rounds: int = option(3, "How often each size is measured.", min=1)) -> None:
    """Measure everything that grows."""
    REPORT.write(measure(rounds))


if __name__ == "__main__":
    typer.run(main)
