"""Finds the stages whose slowest task is far above the others, and says what would help."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skewless.diagnosis.stages import Application, Stage

#: Tasks that end sooner are no problem, whatever their ratio.
SHORTEST_SECONDS = 0.5
#: A task counts as slow if it takes so many times the median.
SLOW = 2.0

Cause = Literal["records", "input", "executor", "cost"]

#: Operators of Spark's that keep the records of a key together, and what helps there.
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
        ("SortMergeJoin", "ShuffledHashJoin", "BroadcastHashJoin", "StreamingSymmetricHashJoin"),
        "a join: Spark's adaptive execution splits skewed partitions of a batch join "
        "(spark.sql.adaptive.skewJoin); for streams skewless.spark.join spreads a hot key",
    ),
    (
        ("Window", "WindowGroupLimit", "WindowInPandas"),
        "a window function per key: no key can be split; see whether the hot key needs it",
    ),
    (
        ("MapInArrow", "MapInPandas", "ArrowEvalPython", "BatchEvalPython", "MapPartitions"),
        "work per record after a shuffle by key: skewless.spark.route in place of the repartition",
    ),
    (
        ("ObjectHashAggregate", "HashAggregate", "SortAggregate"),
        "an aggregation: built-in ones are combined before the shuffle, so look at what cannot be "
        "(count_distinct, collect_list): skewless.spark.aggregate splits their hot keys",
    ),
)


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
    share_of_records: float  # of the slowest task; 1 / tasks would be fair
    saved_seconds: float  # by which the stage would be shorter if its tasks were alike
    cause: Cause
    remedy: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        return asdict(self)


def find_stragglers(
    application: Application, *, slow: float = SLOW, shortest: float = SHORTEST_SECONDS
) -> list[Straggler]:
    """Return the stages with a slow task, those first where balance would save most."""
    found = []
    for stage in application.stages:
        seconds = stage.tasks.seconds
        median = float(np.median(seconds))
        is_slow = (seconds >= shortest) & (seconds >= slow * median)
        if seconds.size < 2 or not is_slow.any():
            continue
        slowest = _most_telling(stage, is_slow)
        cause = _cause(stage, slowest)
        if cause == "cost" and _only_the_first_wave(stage, is_slow):
            continue  # Python processes start, caches fill: nothing that balance could save
        records = int(stage.tasks.records.sum())
        found.append(
            Straggler(
                stage=stage.number,
                attempt=stage.attempt,
                name=stage.name,
                job=stage.job,
                operators=stage.operators,
                tasks=seconds.size,
                median_seconds=median,
                slowest_seconds=float(seconds[slowest]),
                slowest_partition=int(stage.tasks.partitions[slowest]),
                share_of_records=float(stage.tasks.records[slowest] / records) if records else 0.0,
                saved_seconds=float(seconds[slowest] - seconds.mean()),
                cause=cause,
                remedy=_remedy(stage, cause, slowest),
            )
        )
    return sorted(found, key=lambda one: -one.saved_seconds)


def _most_telling(stage: Stage, is_slow: NDArray[np.bool_]) -> int:
    """Return the slowest task; one that has many records goes before those that start up."""
    records = stage.tasks.records
    heavy = is_slow & (records >= 1.5 * max(float(np.median(records)), 1.0))
    among = heavy if heavy.any() else is_slow
    return int(np.where(among, stage.tasks.seconds, -1.0).argmax())


def _only_the_first_wave(stage: Stage, is_slow: NDArray[np.bool_]) -> bool:
    """Tell whether all slow tasks are the first ones of their executors, and others followed."""
    tasks = stage.tasks
    first_end: dict[str, int] = {}
    for executor, ended in zip(tasks.executors, tasks.ended, strict=True):
        first_end[executor] = min(int(ended), first_end.get(executor, int(ended)))
    ends = np.array([first_end[executor] for executor in tasks.executors])
    is_first = tasks.launched < ends
    return bool(is_first[is_slow].all() and not is_first.all())


def _cause(stage: Stage, slowest: int) -> Cause:
    """Return why a task is slow: it has more records, a slow machine, or records that cost more."""
    tasks = stage.tasks
    time = tasks.seconds[slowest] / max(float(np.median(tasks.seconds)), 1e-3)
    for sizes in (tasks.records, tasks.bytes):
        usual = max(float(np.median(sizes)), 1.0)
        if sizes[slowest] / usual >= max(1.5, np.sqrt(time)):
            return "records" if stage.reads_shuffle else "input"
    return "executor" if _on_a_slow_executor(stage, slowest) else "cost"


def _on_a_slow_executor(stage: Stage, slowest: int) -> bool:
    """Tell whether most tasks of the slowest one's executor, and few others, are slow."""
    tasks = stage.tasks
    slow = tasks.seconds >= SLOW * np.median(tasks.seconds)
    suspect = tasks.executors[slowest]
    all_tasks = Counter(tasks.executors)
    slow_tasks = Counter(e for e, is_slow in zip(tasks.executors, slow, strict=True) if is_slow)
    here, total = slow_tasks[suspect], sum(slow_tasks.values())
    return (
        len(all_tasks) > 1
        and all_tasks[suspect] > 1
        and 2 * here > all_tasks[suspect]
        and (4 * here >= 3 * total)
    )


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
    # Generated code hides the operators of a stage; then those of its query tell.
    for names in (stage.operators, stage.plan):
        for operators, remedy in _REMEDIES:
            if any(name.startswith(operators) for name in names):
                return remedy
    if cause == "cost":
        return (
            "some records cost more than others: give route their cost as weight=, or look at the "
            "slow partition"
        )
    return "records of one key: skewless.spark.hot_keys names it and says what helps"
