"""Sums up an event log: the stages of an application, and what each of their tasks did."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints
from skewless.diagnosis.event_log import Event, LogError
from skewless.diagnosis.log_fields import (
    failure_text,
    fields,
    plan_operators,
    short,
    stage_operators,
    whole,
)

#: Tasks, stages, jobs, queries and their operators in one log. A task takes about 300 bytes.
_MOST_KEPT = 3_000_000


@dataclass(frozen=True)
class Tasks:
    """The tasks of one stage that succeeded, and those that did not end, one entry each."""

    seconds: Floats  # in the executor; so far, if it did not end
    records: Ints  # read from a shuffle, or from input; 0 if it did not end
    bytes: Ints
    executors: tuple[str, ...]
    partitions: Ints
    launched: Ints  # in milliseconds
    ended: Ints
    is_done: NDArray[np.bool_]


@dataclass(frozen=True)
class Stage:
    """One attempt of a stage."""

    number: int
    attempt: int
    name: str
    job: str  # what the user called it, or the query
    operators: tuple[str, ...]  # of the stage, by Spark's names
    plan: tuple[str, ...]  # the operators of the query
    reads_shuffle: bool
    seconds: float  # from its submission to its end, or to the end of the log
    complete: bool  # whether it succeeded
    tasks: Tasks


@dataclass(frozen=True)
class Unfinished:
    """A task that was killed, or had not ended when the log did; no other task did its work."""

    stage: int
    attempt: int
    partition: int
    seconds: float  # until the last event of the log, or until it was killed
    killed: bool


@dataclass(frozen=True)
class Failed:
    """A partition whose tasks failed, and none succeeded in any attempt of the stage."""

    stage: int
    partition: int
    failures: int
    seconds: float  # of the longest of these tasks
    reason: str  # of the last failure


@dataclass(frozen=True)
class Application:
    """The content of an event log."""

    name: str
    spark: str
    stages: tuple[Stage, ...]
    complete: bool  # whether the log has the end of the application
    unfinished: tuple[Unfinished, ...]  # the longest first
    failed: tuple[Failed, ...]  # those with the most failures first
    open_jobs: int  # that began and did not end

    @property
    def tells_all(self) -> bool:
        """Whether the log has the end of all work that began."""
        return not (self.unfinished or self.failed or self.open_jobs)


class _Task(NamedTuple):
    seconds: float
    records: int
    bytes: int
    executor: str
    partition: int
    launched: int
    ended: int
    is_done: bool


@dataclass
class _Attempt:
    """The events of one attempt of a stage so far."""

    name: str = ""
    operators: tuple[str, ...] = ()
    submitted: int = 0  # time in milliseconds, or 0
    completed: int = 0
    has_failed: bool = False
    tasks: list[_Task] = field(default_factory=list)
    killed: list[_Task] = field(default_factory=list)
    shuffled: int = 0
    has_ended: bool = False


_Identity = tuple[int, int]  # of an attempt: the numbers of the stage and of the attempt


@dataclass
class _Met:
    """The events of an application so far."""

    name: str = ""
    spark: str = ""
    complete: bool = False
    last: int = 0  # time in milliseconds
    kept: int = 0  # entries below
    attempts: dict[_Identity, _Attempt] = field(default_factory=dict)
    ended: dict[_Identity, None] = field(default_factory=dict)  # in order
    jobs: dict[int, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # by stage
    open_jobs: set[int] = field(default_factory=set)
    plans: dict[str, tuple[str, ...]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    running: dict[int, tuple[_Identity, _Task]] = field(default_factory=dict)
    succeeded: set[tuple[int, int]] = field(default_factory=set)  # stage and partition
    failed: dict[tuple[int, int], Failed] = field(default_factory=dict)

    def keep(self, n_entries: int = 1) -> None:
        """Count entries before they are kept; refuse more than memory is meant for."""
        self.kept += n_entries
        if self.kept > _MOST_KEPT:
            raise LogError(
                f"event log: it has more than {_MOST_KEPT:,} tasks, stages, jobs, queries and "
                "operators, too many to keep in memory; of a rolled log, copy the last files into "
                "a folder"
            )

    def begin_query(self, event: Event) -> None:
        query = short(event.get("executionId"))
        operators = plan_operators(event.get("sparkPlanInfo"))
        self.keep(1 + len(operators))
        self.queries[query] = short(event.get("description"))
        self.plans[query] = operators

    def begin_job(self, event: Event) -> None:
        properties = fields(event.get("Properties"))
        query = short(properties.get("spark.sql.execution.id"))
        described = short(properties.get("spark.job.description")) or self.queries.get(query, "")
        stage_ids = event.get("Stage IDs")
        stage_ids = stage_ids if isinstance(stage_ids, list) else []
        self.keep(1 + len(stage_ids))
        for stage_id in stage_ids:
            self.jobs[whole(stage_id)] = described, self.plans.get(query, ())
        if "Job ID" in event:
            self.open_jobs.add(whole(event["Job ID"]))
        self.last = max(self.last, whole(event.get("Submission Time")))

    def meet_stage(self, event: Event, *, has_ended: bool) -> None:
        info = fields(event.get("Stage Info"))
        identity = whole(info.get("Stage ID")), whole(info.get("Stage Attempt ID"))
        operators = stage_operators(info)
        self.keep(1 + len(operators))
        attempt = self.attempts.setdefault(identity, _Attempt())
        attempt.name, attempt.operators = short(info.get("Stage Name")), operators
        attempt.submitted = whole(info.get("Submission Time"))
        attempt.completed = whole(info.get("Completion Time"))
        attempt.has_failed = bool(info.get("Failure Reason"))
        attempt.has_ended = has_ended
        self.last = max(self.last, attempt.submitted, attempt.completed)
        if has_ended:
            self.ended[identity] = None

    def begin_task(self, event: Event) -> None:
        self.keep()
        identity, task = _task(event)
        info = fields(event.get("Task Info"))
        self.running[whole(info.get("Task ID"))] = identity, task
        self.last = max(self.last, task.launched)

    def end_task(self, event: Event) -> None:
        identity, task = _task(event)
        number = whole(fields(event.get("Task Info")).get("Task ID"))
        if self.running.pop(number, None) is None:  # else it was counted when it began
            self.keep()
        self.last = max(self.last, task.ended)
        attempt = self.attempts.setdefault(identity, _Attempt())
        place = identity[0], task.partition
        reason = fields(event.get("Task End Reason"))
        seconds = max(task.ended - task.launched, 0) / 1e3
        if task.is_done:
            attempt.tasks.append(task)
            metrics = fields(event.get("Task Metrics"))
            shuffle = fields(metrics.get("Shuffle Read Metrics"))
            attempt.shuffled += whole(shuffle.get("Total Records Read"))
            self.succeeded.add(place)
        elif reason.get("Reason") == "TaskKilled":  # the stage was abandoned, or a copy was faster
            attempt.killed.append(task._replace(seconds=seconds))
        elif reason.get("Reason") not in ("Resubmitted", "TaskCommitDenied"):  # it did its work
            before = self.failed.get(place)
            self.failed[place] = Failed(
                stage=identity[0],
                partition=task.partition,
                failures=1 + (before.failures if before else 0),
                seconds=max(seconds, before.seconds if before else 0.0),
                reason=failure_text(reason),
            )

    def unfinished(self) -> dict[_Identity, list[tuple[_Task, bool]]]:
        """Return the tasks without an end by their stage, with whether they were killed.

        Of several tasks for the same partition, the longest counts. If one succeeded, the others
        were copies of it and are left out.
        """
        longest: dict[tuple[int, int], tuple[_Identity, _Task, bool]] = {}
        alive = [
            (identity, task._replace(seconds=max(self.last - task.launched, 0) / 1e3), False)
            for identity, task in self.running.values()
        ]
        killed = [
            (identity, task, True)
            for identity, attempt in self.attempts.items()
            for task in attempt.killed
        ]
        for identity, task, is_killed in alive + killed:
            place = identity[0], task.partition
            known = longest.get(place)
            if place not in self.succeeded and (known is None or known[1].seconds < task.seconds):
                longest[place] = identity, task, is_killed
        found: dict[_Identity, list[tuple[_Task, bool]]] = {}
        for identity, task, is_killed in longest.values():
            ended = task.ended if is_killed else max(self.last, task.launched)
            found.setdefault(identity, []).append((task._replace(ended=ended), is_killed))
        return found

    def application(self) -> Application:
        unfinished = self.unfinished()
        stages = []
        for identity in dict.fromkeys([*self.ended, *self.attempts, *unfinished]):
            attempt = self.attempts.get(identity, _Attempt())
            tasks = [*attempt.tasks, *(task for task, _ in unfinished.get(identity, ()))]
            if tasks:
                stages.append(self._stage(identity, attempt, tasks))
        told = [
            Unfinished(*identity, task.partition, task.seconds, is_killed)
            for identity, tasks in unfinished.items()
            for task, is_killed in tasks
        ]
        failed = [one for place, one in self.failed.items() if place not in self.succeeded]
        return Application(
            self.name,
            self.spark,
            tuple(stages),
            self.complete,
            tuple(sorted(told, key=lambda task: -task.seconds)),
            tuple(sorted(failed, key=lambda one: (-one.failures, one.stage, one.partition))),
            len(self.open_jobs),
        )

    def _stage(self, identity: _Identity, attempt: _Attempt, tasks: list[_Task]) -> Stage:
        job, plan = self.jobs.get(identity[0], ("", ()))
        begin = attempt.submitted or min(task.launched for task in tasks)
        at_last = max(task.ended for task in tasks) if attempt.has_ended else self.last
        end = attempt.completed or at_last
        columns = _Task(*zip(*tasks, strict=True))  # type: ignore[arg-type]
        return Stage(
            number=identity[0],
            attempt=identity[1],
            name=attempt.name,
            job=" ".join(job.split()),
            operators=attempt.operators,
            plan=plan,
            reads_shuffle=attempt.shuffled > 0,
            seconds=max(end - begin, 0) / 1e3,
            complete=attempt.has_ended and not attempt.has_failed,
            tasks=Tasks(
                seconds=np.array(columns.seconds, np.float64),
                records=np.array(columns.records, np.int64),
                bytes=np.array(columns.bytes, np.int64),
                executors=tuple(columns.executor),
                partitions=np.array(columns.partition, np.int64),
                launched=np.array(columns.launched, np.int64),
                ended=np.array(columns.ended, np.int64),
                is_done=np.array(columns.is_done, np.bool_),
            ),
        )


def summarise(events: Iterable[Event]) -> Application:
    """Return the stages of an application: in the order in which they ended, then the open ones."""
    met = _Met()
    for event in events:
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerLogStart":
            met.spark = short(event.get("Spark Version"))
        elif kind == "SparkListenerApplicationStart":
            met.name = short(event.get("App Name"))
        elif kind == "SparkListenerSQLExecutionStart":
            met.begin_query(event)
        elif kind == "SparkListenerJobStart":
            met.begin_job(event)
        elif kind == "SparkListenerJobEnd":
            met.open_jobs.discard(whole(event.get("Job ID")))
        elif kind == "SparkListenerApplicationEnd":
            met.complete = True
        elif kind == "SparkListenerTaskStart":
            met.begin_task(event)
        elif kind == "SparkListenerTaskEnd":
            met.end_task(event)
        elif kind == "SparkListenerStageSubmitted":
            met.meet_stage(event, has_ended=False)
        elif kind == "SparkListenerStageCompleted":
            met.meet_stage(event, has_ended=True)
    return met.application()


def _task(event: Event) -> tuple[_Identity, _Task]:
    """Return the attempt that a task belongs to, and what an event says about the task."""
    info, metrics = fields(event.get("Task Info")), fields(event.get("Task Metrics"))
    shuffle = fields(metrics.get("Shuffle Read Metrics"))
    read = fields(metrics.get("Input Metrics"))
    sent = whole(shuffle.get("Remote Bytes Read")) + whole(shuffle.get("Local Bytes Read"))
    task = _Task(
        seconds=whole(metrics.get("Executor Run Time")) / 1e3,
        records=whole(shuffle.get("Total Records Read")) + whole(read.get("Records Read")),
        bytes=sent + whole(read.get("Bytes Read")),
        executor=sys.intern(short(info.get("Executor ID"))),
        partition=whole(info.get("Partition ID", info.get("Index"))),
        launched=whole(info.get("Launch Time")),
        ended=whole(info.get("Finish Time")),
        is_done=fields(event.get("Task End Reason")).get("Reason") == "Success",
    )
    identity = whole(event.get("Stage ID")), whole(event.get("Stage Attempt ID"))
    return identity, task
