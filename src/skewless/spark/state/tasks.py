"""The tasks of `process`: one publishes the plan for the JVM, and one per worker works.

Keys that move in are read from the files of the worker that had them, in the version that the plan
names. Those files never change, so no task waits for another. The worker that loses a key reads the
same version, and its next version records that the key is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from skewless.aggregations.columns import bitmap_of
from skewless.arrays import Ints, Keys
from skewless.spark.key_texts import key_text
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerMismatch
from skewless.spark.ledger.names import VersionName, run_name
from skewless.spark.routing.query_ledger import QueryLedger, Task, this_task
from skewless.spark.routing.requests import purge_requests
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.grouping import received
from skewless.spark.state.outcomes import Worked
from skewless.spark.state.planning.controller import Controller
from skewless.spark.state.planning.spread_keys import all_parts
from skewless.spark.state.planning.state_plan import StatePlan
from skewless.spark.state.planning.worker_reports import report_entry
from skewless.spark.state.versions import state_tables, version_files
from skewless.spark.state.versions.bases import Base, purge, require_newest_run
from skewless.spark.state.versions.held_state import HeldState, weight
from skewless.spark.state.versions.offset_log import OffsetLog, SeenOffsets, places_of
from skewless.spark.state.versions.state_tables import StateLayout, forgotten, hashes_of
from skewless.spark.state.versions.version_files import NOT_A_PARTITION, stack
from skewless.spark.state.worker_step import Work


@dataclass(frozen=True)
class StateTasks:
    """What the tasks of a streaming query of `process` do."""

    query: QueryLedger
    controller: Controller
    work: Work
    kept: int  # versions that are kept
    checkpoints: tuple[str, ...] = ()  # folders of the settings, where the checkpoint may be
    purge_every: int = 8  # micro-batches

    def publish(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the one row by which the JVM routes in this micro-batch.

        The input is one row with the time of the micro-batch.
        """
        (now,) = [us for one in batches for us in one.column(0).cast(pa.int64()).to_pylist()]
        task = this_task()
        batch = _batch(task)
        ledger, seed = self._ledger(task)
        require_alone(ledger, task.run)
        self.query.require_order(task)
        places = places_of(ledger.folder, self.checkpoints, per_query=self.query.per_query)
        offsets = SeenOffsets(str(task.query), batch, now // 1000, places)
        plan = self.begin(ledger, batch, seed, offsets)
        signed = plan.spread.hashes.view(np.int64).tolist()
        spread = list(zip(signed, plan.spread.parts.tolist(), strict=True))
        yield plan.placing.row(hash_seed(seed), spread)

    def begin(self, ledger: Ledger, batch: int, seed: int, offsets: OffsetLog) -> StatePlan:
        """Publish the plan of a micro-batch, and now and then delete what is no longer needed."""
        plan = self.controller.plan(ledger, batch, seed, self.work.shape, offsets)
        if batch % self.purge_every == 0:
            require_newest_run(ledger)  # a late task must not purge what the newer run needs
            purge(ledger, batch, self.kept)
            purge_requests(ledger)
        return plan

    def process(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of one worker, after its next version is written."""
        task = this_task()
        batch = _batch(task)
        ledger, seed = self._ledger(task)
        plan = self.controller.published(ledger, batch, seed)
        records = received(batches, self.work.sent)
        results = self.step(ledger, plan, batch, task.partition, records, task.attempt)
        yield from self.work.rows(results, batch)

    def step(
        self,
        ledger: Ledger,
        plan: StatePlan,
        batch: int,
        worker: int,
        records: pa.Table,
        attempt: int | None = None,
    ) -> pa.Table:
        """Return the results of one worker in one batch; its version is written before."""
        if worker >= self.controller.most:
            # In a union after another side, all partitions have larger numbers. The last one then
            # has a number that no worker can have, with or without records.
            raise RuntimeError(NOT_A_PARTITION)
        _require_own(records, plan, worker)
        if worker >= plan.n_workers:
            return self.work.result_schema.empty_table()
        held, layout = beginning(ledger, self.work, plan, worker), self.work.layout
        times = plan.watermark_before, plan.watermark
        worked = self.work.do(records, held, *times, batch=batch)
        size = {"held": held.n_held + worked.n_held, "bytes": held.n_bytes + worked.n_bytes}
        changed = layout.newest([held.on_top, worked.changed])
        version = version_files.merged(layout, changed, held, plan.watermark, size)
        name = VersionName(batch, run_name(ledger.run), worker, plan.n_workers)
        report = self._report(plan, worked, size | {"moved": held.n_moved})
        version_files.write(ledger, name, version, report, attempt)
        return worked.results

    def _ledger(self, task: Task) -> tuple[Ledger, int]:
        ledger = self.query.ledger_of(task)
        if ledger is None:
            raise RuntimeError("process needs a ledger, and this task has none")
        return ledger, self.query.seed_of(task, ledger)

    def _report(self, plan: StatePlan, worked: Worked, size: dict[str, int]) -> Entry:
        about = {
            "records": int(worked.counts.sum()),
            "seconds": worked.seconds,
            "latest": worked.latest,
            "latest_second": worked.latest_second,
            "late": worked.n_late,
            "plan": plan.checksum,
            **size,
        }
        keys, spreads = worked.keys, self.controller.spread is not None
        return report_entry(
            worked.hashes,
            worked.counts,
            worked.costs,
            worked.sizes,
            lambda row: _text_of_key([key[row] for key in keys], has_part=spreads),
            about,
            _sides(keys, worked) if spreads else None,
            np.union1d(plan.spread.part_hashes(), plan.placing.entries()[0]),
        )


def require_alone(ledger: Ledger, group: str | None) -> None:
    """Raise LedgerMismatch if another `process` of the same query uses the ledger.

    Both run in the same job group, but each drew its own random text when it was built.
    """
    own, end = run_name(ledger.run), f"-{group}"
    if group and any(name.endswith(end) and name != own for name in ledger.runs()):
        raise LedgerMismatch(
            f"two calls of process in one query share the ledger in {ledger.place} and "
            "would mix up their states: give each another ledger="
        )


def _batch(task: Task) -> int:
    context = TaskContext.get()
    continuous = context and context.getLocalProperty("__is_continuous_processing")
    if task.batch is None or continuous == "true":
        raise RuntimeError(
            "process needs micro-batches, and this task is in none. Continuous processing and "
            "real-time mode have none: use another trigger. On Spark Connect, foreachBatch works "
            "outside of them: write to a sink instead. A thread that foreachBatch starts is in "
            "none: evaluate the DataFrame in the thread of foreachBatch"
        )
    return task.batch


def _require_own(records: pa.Table, plan: StatePlan, worker: int) -> None:
    """Raise RuntimeError unless all records are those of this worker by the plan."""
    hashed = state_tables.column_of(records, records.column_names[0])
    hashes: Keys = hashed.to_numpy().view(np.uint64)
    # Looking up every record takes less time than finding the distinct keys.
    foreign = plan.placing.owners(hashes) != worker
    if foreign.any():
        n_foreign = np.unique(hashes[foreign]).size
        raise RuntimeError(
            f"worker {worker} got records of {n_foreign} keys that the plan of this micro-batch "
            f"gives to others: {NOT_A_PARTITION}. If the strategy is your own, its "
            "ring and its table must say what route does"
        )


def _sides(keys: list[Any], worked: Worked) -> tuple[Ints, Ints, Ints]:
    """Return the records of each stream, and the work; 0 for a key with a null: it has no match."""
    meets = np.ones(worked.counts.size, np.bool_)
    for key in keys:
        meets &= bitmap_of(key)
    assert worked.n_second is not None  # a join stores its rows one by one
    first = (worked.counts - worked.n_second) * meets
    return first, worked.n_second * meets, worked.work * meets


def _text_of_key(values: list[Any], *, has_part: bool) -> str:
    """Return a key as text, by the user's columns, followed by the part of a spread key."""
    if not has_part:
        return key_text(values)
    text, part = key_text(values[:-1]), values[-1].as_py()
    return f"{text} (part {part})" if part else text


def beginning(ledger: Ledger, work: Work, plan: StatePlan, worker: int) -> HeldState:
    """Read the state that `worker` holds at the beginning of the plan's batch."""
    base, layout = plan.base, work.layout
    if base is None:
        return HeldState(layout)
    if plan.moving.whole:
        return _gathered(ledger, work, plan, base, worker)
    own, moving = _held_by(ledger, layout, base, worker), plan.moving
    leaving = own.with_hashes(moving.hashes[moving.origins == worker])
    arriving = []
    for origin in np.unique(moving.origins[moving.targets == worker]).tolist():
        wanted = moving.hashes[(moving.targets == worker) & (moving.origins == origin)]
        arriving.append(_held_by(ledger, layout, base, origin).with_hashes(wanted))
    arriving += _copied(ledger, work, plan, base, worker)
    arrived = layout.newest(arriving)
    n_moved = _n_keys(arrived)
    moved = [forgotten(layout, leaving), arrived]
    # All are written again, with new fields and new ends.
    if plan.about.get("renewed") is True:
        top = layout.newest(moved)
        return _on_top(work, replace(own, arrived=top).rows_of(), n_moved)
    about = own.files[-1].about
    n_bytes = weight(layout, arrived).sum() - weight(layout, leaving).sum()
    return replace(
        own,
        arrived=layout.newest(moved),
        n_held=about["held"] - leaving.num_rows + arrived.num_rows,
        n_bytes=about["bytes"] + int(n_bytes),
        n_moved=n_moved,
    )


def _copied(ledger: Ledger, work: Work, plan: StatePlan, base: Base, worker: int) -> list[pa.Table]:
    """Return the first rows of this worker's parts of keys that are newly spread."""
    spread, moving, found = plan.spread, plan.moving, []
    for hashed, parts, before in zip(
        spread.hashes, spread.parts.tolist(), spread.before.tolist(), strict=True
    ):
        hashes = all_parts(hashed, abs(parts))[before:]
        mine = np.flatnonzero(plan.placing.owners(hashes) == worker)
        if mine.size:
            whole = np.array([hashed], np.uint64)
            # The worker that has the key in the version that is read.
            origins = moving.origins[moving.hashes == hashed], plan.placing.owners(whole)
            held = _held_by(ledger, work.layout, base, int(np.concatenate(origins)[0]))
            rows = held.with_hashes(whole)
            found += [work.copies(rows, before + number, parts > 0) for number in mine.tolist()]
    return found


def _gathered(ledger: Ledger, work: Work, plan: StatePlan, base: Base, worker: int) -> HeldState:
    """Return the keys of one worker from the files of all workers, after the ring changed."""
    parts, n_moved = [], 0
    for origin in range(base.workers):
        held = _held_by(ledger, work.layout, base, origin)
        rows = held.rows_of(lambda some: plan.placing.owners(hashes_of(some)) == worker)
        n_moved += _n_keys(rows) if origin != worker else 0
        parts.append(rows)
    return _on_top(work, work.layout.newest(parts), n_moved)


def _on_top(work: Work, rows: pa.Table, n_moved: int) -> HeldState:
    """Return a state of only these rows, which are all written as a snapshot."""
    rows = work.renewed(rows)
    n_bytes = int(weight(work.layout, rows).sum())
    return HeldState(work.layout, (), (), rows, rows.num_rows, n_bytes, n_moved)


def _held_by(ledger: Ledger, layout: StateLayout, base: Base, worker: int) -> HeldState:
    """Open the state that a worker holds in a version."""
    file = base.version(worker).file
    files = stack(ledger, file)
    return HeldState(layout, files, (*files[-1].below, file))


def _n_keys(rows: pa.Table) -> int:
    return int(np.unique(hashes_of(rows)).size)
