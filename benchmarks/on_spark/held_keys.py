"""Measure a micro-batch of keyed state by the number of keys that are held; write raw records.

Needs no Spark: the seconds are those of Python, of all workers together. A micro-batch touches the
same number of keys, however many there are.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.progress import track

from benchmarks.tables import HELD_KEYS, write_held_keys
from skewless.experiments.tables import Row, write_records
from skewless.keys import hash_keys
from skewless.spark.ledger import Ledger
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.planning.controller import Controller
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.processor import Processor, Update
from skewless.spark.state.schemas import schema_text, shape_of
from skewless.spark.state.tasks import StateTasks, hash_seed
from skewless.spark.state.versions import version_files
from skewless.spark.state.work import Work
from skewless.strategies import Hash

N_WORKERS, N_TOUCHED, N_BATCHES = 8, 10_000, 10
HELD = (100_000, 1_000_000)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Times that everything is measured.")] = 3,
) -> None:
    records: list[Row] = []
    for number in track(range(1, rounds + 1), "rounds"):
        for cold in (False, True):
            for n_held in HELD:
                with tempfile.TemporaryDirectory() as folder:
                    seconds = state_seconds(n_held, Path(folder), cold=cold)
                records.append(
                    {
                        "held": n_held,
                        "touched": N_TOUCHED,
                        "workers": N_WORKERS,
                        "cold": cold,
                        "round": number,
                        "seconds": seconds,
                    }
                )
    write_records(HELD_KEYS, records)
    print(f"raw records: {HELD_KEYS}")
    write_held_keys()


class Totals(Processor):
    state_schema = "n bigint, total double"
    result_schema = "k string, n bigint"

    def update(self, keyed: Any) -> Update:
        n = pc.add(keyed.states.field("n").fill_null(0), pa.array(np.diff(keyed.starts)))
        sums = np.add.reduceat(keyed.records["v"].to_numpy(), keyed.starts[:-1])
        total = pc.add(keyed.states.field("total").fill_null(0.0), pa.array(sums))
        results = pa.table([keyed.keys["k"], n], ["k", "n"])
        return Update(results, pa.StructArray.from_arrays([n, total], ["n", "total"]))


def state_seconds(n_held: int, folder: Path, *, cold: bool) -> float:
    """Return the median CPU seconds of all workers in a micro-batch.

    The first micro-batch has all keys and does not count.
    """
    records = [("k", pa.string()), ("v", pa.float64())]
    ours = [("hash", pa.int64()), ("worker", pa.int32()), ("source", pa.int32())]
    sent = SentColumns(pa.schema([*ours, *records]), ("k", "v"), (3,), ("k",))
    shape = shape_of(Totals())
    schema = schema_text(shape.state)
    controller = Controller(as_moving(Hash()), N_WORKERS, N_WORKERS, N_WORKERS, schema=schema)
    tasks = StateTasks(None, controller, Work(shape, sent), 100)  # type: ignore[arg-type]
    ledger = Ledger(str(folder)).of_run("run")
    rng = np.random.default_rng(0)
    times = []
    for batch in range(N_BATCHES + 1):
        chosen = np.arange(n_held) if not batch else rng.choice(n_held, N_TOUCHED, replace=False)
        keys = pa.array([f"key-{key}" for key in chosen.tolist()])
        hashes = hash_keys(keys, np.full(chosen.size, hash_seed(0)))
        nothing = pa.array(np.zeros(chosen.size, np.int32))
        values = pa.array(rng.random(chosen.size))
        whole = [pa.array(hashes.view(np.int64)), nothing, nothing, keys, values]
        plan = controller.plan(ledger, batch, 0, shape)
        owners = plan.placing.owners(hashes)
        table = pa.table(whole, schema=sent.schema)
        parts = [table.filter(pa.array(owners == w)).combine_chunks() for w in range(N_WORKERS)]
        if cold:
            version_files._mapped.cache_clear()
        begin = time.process_time()
        for worker, part in enumerate(parts):
            tasks.step(ledger, plan, batch, worker, part)
        times.append(time.process_time() - begin)
    return float(np.median(times[1:]))


if __name__ == "__main__":
    typer.run(main)
