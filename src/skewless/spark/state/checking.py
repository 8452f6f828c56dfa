"""Tests the laws of a processor on small streams without Spark; shows a small counterexample."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark import cloudpickle

from skewless.aggregations.columns import plain
from skewless.aggregations.grouping import group
from skewless.keys import hash_keys
from skewless.plumbing.arguments import shown
from skewless.plumbing.broken_laws import require_kept
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.processor import Processor
from skewless.spark.state.schemas import Shape, shape_of
from skewless.spark.state.versions.held_state import HeldState
from skewless.spark.state.versions.row_tables import states_by_key
from skewless.spark.state.versions.state_tables import FOREVER
from skewless.spark.state.worker_step import Work

_SIZES = (1, 2, 3, 4, 6, 9, 14, 30)
_MOST_BATCHES = 5
_WORKERS = 3

Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Trial:
    """A processor and a stream of some records, in the order in which they come."""

    shape: Shape
    sent: SentColumns
    records: pa.Table
    cuts: Sequence[int]
    per_record: bool
    seed: int

    def run(
        self, records: pa.Table, cuts: Sequence[int], *, workers: int = 1, again: bool = False
    ) -> tuple[list[Rows], Rows]:
        """Return the results of each micro-batch and of the end, and the states before the end.

        Before the end, states expire by the last watermark; at the end, all that can expire do.
        With several workers, every key moves to another one in each micro-batch. With `again`, each
        method is called twice, and the second result counts.
        """
        shape = self.shape
        if not again:  # a worker gets a copy of the processor
            copy = pickle.loads(cloudpickle.dumps(shape.processor))  # type: ignore[no-untyped-call]
            shape = replace(shape, processor=copy)
        work = Work(shape, self.sent)
        layout, rng = work.layout, np.random.default_rng(self.seed)
        delay = _lateness(records, self.sent)
        states, batches = layout.empty(), []
        latest: int | None = None
        before: int | None = None
        edges = [0, *cuts, records.num_rows]
        for batch, (begin, end) in enumerate(itertools.pairwise(edges)):
            part = self._sent(records.slice(begin, end - begin))
            now = None if latest is None else latest - delay
            if self.shape.follows_clock:
                now = 0  # time stands still
            salt = int(rng.integers(1 << 62)) | 1
            rows, kept = [], []
            for worker in range(workers):
                mine, own = (_of_worker(one, salt, worker, workers) for one in (part, states))
                held = HeldState(layout, arrived=own)
                for _ in range(1 + again):
                    worked = work.do(mine, held, before, now, batch=batch)
                rows += worked.results.to_pylist()
                kept.append(layout.newest([own, worked.changed]))
                if worked.latest is not None:
                    latest = worked.latest if latest is None else max(latest, worked.latest)
            table = layout.newest(kept)
            states, before = layout.live(table), now
            batches.append(rows)
        ended: list[Rows] = [[], []]
        # The last watermark does not depend on how the stream was cut.
        left = states
        if latest is not None:
            for results, rest in work.expired(states, latest - delay):
                left = rest
                ended[0] += results.to_pylist()
        for results, _ in work.expired(left, FOREVER - 1):
            ended[1] += results.to_pylist()
        return [*batches, *ended], _described(layout, left)

    def _sent(self, records: pa.Table) -> pa.Table:
        keys = [records.column(place - len(self.sent.schema)) for place in self.sent.key]
        hashes = hash_keys(*keys).view(np.int64)
        nothing = np.zeros(records.num_rows, np.int32)
        ours = [pa.array(hashes), pa.array(nothing), pa.array(nothing)]
        return pa.table([*ours, *records.columns], schema=self.sent.schema)


def calls_are_repeatable(trial: Trial) -> None:
    """The same records and states give the same results and states, after any earlier calls."""
    once = trial.run(trial.records, trial.cuts)
    _expect("calling each method twice", trial.run(trial.records, trial.cuts, again=True), once)
    _expect("another copy of the processor", trial.run(trial.records, trial.cuts), once)


def workers_and_moves_are_invisible(trial: Trial) -> None:
    """Keys may be processed together or apart, and on another worker in each micro-batch."""
    one, states = trial.run(trial.records, trial.cuts)
    several, moved = trial.run(trial.records, trial.cuts, workers=_WORKERS)
    for number, (wanted, found) in enumerate(zip(one, several, strict=True)):
        counted = [Counter(map(repr, rows)) for rows in (found, wanted)]
        _expect(f"micro-batch {number} on {_WORKERS} workers", *counted)
    _expect(f"states after moves between {_WORKERS} workers", moved, states)


def cuts_are_invisible(trial: Trial) -> None:
    """A key's records may come in one micro-batch or in several."""
    codes = group([trial.records.column(p - len(trial.sent.schema)) for p in trial.sent.key]).codes
    for code in range(int(codes.max(initial=-1)) + 1):
        mine = np.flatnonzero(codes == code)
        records = trial.records.take(pa.array(mine))
        cuts = np.searchsorted(mine, np.asarray(trial.cuts, np.int64)).tolist()
        whole, states = trial.run(records, [])
        parts, others = trial.run(records, cuts)
        _expect("the state of a key after several micro-batches", others, states)
        if trial.per_record:
            flat = [[row for rows in run for row in rows] for run in (parts, whole)]
            _expect("the results of a key in several micro-batches", *flat)


LAWS: tuple[Callable[[Trial], None], ...] = (
    calls_are_repeatable,
    workers_and_moves_are_invisible,
    cuts_are_invisible,
)


def check_processor(
    processor: Processor,
    records: pa.Table,
    *,
    key: str | Sequence[str] = "key",
    time: str | None = None,
    answers: Literal["record", "batch"] = "record",
    seed: int = 0,
) -> list[str]:
    """Test every law of `Processor`; return the names of the laws.

    Other cuts into micro-batches, other workers and forced moves must not change the results.
    Raises `LawBroken` for the first broken law, with an example of few records.

    Parameters
    ----------
    processor
        What to test.
    records
        Records to test it on, in small samples. A few keys should have several records each.
    key
        The columns of the key.
    time
        The column of event time, if states expire. No record counts as late. States are compared
        after the last watermark has ended all states that it can end.
    answers
        "record": the results of a key do not depend on how its records are cut into micro-batches.
        "batch": the processor returns a result per micro-batch, such as a running total; then only
        its states must be the same.
    seed
        The seed of the random samples, cuts and moves.
    """
    shape = shape_of(processor)
    names = [key] if isinstance(key, str) else list(key)
    rng = np.random.default_rng(seed)
    for name in [*names, *([time] if time else [])]:
        if name not in records.column_names:
            raise ValueError(f"records has no column {shown(name)}")
    if answers not in ("record", "batch"):
        raise ValueError(f"answers must be 'record' or 'batch', not {shown(answers)}")
    sent = _sent_columns(records, names, time)
    for size in _SIZES:
        rows = np.sort(rng.choice(records.num_rows, min(size, records.num_rows), replace=False))
        sample = records.take(pa.array(rows)).combine_chunks()
        inner = rng.integers(0, sample.num_rows + 1, int(rng.integers(0, _MOST_BATCHES)))
        cuts = np.sort(inner).tolist()
        per_record = answers == "record"
        for law in LAWS:
            trial = Trial(shape, sent, sample, cuts, per_record, int(rng.integers(1 << 30)))
            require_kept(law, trial, _with_one_record_less, _told)
    return [law.__name__ for law in LAWS]


def _sent_columns(records: pa.Table, names: list[str], time: str | None) -> SentColumns:
    ours = [("hash", pa.int64()), ("worker", pa.int32()), ("source", pa.int32())]
    inputs = [(f"input_{number}", kind) for number, kind in enumerate(records.schema.types)]
    schema = pa.schema([*ours, *inputs])
    place = {name: len(ours) + number for number, name in enumerate(records.column_names)}
    keys = tuple(place[name] for name in names)
    at = None if time is None else place[time]
    return SentColumns(schema, tuple(records.column_names), keys, tuple(names), (), at)


def _lateness(records: pa.Table, sent: SentColumns) -> int:
    """Return the delay of a watermark that makes no record late, in microseconds."""
    if sent.time is None:
        return 0
    column = plain(records.column(sent.time - len(sent.schema)))
    if not pt.is_timestamp(column.type):
        raise ValueError(f"time: must be a column of timestamps, not {column.type}")
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).drop_null().to_numpy()
    behind = np.maximum.accumulate(micros) - micros if micros.size else np.zeros(1, np.int64)
    return int(behind.max()) + 1


def _of_worker(table: pa.Table, salt: int, worker: int, n_workers: int) -> pa.Table:
    """Return the rows of one worker, by the hashes in the first column."""
    mixed = plain(table.column(0)).to_numpy().view(np.uint64) * np.uint64(salt)
    mine = (mixed >> np.uint64(33)) % np.uint64(n_workers) == worker
    return table.filter(pa.array(mine)).combine_chunks()


def _described(layout: Any, states: pa.Table) -> Rows:
    states, held, _ = states_by_key(layout, states)
    keys = pa.table(layout.keys(states), names=layout.key.names).to_pylist()
    rows = [{"key": key, "state": state} for key, state in zip(keys, held.to_pylist(), strict=True)]
    return sorted(rows, key=repr)


def _expect(what: str, found: Any, wanted: Any) -> None:
    # By their text, so that NaN equals itself.
    if repr(found) != repr(wanted) and found != wanted:
        raise AssertionError(f"{what} gives {found!r} instead of {wanted!r}")


def _told(trial: Trial) -> tuple[str, str]:
    records, cuts = trial.records, list(trial.cuts)
    told = f"{records.num_rows} records cut at {cuts}: {records.to_pylist()}"
    return trial.shape.name, told


def _with_one_record_less(trial: Trial) -> Iterator[Trial]:
    for row in range(trial.records.num_rows):
        rest = [r for r in range(trial.records.num_rows) if r != row]
        fewer = trial.records.take(pa.array(rest, pa.int64()))
        yield replace(trial, records=fewer, cuts=[cut - (cut > row) for cut in trial.cuts])
