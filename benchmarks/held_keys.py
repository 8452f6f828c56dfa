"""Measure a micro-batch of keyed state by the number of keys that are held; write raw records.

Needs no Spark: the seconds are those of Python, of all workers together. A micro-batch touches the
same number of keys, however many there are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import typer
from rich.progress import track

from benchmarks.on_spark.stateful_operators import Totals
from benchmarks.records import (
    BENCHMARKS,
    Report,
    Row,
    grouped,
    markdown,
    range_of,
    ratios,
    seconds,
    times,
)
from skewless.cli.option import option
from skewless.keys import hash_keys
from skewless.spark.ledger import Ledger
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.planning.controller import Controller
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.schemas import shape_of
from skewless.spark.state.tasks import StateTasks
from skewless.spark.state.versions import version_files
from skewless.spark.state.worker_step import Work
from skewless.strategies import Hash

N_WORKERS, N_TOUCHED, N_BATCHES = 8, 10_000, 10
HELD = (100_000, 1_000_000)


def measure(n_rounds: int) -> Iterator[Row]:
    about = {"touched": N_TOUCHED, "workers": N_WORKERS}
    for number in track(range(1, n_rounds + 1), "rounds"):
        for cold in (False, True):
            for n_held in HELD:
                with tempfile.TemporaryDirectory() as folder:
                    took = state_seconds(n_held, Path(folder), cold=cold)
                yield {"held": n_held, **about, "cold": cold, "round": number, "seconds": took}


class Stamps:
    """The stamps of the micro-batches: their numbers."""

    def searched(self) -> str:
        return "there is no checkpoint"

    def stamp(self, batch: int) -> int:
        return batch


def state_seconds(n_held: int, folder: Path, *, cold: bool, n_batches: int = N_BATCHES) -> float:
    """Return the median CPU seconds of all workers in a micro-batch.

    The first micro-batch has all keys and does not count.
    """
    records = [("k", pa.string()), ("v", pa.float64())]
    ours = [("hash", pa.int64()), ("worker", pa.int32()), ("source", pa.int32())]
    sent = SentColumns(pa.schema([*ours, *records]), ("k", "v"), (3,), ("k",))
    shape = shape_of(Totals())
    controller = Controller(as_moving(Hash()), N_WORKERS, N_WORKERS, N_WORKERS)
    tasks = StateTasks(None, controller, Work(shape, sent), 100)  # type: ignore[arg-type]
    ledger = Ledger(str(folder)).of_run("run")
    rng = np.random.default_rng(0)
    taken = []
    for batch in range(n_batches + 1):
        chosen = np.arange(n_held) if not batch else rng.choice(n_held, N_TOUCHED, replace=False)
        keys = pa.array([f"key-{key}" for key in chosen.tolist()])
        hashes = hash_keys(keys, np.full(chosen.size, hash_seed(0)))
        nothing = pa.array(np.zeros(chosen.size, np.int32))
        values = pa.array(rng.random(chosen.size))
        whole = [pa.array(hashes.view(np.int64)), nothing, nothing, keys, values]
        plan = controller.plan(ledger, batch, 0, shape, Stamps())  # type: ignore[arg-type]
        owners = plan.placing.owners(hashes)
        table = pa.table(whole, schema=sent.schema)
        parts = [table.filter(pa.array(owners == w)).combine_chunks() for w in range(N_WORKERS)]
        if cold:
            version_files._mapped.cache_clear()
        begin = time.process_time()
        for worker, part in enumerate(parts):
            tasks.step(ledger, plan, batch, worker, part)
        taken.append(time.process_time() - begin)
    return float(np.median(taken[1:]))


def table(records: Sequence[Row]) -> str:
    """Return one line per number of keys; ratios are within one round."""
    rows = []
    by_kind = grouped(records, "cold", "held")
    for (cold, n_held), mine in sorted(by_kind.items()):
        found = ratios(mine, by_kind[cold, min(held for _, held in by_kind)], within="round")
        rows.append(
            [
                "read anew in each micro-batch" if cold else "kept open",
                *(f"{n_held:,}", f"{mine[0]['touched']:,}"),
                f"{median(map(seconds, mine)):.3f}",
                *(times(found), range_of(found), len(mine)),
            ]
        )
    ratio = "CPU seconds per micro-batch | to the fewest keys held | lowest to highest"
    return markdown(f"files of the state | keys held | keys touched | {ratio} | rounds", rows)


REPORT = Report("held_keys.jsonl", {(BENCHMARKS, "held keys"): table})


def main(
    rounds: int = option(3, "Times that everything is measured.", min=1),
) -> None:
    """Measure a micro-batch of keyed state by the number of keys that are held."""
    REPORT.write(measure(rounds))


if __name__ == "__main__":
    typer.run(main)
