"""Sums up an event log: one pass over its events, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skewless.diagnosis.application import (
    Application,
    Failed,
    LoggedJob,
    Stage,
    Tasks,
    Unfinished,
)
from skewless.diagnosis.event_log import (
    Event,
    LogError,
    different,
    failure_text,
    fields,
    items,
    moment,
    plan_nodes,
    short,
    stage_operators,
    whole,
)
from skewless.diagnosis.writes import WRITES, SecondShuffle, second_shuffle

#: Tasks, stages, jobs, queries and their operators in one log. A task takes about 300 bytes.
_MOST_KEPT = 3_000_000
_OPEN = -1  # the end of a job that has none yet
_DIGITS = 6  # of a number of cores, at most
_Identity = tuple[int, int]  # of an attempt: the numbers of the stage and of the attempt


class _Task(NamedTuple):
    """An entry of `Tasks`."""

    seconds: float
    records: int
    bytes: int
    executor: str
    partition: int
    launched: int
    ended: int
    is_done: bool


_KINDS = (np.float64, np.int64, np.int64, object, np.int64, np.int64, np.int64, np.bool_)


@dataclass
class _Attempt:
    """The events of one attempt of a stage so far."""

    name: str = ""
    operators: tuple[str, ...] = ()
    submitted: int | None = None  # time in milliseconds
    completed: int | None = None
    has_failed: bool = False
    parents: tuple[int, ...] = ()
    job: int | None = None
    tasks: list[_Task] = field(default_factory=list)
    killed: list[_Task] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    reads_shuffle: bool = False
    writes: bool = False


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
    logged_jobs: dict[int, LoggedJob] = field(default_factory=dict)
    jobs_of: dict[int, list[int]] = field(default_factory=dict)  # those that name a stage
    cores: dict[str, int] = field(default_factory=dict)  # of each executor
    most_cores: tuple[int, ...] = ()  # of all executors, when there were most
    task_cores: int = 1
    plans: dict[str, tuple[str, ...]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    metrics: dict[int, str] = field(default_factory=dict)  # operators by their accumulators
    undone: dict[str, SecondShuffle] = field(default_factory=dict)  # by query
    running: dict[int, tuple[_Identity, _Task]] = field(default_factory=dict)
    succeeded: set[tuple[int, int]] = field(default_factory=set)  # stage and partition
    failed: dict[tuple[int, int], Failed] = field(default_factory=dict)

    def keep(self, n_entries: int = 1) -> None:
        """Count entries before they are kept; refuse more than memory is meant for."""
        self.kept += n_entries
        if self.kept > _MOST_KEPT:
            raise LogError(
                f"it has more than {_MOST_KEPT:,} tasks, stages, jobs, queries and operators, too "
                "many to keep in memory; of a rolled log, copy the last files into a folder"
            )

    def begin_query(self, event: Event) -> None:
        query = short(event.get("executionId"))
        self.queries[query] = short(event.get("description"))
        self.plans[query] = self.read_plan(event)

    def read_plan(self, event: Event) -> tuple[str, ...]:
        """Read the plan of a query, which adaptive execution may change later."""
        nodes = list(plan_nodes(event.get("sparkPlanInfo")))
        names = [str(node.get("nodeName") or "") for node in nodes]
        operators = different(names)
        self.keep(1 + len(operators))
        # Names of `different` are in memory once.
        once = {name: name for name in operators}
        for name, node in zip(names, nodes, strict=True):
            ids = [whole(fields(one).get("accumulatorId")) for one in items(node.get("metrics"))]
            if name in once:
                self.keep(len(ids))
                self.metrics |= dict.fromkeys(ids, once[name])
        found = second_shuffle(str(node.get("simpleString") or "") for node in nodes)
        if found is not None:
            query = short(event.get("executionId"))
            self.undone[query] = found._replace(query=self.queries.get(query, ""))
        return operators

    def begin_job(self, event: Event) -> None:
        properties = fields(event.get("Properties"))
        query = short(properties.get("spark.sql.execution.id"))
        described = short(properties.get("spark.job.description")) or self.queries.get(query, "")
        stages = [whole(stage) for stage in items(event.get("Stage IDs"))]
        self.keep(1 + len(stages))
        self.jobs |= dict.fromkeys(stages, (described, self.plans.get(query, ())))
        begun = whole(event.get("Submission Time"))
        if "Job ID" in event:
            number = whole(event["Job ID"])
            stream = short(properties.get("sql.streaming.queryId"))
            self.logged_jobs[number] = LoggedJob(number, stream, begun, _OPEN)
            for stage in stages:
                self.jobs_of.setdefault(stage, []).append(number)
        self.last = max(self.last, begun)

    def end_job(self, event: Event) -> None:
        number, ended = whole(event.get("Job ID")), whole(event.get("Completion Time"))
        if number in self.logged_jobs:
            self.logged_jobs[number] = self.logged_jobs[number]._replace(ended=ended)
        self.last = max(self.last, ended)

    def add_executor(self, event: Event) -> None:
        self.keep()
        cores = whole(fields(event.get("Executor Info")).get("Total Cores"))
        self.cores[short(event.get("Executor ID"))] = cores
        if sum(self.cores.values()) > sum(self.most_cores):
            self.most_cores = tuple(self.cores.values())

    def remove_executor(self, event: Event) -> None:
        self.cores.pop(short(event.get("Executor ID")), None)

    def read_settings(self, event: Event) -> None:
        given = str(fields(event.get("Spark Properties")).get("spark.task.cpus") or "1")
        cores = int(given) if given.isdecimal() and len(given) <= _DIGITS else 1
        self.task_cores = max(cores, 1)

    def meet_stage(self, event: Event) -> None:
        info = fields(event.get("Stage Info"))
        identity = whole(info.get("Stage ID")), whole(info.get("Stage Attempt ID"))
        attempt = self.attempts.setdefault(identity, _Attempt())
        attempt.name = short(info.get("Stage Name"))
        attempt.operators = stage_operators(info, self.metrics)
        attempt.submitted = moment(info.get("Submission Time"))
        attempt.completed = moment(info.get("Completion Time"))
        attempt.has_failed = bool(info.get("Failure Reason"))
        attempt.parents = tuple(map(whole, items(info.get("Parent IDs"))))
        self.keep(1 + len(attempt.operators) + len(attempt.parents))
        if attempt.job is None:
            attempt.job = self.job_of(identity[0])
        self.last = max(self.last, attempt.submitted or 0, attempt.completed or 0)
        if event["Event"].endswith("Completed"):
            self.ended[identity] = None

    def job_of(self, stage: int) -> int | None:
        """Return the job that a stage runs for: as in Spark, the first one that has not ended."""
        jobs = self.jobs_of.get(stage, [])
        open_jobs = (job for job in jobs if self.logged_jobs[job].ended == _OPEN)
        return next(open_jobs, jobs[-1] if jobs else None)

    def begin_task(self, event: Event) -> None:
        self.keep()
        identity, task = _task(event)
        self.running[whole(fields(event.get("Task Info")).get("Task ID"))] = identity, task
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
            attempt.reads_shuffle |= whole(shuffle.get("Total Records Read")) > 0
            output = fields(metrics.get("Output Metrics"))
            attempt.writes |= whole(output.get("Records Written")) > 0
            self.succeeded.add(place)
        elif reason.get("Reason") == "TaskKilled":  # the stage was abandoned, or a copy was faster
            attempt.killed.append(task._replace(seconds=seconds))
        elif reason.get("Reason") not in ("Resubmitted", "TaskCommitDenied"):  # it did its work
            attempt.lost.append(seconds)
            before = self.failed.get(place)
            n, longest = (before.failures, before.seconds) if before else (0, 0.0)
            self.failed[place] = Failed(*place, n + 1, max(seconds, longest), failure_text(reason))

    def unfinished(self) -> Iterable[tuple[_Identity, _Task, bool]]:
        """Return the tasks without an end, each with its attempt, and whether it was killed.

        Of several tasks for the same partition, the longest counts. If one succeeded, the others
        were copies of it and are left out.
        """
        tasks = []
        for identity, task in self.running.values():
            if identity in self.ended and not self.attempts[identity].has_failed:
                continue  # it has ended, too, and Spark lost the event
            last = max(self.last_of(identity), task.launched)
            so_far = task._replace(seconds=(last - task.launched) / 1e3, ended=last)
            tasks.append((identity, so_far, False))
        for identity, attempt in self.attempts.items():
            tasks += [(identity, task, True) for task in attempt.killed]
        longest: dict[tuple[int, int], tuple[_Identity, _Task, bool]] = {}
        for one in tasks:
            place = one[0][0], one[1].partition
            known = longest.get(place)
            if place not in self.succeeded and (known is None or known[1].seconds < one[1].seconds):
                longest[place] = one
        return longest.values()

    def last_of(self, identity: _Identity) -> int:
        """Return the end of an attempt or of its job, or that of the log if both are open."""
        attempt = self.attempts.get(identity, _Attempt())
        job = None if attempt.job is None else self.logged_jobs[attempt.job]
        return attempt.completed or (job.ended if job and job.ended != _OPEN else self.last)

    def application(self) -> Application:
        unfinished = []
        for identity, task, is_killed in self.unfinished():
            unfinished.append(Unfinished(*identity, task.partition, task.seconds, is_killed))
            self.attempts.setdefault(identity, _Attempt()).tasks.append(task)
        stages = [
            self._stage(identity, self.attempts[identity])
            for identity in dict.fromkeys([*self.ended, *self.attempts])
            if self.attempts[identity].tasks
        ]
        failed = [one for place, one in self.failed.items() if place not in self.succeeded]
        jobs = self.logged_jobs.values()
        return Application(
            self.name,
            self.spark,
            tuple(stages),
            self.complete,
            tuple(sorted(unfinished, key=lambda task: -task.seconds)),
            tuple(sorted(failed, key=lambda one: (-one.failures, one.stage, one.partition))),
            sum(job.ended == _OPEN for job in jobs),
            tuple(job._replace(ended=self.last) if job.ended == _OPEN else job for job in jobs),
            sum(cores // self.task_cores for cores in self.most_cores),
            self.task_cores,
            tuple(self.undone.values()),
        )

    def _stage(self, identity: _Identity, attempt: _Attempt) -> Stage:
        job, plan = self.jobs.get(identity[0], ("", ()))
        # A task whose copy was faster has taken time, too: its partition began with it.
        killed: dict[int, list[_Task]] = {}
        for one in attempt.killed:
            killed.setdefault(one.partition, []).append(one)
        tasks = []
        for one in attempt.tasks:
            copies = [each for each in killed.get(one.partition, ()) if each.ended > one.launched]
            first = min([one.launched, *(each.launched for each in copies)])
            tasks.append(one._replace(launched=first))
        columns = zip(zip(*tasks, strict=True), _KINDS, strict=True)
        found = Tasks(*(np.array(column, kind) for column, kind in columns))
        begin, end = attempt.submitted, attempt.completed
        if begin is None:
            begin = int(found.launched.min())
        if end is None:  # Spark may have lost the event
            is_over = identity in self.ended or self.last_of(identity) < self.last
            end = int(found.ended.max()) if is_over else self.last
        return Stage(
            *identity,
            name=attempt.name,
            job=" ".join(job.split()),
            operators=attempt.operators + WRITES[:1] * attempt.writes,
            plan=plan,
            reads_shuffle=attempt.reads_shuffle,
            seconds=max(end - begin, 0) / 1e3,
            complete=identity in self.ended and not attempt.has_failed,
            tasks=found,
            lost_seconds=tuple(attempt.lost),
            parents=attempt.parents,
            begun_by=attempt.job,
            submitted=begin,
            ended=max(begin, end),
        )


def summarise(events: Iterable[Event]) -> Application:
    """Return the stages of an application: in the order in which they ended, then the open ones."""
    met = _Met()
    meets: dict[str, Callable[[Event], object]] = {
        "SQLExecutionStart": met.begin_query,
        "SQLAdaptiveExecutionUpdate": met.read_plan,
        "JobStart": met.begin_job,
        "JobEnd": met.end_job,
        "TaskStart": met.begin_task,
        "TaskEnd": met.end_task,
        "StageSubmitted": met.meet_stage,
        "StageCompleted": met.meet_stage,
        "ExecutorAdded": met.add_executor,
        "ExecutorRemoved": met.remove_executor,
        "EnvironmentUpdate": met.read_settings,
    }
    for event in events:
        kind = event["Event"].rpartition(".")[2].removeprefix("SparkListener")
        if kind == "LogStart":
            met.spark = short(event.get("Spark Version"))
        elif kind == "ApplicationStart":
            met.name = short(event.get("App Name"))
        elif kind == "ApplicationEnd":
            met.complete = True
        elif kind in meets:
            meets[kind](event)
    return met.application()


def _task(event: Event) -> tuple[_Identity, _Task]:
    """Return the attempt that a task belongs to, and what an event says about the task."""
    info, metrics = fields(event.get("Task Info")), fields(event.get("Task Metrics"))
    shuffle = fields(metrics.get("Shuffle Read Metrics"))
    read = fields(metrics.get("Input Metrics"))
    sent = whole(shuffle.get("Remote Bytes Read")) + whole(shuffle.get("Local Bytes Read"))
    launched, ended = whole(info.get("Launch Time")), whole(info.get("Finish Time"))
    # A log may have no metrics.
    took = whole(metrics.get("Executor Run Time", max(ended - launched, 0)))
    task = _Task(
        seconds=took / 1e3,
        records=whole(shuffle.get("Total Records Read")) + whole(read.get("Records Read")),
        bytes=sent + whole(read.get("Bytes Read")),
        executor=sys.intern(short(info.get("Executor ID"))),
        partition=whole(info.get("Partition ID", info.get("Index"))),
        launched=launched,
        ended=ended,
        is_done=fields(event.get("Task End Reason")).get("Reason") == "Success",
    )
    identity = whole(event.get("Stage ID")), whole(event.get("Stage Attempt ID"))
    return identity, task
