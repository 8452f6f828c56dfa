"""The state of a worker at the beginning of a batch, with what moves in and without what moves out.

Keys that move in are read from the files of the worker that had them, in the version that the plan
names. Those files never change, so no task waits for another. The worker that loses a key reads the
same version, and its next version records that the key is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.spark.ledger.ledger import Ledger
from skewless.spark.state.planning.spread_keys import all_parts
from skewless.spark.state.planning.state_plan import StatePlan
from skewless.spark.state.versions.bases import Base
from skewless.spark.state.versions.held_state import HeldState, weight
from skewless.spark.state.versions.state_tables import (
    StateLayout,
    forgotten,
    hashes_of,
    newest,
)
from skewless.spark.state.versions.version_files import read, stack
from skewless.spark.state.worker_step import Work


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a worker holds when a batch begins, and its size."""

    held: HeldState
    n_held: int = 0
    n_bytes: int = 0
    n_moved: int = 0  # keys that moved in

    @property
    def on_top(self) -> pa.Table:
        """The rows that are in no file of this worker yet."""
        arrived = self.held.arrived
        return self.held.layout.empty() if arrived is None else arrived


def beginning(ledger: Ledger, work: Work, plan: StatePlan, worker: int) -> Beginning:
    """Read the state that `worker` holds at the beginning of the plan's batch."""
    base, layout = plan.base, work.layout
    if base is None:
        return Beginning(HeldState(layout))
    if plan.moving.whole:
        return _gathered(ledger, work, plan, base, worker)
    file = base.version(worker).file
    top = read(ledger, file)
    names, files = (*top.below, file), stack(ledger, file)
    own = HeldState(layout, files, names)
    moving = plan.moving
    leaving = own.with_hashes(moving.hashes[moving.origins == worker])
    arriving = []
    for origin in np.unique(moving.origins[moving.targets == worker]).tolist():
        wanted = moving.hashes[(moving.targets == worker) & (moving.origins == origin)]
        arriving.append(_held_by(ledger, layout, base, origin).with_hashes(wanted))
    arriving += _copied(ledger, work, plan, base, worker)
    arrived = newest(layout, arriving)
    moved = newest(layout, [forgotten(layout, leaving), arrived])
    if plan.renews:
        whole = HeldState(layout, files, names, moved).rows_of(_every_row)
        return _on_top(work, whole, arrived.num_rows)
    return Beginning(
        HeldState(layout, files, names, moved),
        int(top.about["held"]) - leaving.num_rows + arrived.num_rows,
        int(top.about["bytes"]) + _bytes(layout, arrived) - _bytes(layout, leaving),
        arrived.num_rows,
    )


def _copied(ledger: Ledger, work: Work, plan: StatePlan, base: Base, worker: int) -> list[pa.Table]:
    """Return the first rows of this worker's parts of keys that are newly spread."""
    spread, found = plan.spread, []
    for hashed, parts, before in zip(
        spread.hashes, spread.parts.tolist(), spread.before.tolist(), strict=True
    ):
        hashes = all_parts(hashed, abs(parts))[before:]
        mine = np.flatnonzero(plan.placing.owners(hashes) == worker)
        if mine.size:
            held = _held_by(ledger, work.layout, base, _origin(plan, hashed))
            rows = held.with_hashes(np.array([hashed], np.uint64))
            found += [work.copies(rows, before + number, parts > 0) for number in mine.tolist()]
    return found


def _origin(plan: StatePlan, hashed: Any) -> int:
    """Return the worker that has a key in the version that is read."""
    moving = plan.moving
    at = int(np.searchsorted(moving.hashes, hashed))
    if at < moving.hashes.size and moving.hashes[at] == hashed:
        return int(moving.origins[at])
    return int(plan.placing.owners(np.array([hashed], np.uint64))[0])


def _gathered(ledger: Ledger, work: Work, plan: StatePlan, base: Base, worker: int) -> Beginning:
    """Return the keys of one worker from the files of all workers, after the ring changed."""
    layout = work.layout

    def own(table: pa.Table) -> np.ndarray:
        return np.flatnonzero(plan.placing.owners(hashes_of(table)) == worker)

    parts, n_moved = [], 0
    for origin in range(base.workers):
        rows = _held_by(ledger, layout, base, origin).rows_of(own)
        n_moved += rows.num_rows if origin != worker else 0
        parts.append(rows)
    return _on_top(work, newest(layout, parts), n_moved)


def _on_top(work: Work, rows: pa.Table, n_moved: int) -> Beginning:
    """Return a beginning with only these rows, which are all written as a snapshot."""
    rows = work.renewed(rows)
    held = HeldState(work.layout, arrived=rows)
    return Beginning(held, rows.num_rows, _bytes(work.layout, rows), n_moved)


def _every_row(table: pa.Table) -> np.ndarray:
    return np.arange(table.num_rows)


def _held_by(ledger: Ledger, layout: StateLayout, base: Base, worker: int) -> HeldState:
    return HeldState(layout, stack(ledger, base.version(worker).file))


def _bytes(layout: StateLayout, table: pa.Table) -> int:
    return int(weight(layout, table).sum())
