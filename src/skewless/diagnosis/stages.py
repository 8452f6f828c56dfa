"""Sums up an event log: the stages of an application, and what each of their tasks did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless.arrays import Floats, Ints
from skewless.diagnosis.event_log import Event

_DEEPEST = 200  # operators on top of each other


@dataclass(frozen=True)
class Tasks:
    """The tasks of one stage that ended well, one entry each."""

    seconds: Floats  # in the executor
    records: Ints  # read from a shuffle, or from input
    bytes: Ints
    executors: tuple[str, ...]
    partitions: Ints
    launched: Ints  # in milliseconds
    ended: Ints


@dataclass(frozen=True)
class Stage:
    """One attempt of a stage that ended."""

    number: int
    attempt: int
    name: str
    job: str  # what the user called it, or the query
    operators: tuple[str, ...]  # what runs in it, as Spark calls it
    plan: tuple[str, ...]  # what runs in the whole query
    reads_shuffle: bool
    seconds: float  # from its submission to its end
    tasks: Tasks


@dataclass
class _Gathering:
    """What was met of a stage so far."""

    rows: list[tuple[float, int, int, str, int, int, int]] = field(default_factory=list)
    shuffled: int = 0


@dataclass(frozen=True)
class Unfinished:
    """A task that had not ended when the log did."""

    stage: int
    partition: int
    seconds: float  # until the last event of the log


@dataclass(frozen=True)
class Application:
    """What an event log tells."""

    name: str
    spark: str
    stages: tuple[Stage, ...]
    complete: bool  # whether the log has the end of the application
    unfinished: tuple[Unfinished, ...]  # the longest first


def summarise(events: Iterable[Event]) -> Application:
    """Return the stages of an application, in the order in which they ended."""
    name = spark = ""
    gathered: dict[tuple[int, int], _Gathering] = {}
    jobs: dict[int, tuple[str, tuple[str, ...]]] = {}
    plans: dict[str, tuple[str, ...]] = {}
    queries: dict[str, str] = {}
    stages = []
    running: dict[int, tuple[int, int, int]] = {}
    last = 0
    complete = False
    for event in events:
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerLogStart":
            spark = str(event.get("Spark Version", ""))
        elif kind == "SparkListenerApplicationStart":
            name = str(event.get("App Name", ""))
        elif kind == "SparkListenerSQLExecutionStart":
            query = str(event.get("executionId"))
            queries[query] = str(event.get("description", ""))
            plans[query] = tuple(dict.fromkeys(_nodes(event.get("sparkPlanInfo"))))
        elif kind == "SparkListenerJobStart":
            properties = _fields(event.get("Properties"))
            described = _job_text(properties, queries)
            plan = plans.get(str(properties.get("spark.sql.execution.id")), ())
            stage_ids = event.get("Stage IDs")
            for stage_id in stage_ids if isinstance(stage_ids, list) else ():
                jobs[_whole(stage_id)] = described, plan
        elif kind == "SparkListenerApplicationEnd":
            complete = True
        elif kind == "SparkListenerTaskStart":
            info = _fields(event.get("Task Info"))
            partition = _whole(info.get("Partition ID", info.get("Index")))
            began = _whole(info.get("Launch Time"))
            running[_whole(info.get("Task ID"))] = _whole(event.get("Stage ID")), partition, began
            last = max(last, began)
        elif kind == "SparkListenerTaskEnd":
            info = _fields(event.get("Task Info"))
            running.pop(_whole(info.get("Task ID")), None)
            last = max(last, _whole(info.get("Finish Time")))
            attempt = (_whole(event.get("Stage ID")), _whole(event.get("Stage Attempt ID")))
            _add_task(gathered.setdefault(attempt, _Gathering()), event)
        elif kind == "SparkListenerStageCompleted":
            info = _fields(event.get("Stage Info"))
            identity = (_whole(info.get("Stage ID")), _whole(info.get("Stage Attempt ID")))
            found = gathered.pop(identity, _Gathering())
            if found.rows:
                job, plan = jobs.get(identity[0], ("", ()))
                stages.append(_stage(identity, info, job, plan, found))
    unfinished = [
        Unfinished(stage, partition, max(last - began, 0) / 1e3)
        for stage, partition, began in running.values()
    ]
    unfinished.sort(key=lambda task: -task.seconds)
    return Application(name, spark, tuple(stages), complete, tuple(unfinished))


def _job_text(properties: dict[str, Any], queries: dict[str, str]) -> str:
    described = properties.get("spark.job.description")
    return str(described or queries.get(str(properties.get("spark.sql.execution.id")), ""))


def _add_task(stage: _Gathering, event: Event) -> None:
    info, metrics = _fields(event.get("Task Info")), _fields(event.get("Task Metrics"))
    if _fields(event.get("Task End Reason")).get("Reason") != "Success":
        return
    shuffle = _fields(metrics.get("Shuffle Read Metrics"))
    read = _fields(metrics.get("Input Metrics"))
    shuffled = _whole(shuffle.get("Total Records Read"))
    sent = _whole(shuffle.get("Remote Bytes Read")) + _whole(shuffle.get("Local Bytes Read"))
    stage.shuffled += shuffled
    stage.rows.append(
        (
            _whole(metrics.get("Executor Run Time")) / 1e3,
            shuffled + _whole(read.get("Records Read")),
            sent + _whole(read.get("Bytes Read")),
            str(info.get("Executor ID", "")),
            _whole(info.get("Partition ID", info.get("Index"))),
            _whole(info.get("Launch Time")),
            _whole(info.get("Finish Time")),
        )
    )


def _stage(
    identity: tuple[int, int],
    info: dict[str, Any],
    job: str,
    plan: tuple[str, ...],
    found: _Gathering,
) -> Stage:
    seconds, records, sizes, executors, partitions, launched, ended = zip(*found.rows, strict=True)
    begin, end = _whole(info.get("Submission Time")), _whole(info.get("Completion Time"))
    return Stage(
        number=identity[0],
        attempt=identity[1],
        name=str(info.get("Stage Name", "")),
        job=" ".join(job.split()),
        operators=_operators(info),
        plan=plan,
        reads_shuffle=found.shuffled > 0,
        seconds=max(end - begin, 0) / 1e3,
        tasks=Tasks(
            seconds=np.array(seconds, np.float64),
            records=np.array(records, np.int64),
            bytes=np.array(sizes, np.int64),
            executors=executors,
            partitions=np.array(partitions, np.int64),
            launched=np.array(launched, np.int64),
            ended=np.array(ended, np.int64),
        ),
    )


def _operators(info: dict[str, Any]) -> tuple[str, ...]:
    """Return the operators of a stage by the scopes of its RDDs, without repetition."""
    found: dict[str, None] = {}
    rdds = info.get("RDD Info")
    for rdd in rdds if isinstance(rdds, list) else ():
        scope = str(_fields(rdd).get("Scope") or "")
        # {"id":"7","name":"FlatMapGroupsInPandas"}
        name = scope.partition('"name":"')[2].partition('"')[0]
        if name:
            found[name] = None
    return tuple(found)


def _nodes(plan: object, depth: int = 0) -> Iterator[str]:
    """Yield the names of the operators of a plan, from the last one down."""
    fields = _fields(plan)
    if name := str(fields.get("nodeName") or ""):
        yield name
    children = fields.get("children")
    if isinstance(children, list) and depth < _DEEPEST:
        for child in children:
            yield from _nodes(child, depth + 1)


def _fields(value: object) -> dict[str, Any]:
    """Return an object of the log; what is missing or odd counts as empty."""
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int:
    """Return a number of the log; what is missing or odd counts as 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
