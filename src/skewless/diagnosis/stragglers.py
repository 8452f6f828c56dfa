"""Finds the stages whose slowest task is far above the others, and says what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints
from skewless.diagnosis import SLOW
from skewless.diagnosis.application import Application, Stage, Tasks
from skewless.diagnosis.replay import most_at_once
from skewless.diagnosis.writes import WRITES

#: Seconds. Shorter tasks are no problem, even if they are far above the median.
SHORTEST_SECONDS = 0.5

Cause = Literal["records", "input", "executor", "cost", "unfinished"]

_PER_RECORD = ("MapInArrow", "MapInPandas", "ArrowEvalPython", "BatchEvalPython", "MapPartitions")

#: Spark operators that keep the records of a key together, and what helps.
_REMEDIES = (
    (
        ("FlatMapGroupsInPandasWithState", "TransformWithState", "FlatMapGroupsWithState"),
        "keyed state in a stream: skewless.spark.process moves keys while the stream runs",
    ),
    (
        ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "MapGroups", "CoGroup"),
        "a Python function per key: skewless.spark.aggregate with an Aggregator splits a hot key",
    ),
    (
        # Not BroadcastHashJoin: it needs no shuffle, so hot keys do not slow it down.
        ("SortMergeJoin", "ShuffledHashJoin", "StreamingSymmetricHashJoin"),
        "a join: skewless.spark.join counts the pairs of each key and divides hot ones, on batches "
        "and, with within=, on streams; Spark's adaptive execution (spark.sql.adaptive.skewJoin) "
        "splits partitions of a batch join that are large in bytes",
    ),
    (
        ("Window", "WindowGroupLimit", "WindowInPandas"),
        "a window function per key, whose rows stay together: for the first or last rows of a key "
        "use Spark's max_by or min_by, which are combined before the shuffle, or "
        "skewless.spark.top_n; else see whether the hot key needs it",
    ),
    (
        _PER_RECORD,
        "work per record after a shuffle by key: skewless.spark.route in place of the repartition, "
        "or repartition(n) without a key if nothing is loaded or kept per key",
    ),
    (
        ("ObjectHashAggregate", "HashAggregate", "SortAggregate"),
        "an aggregation: most are combined before the shuffle, and skew hardly hurts them; see "
        "whether collect_list or collect_set can become an Aggregator that holds less "
        "(skewless.spark.aggregate)",
    ),
    (
        # After an aggregation, whose own shuffle puts the keys together.
        WRITES[:1],
        "a write of rows that a key puts together: skewless.spark.route by the partition's columns "
        "in place of the repartition gives all tasks as many rows or, with weight=, bytes; if the "
        "table asks for the shuffle, skewless.spark.explain_write says what to set",
    ),
)
_ONE_KEY = "records of one key: skewless.spark.hot_keys names it and says what helps"


@dataclass(frozen=True)
class Straggler:
    """A stage with a task far above the others."""

    stage: int
    attempt: int
    name: str
    job: str
    operators: tuple[str, ...]
    tasks: int
    median_seconds: float
    slowest_seconds: float
    slowest_partition: int
    share_of_records: float | None  # of the slowest task, fair is 1 / tasks; None: not known
    stage_seconds: float
    saved_seconds: float  # how much shorter the stage would be with equal tasks
    complete: bool  # whether the stage succeeded
    cause: Cause
    remedy: str


def find_stragglers(application: Application, *, slow: float = SLOW) -> list[Straggler]:
    """Return the stages with a slow task, ordered by how much balance would save."""
    found = []
    for stage in application.stages:
        tasks = stage.tasks
        seconds = tasks.seconds
        if seconds.size < 2 or not tasks.is_done.any():
            continue
        usual = _usual_seconds(tasks)
        is_slow = (seconds >= SHORTEST_SECONDS) & (seconds >= slow * usual)
        if not is_slow.any():
            continue
        slowest = _most_telling(tasks, is_slow)
        cause = _cause(stage, slowest, usual)
        if cause == "cost" and _only_the_first_wave(tasks, is_slow):
            continue  # Python processes start and caches fill: balance cannot save this
        records = float(tasks.records.sum(dtype=np.float64))
        share = float(tasks.records[slowest] / records) if records else 0.0
        # A stage cannot be shorter than its work, spread over as many tasks as ran at a time.
        above_mean = float(seconds[slowest] - seconds.mean())
        idle = stage.seconds - float(seconds.sum()) / most_at_once([stage])
        found.append(
            Straggler(
                stage=stage.number,
                attempt=stage.attempt,
                name=stage.name,
                job=stage.job,
                operators=stage.operators,
                tasks=seconds.size,
                median_seconds=usual,
                slowest_seconds=float(seconds[slowest]),
                slowest_partition=int(tasks.partitions[slowest]),
                share_of_records=share if tasks.is_done[slowest] else None,
                stage_seconds=stage.seconds,
                saved_seconds=max(0.0, min(above_mean, idle)),
                complete=stage.complete,
                cause=cause,
                remedy=_remedy(stage, cause, slowest),
            )
        )
    return sorted(found, key=lambda one: -one.saved_seconds)


def _lower_median(values: Floats | Ints) -> float:
    """Return the median; of an even number of values, the lower one in the middle.

    The mean of both would hide a straggler among two tasks, and slow tasks that are half of all.

    >>> _lower_median(np.array([60.0, 1.0])), _lower_median(np.array([3, 1, 2]))
    (1.0, 2.0)
    """
    middle = (values.size - 1) // 2
    return float(np.partition(values, middle)[middle])


def _usual_seconds(tasks: Tasks) -> float:
    """Return the lower median of the times of the tasks.

    A task that did not end counts only if it already takes as long as the others.
    """
    counts = tasks.is_done | (tasks.seconds >= _lower_median(tasks.seconds[tasks.is_done]))
    return _lower_median(tasks.seconds[counts])


def _most_telling(tasks: Tasks, is_slow: NDArray[np.bool_]) -> int:
    """Return the slowest task; before those that only start up, the one with the most records."""
    heavy = is_slow & (tasks.records >= 1.5 * max(_lower_median(tasks.records[tasks.is_done]), 1.0))
    among = next(one for one in (is_slow & ~tasks.is_done, heavy, is_slow) if one.any())
    # A task that started Python may be the slowest, and have somewhat more records, too.
    by = tasks.records if among is heavy else tasks.seconds
    return int(np.where(among, by, -1.0).argmax())


def _only_the_first_wave(tasks: Tasks, is_slow: NDArray[np.bool_]) -> bool:
    """Return whether all slow tasks are the first of their executors, and others followed."""
    executors, index = np.unique(tasks.executors, return_inverse=True)
    first_end = np.full(executors.size, tasks.ended.max())
    np.minimum.at(first_end, index, tasks.ended)
    is_first = tasks.launched < first_end[index]
    return bool(is_first[is_slow].all() and not is_first.all())


def _cause(stage: Stage, slowest: int, usual: float) -> Cause:
    """Return why a task is slow: it has more records, a slow machine, or records that cost more."""
    tasks = stage.tasks
    if not tasks.is_done[slowest]:
        return "unfinished"
    time = tasks.seconds[slowest] / max(usual, 1e-3)
    for sizes in (tasks.records, tasks.bytes):
        usual_size = max(_lower_median(sizes[tasks.is_done]), 1.0)
        if sizes[slowest] / usual_size >= max(1.5, np.sqrt(time)):
            return "records" if stage.reads_shuffle else "input"
    # Are most tasks of its executor slow, and few of the others?
    slow = tasks.seconds >= SLOW * usual
    here = tasks.executors == tasks.executors[slowest]
    n_here, n_slow_here = int(here.sum()), int((slow & here).sum())
    is_mostly_slow = 1 < n_here < here.size and 2 * n_slow_here > n_here
    return "executor" if is_mostly_slow and 4 * n_slow_here >= 3 * int(slow.sum()) else "cost"


def _remedy(stage: Stage, cause: Cause, slowest: int) -> str:
    if cause == "input":
        return (
            "its input is uneven: split large files, use a format that can be split, or "
            "repartition after reading"
        )
    if cause == "executor":
        return (
            f"the tasks of executor {stage.tasks.executors[slowest]} are slow: look at that "
            "machine, or set spark.speculation"
        )
    if cause == "records":
        return _by_operators(stage) or _ONE_KEY
    if cause == "unfinished":
        unknown = "it did not end, so the log does not show its records"
        if not stage.reads_shuffle:
            return f"{unknown}; look at what it reads, and at its executor"
        return f"{unknown}; if they are many: {_by_operators(stage) or _ONE_KEY}"
    if not stage.reads_shuffle:
        return (
            "some records cost more than others, and no shuffle put them together: more and "
            "smaller partitions (repartition(n) before the work) spread them, or look at the "
            "slow partition"
        )
    by_key = _by_operators(stage, without=_PER_RECORD)
    if by_key:
        return (
            "it read about as many records as the others: its machine may have been busy. If a "
            f"task is slow in every run, its records cost more: {by_key}"
        )
    return (
        "some records cost more than others: give route their cost as weight=, or look at the slow "
        "partition"
    )


def _by_operators(stage: Stage, without: tuple[str, ...] = ()) -> str:
    """Return the remedy for the first known operator of a stage, or an empty text.

    If generated code hides the operators of a stage, those of its query count.
    """
    for names in (stage.operators, stage.plan):
        for operators, remedy in _REMEDIES:
            if operators != without and any(name.startswith(operators) for name in names):
                return remedy
    return ""
