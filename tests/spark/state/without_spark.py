"""Test support: the tasks of `process` in this process, one after the other, without Spark."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.keys import hash_keys
from skewless.registry import strategy_of
from skewless.spark.columns import internal
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.initial_states import InitialTasks
from skewless.spark.state.planning.controller import Controller, Observed, observed
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.planning.worker_reports import read_reports
from skewless.spark.state.schemas import shape_of
from skewless.spark.state.tasks import StateTasks
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.bases import name_initial_run
from skewless.spark.state.versions.held_state import HeldState
from skewless.spark.state.versions.row_tables import states_by_key
from skewless.spark.state.versions.version_files import stack
from skewless.spark.state.worker_step import Work

SEED = 7


@dataclass(frozen=True)
class Offsets:
    """The offset log of a checkpoint, as far as a task sees it: the stamps of micro-batches."""

    seen: dict[int, int]

    def stamp(self, batch: int) -> int | None:
        return self.seen.get(batch)

    def searched(self) -> str:
        return "It was looked for nowhere"


def stamp_of(table: pa.Table) -> int:
    """Return a stamp that micro-batches with other records do not have."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return zlib.crc32(sink.getvalue())


@cache
def _beside(folder: Path) -> dict[int, int]:
    """Return the checkpoint beside a ledger, which a query finds when it starts again."""
    return {}


class Query:
    """A query that takes one table after the other, as Spark would hand them to its tasks.

    `checkpoint` is what tasks see of the checkpoint; by default all of it, after restarts too.
    """

    def __init__(
        self,
        folder: Path,
        processor: Any,
        schema: pa.Schema,
        *,
        key: Sequence[str] = ("k",),
        strategy: Any = "hash",
        workers: int | None = 2,
        most: int = 8,
        run: str = "run-0",
        time: str | None = None,
        delay: int | None = None,
        order: Sequence[str] = (),
        hashes: Any = None,
        kept: int = 100,
        cost: Any = "records",
        interval: int = 1,
        checkpoint: dict[int, int] | None = None,
        purge_every: int = 1,
        late: str | None = None,
        errors: str | None = None,
    ) -> None:
        ours = [("hash", pa.int64()), ("worker", pa.int32()), ("source", pa.int32())]
        place = {name: 3 + number for number, name in enumerate(schema.names)}
        sent = SentColumns(
            pa.schema([*ours, *schema]),
            tuple(schema.names),
            tuple(place[name] for name in key),
            tuple(key),
            tuple(place[name] for name in order),
            None if time is None else place[time],
        )
        shape = shape_of(processor)
        chosen = as_moving(strategy_of(strategy))
        controller = Controller(
            chosen,
            workers or 2,
            workers,
            most,
            interval,
            delay,
        )
        work = Work(shape, sent, cost, late_column=late, errors_column=errors)
        self.tasks = StateTasks(None, controller, work, kept, purge_every=purge_every)  # type: ignore[arg-type]
        self.ledger = Ledger(str(folder)).of_run(run)
        self.key, self.hashes = key, hashes
        self.checkpoint = _beside(folder) if checkpoint is None else checkpoint

    def plan(self, batch: int, table: pa.Table | None = None) -> Any:
        """Return the plan of a micro-batch of these records; the checkpoint has its stamp first."""
        if table is not None:
            self.checkpoint[batch] = stamp_of(table)
        return self.tasks.begin(self.ledger, batch, SEED, Offsets(self.checkpoint))

    def observed(self, plan: Any) -> Observed:
        """Return the loads that a plan was made from."""
        return observed(plan.placing, read_reports(self.ledger, plan.base))

    def begin_with(self, states: pa.Table, run: str = "initial") -> list[str]:
        """Write initial states, as `process` does; return the keys that are there twice.

        The columns are those of the key, then `seen` if there is one, then those of the state.
        """
        work, controller = self.tasks.work, self.tasks.controller
        plan = controller.first_plan(SEED, work.shape)
        tasks = InitialTasks(self.ledger, run, work, plan.n_workers)
        hashes = self.hashes_of(states)
        owners = plan.placing.owners(hashes)
        sent = {"hash": pa.array(hashes.view(np.int64)), "worker": pa.array(owners)}
        sent |= {f"key_{i}": states.column(name) for i, name in enumerate(self.key)}
        if "seen" in states.column_names:
            sent["seen"] = states.column("seen")
        fields = enumerate(work.layout.state.names)
        sent |= {f"field_{i}": states.column(name) for i, name in fields}
        table = pa.table({internal(name): column for name, column in sent.items()})
        told = [row for one in tasks.write(iter(table.to_batches())) for row in one.to_pylist()]
        twice = [row["twice"] for row in told if row["twice"] is not None]
        if not twice:
            tasks.finish({row["worker"] for row in told}, plan, SEED)
            name_initial_run(self.ledger, run)
        return twice

    def states(self) -> pa.Table:
        """Return the states of all keys after the last micro-batch: the key, then the state."""
        layout, base = self.tasks.work.layout, bases.newest(self.ledger)
        assert base is not None
        files = [stack(self.ledger, base.version(worker).file) for worker in range(base.workers)]
        rows = pa.concat_tables([HeldState(layout, some).rows_of() for some in files])
        heads, states, _ = states_by_key(layout, rows.combine_chunks())
        columns = [*layout.keys(heads), *states.flatten()]
        return pa.table(columns, [*self.key, *layout.state.names])

    def hashes_of(self, table: pa.Table) -> Any:
        """Return the hashes of the keys of records, or of states."""
        if self.hashes is not None:
            return self.hashes(table)
        seeds = pa.array(np.full(table.num_rows, hash_seed(SEED)), pa.int64())
        return hash_keys(*[table.column(name) for name in self.key], seeds)

    def sent(self, table: pa.Table, n_sources: int = 3) -> pa.Table:
        """Build the sent records of several source partitions, in order."""
        hashes = self.hashes_of(table)
        sources = np.sort(np.arange(table.num_rows) % n_sources).astype(np.int32)
        unread = pa.array(np.zeros(table.num_rows, np.int32))
        arrays = [pa.array(hashes.view(np.int64)), unread, pa.array(sources), *table.columns]
        return pa.table(arrays, schema=self.tasks.work.sent.schema)

    def step(self, batch: int, table: pa.Table, workers: Sequence[int] | None = None) -> pa.Table:
        """Return the results of one micro-batch; with `workers`, only those are evaluated."""
        plan = self.plan(batch, table)
        parts = self.parts(batch, plan, table)
        chosen = range(self.tasks.controller.most) if workers is None else workers
        return pa.concat_tables(
            self.tasks.step(self.ledger, plan, batch, worker, parts[worker]) for worker in chosen
        )

    def parts(self, batch: int, plan: Any, table: pa.Table) -> list[pa.Table]:
        """Return the records that each worker gets by the plan."""
        sent = self.sent(table)
        hashes = sent.column("hash").to_numpy().view(np.uint64)
        owners, sources = plan.placing.owners(hashes), sent.column("source").to_numpy()
        # Blocks of different sources arrive in any order.
        order = np.random.default_rng(batch).permutation(3)
        found = []
        for worker in range(self.tasks.controller.most):
            mine = [np.flatnonzero((owners == worker) & (sources == source)) for source in order]
            found.append(sent.take(pa.array(np.concatenate(mine))).combine_chunks())
        return found


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder by name."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
