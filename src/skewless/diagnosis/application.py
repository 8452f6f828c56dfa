"""What an event log tells about an application: its jobs, its stages, and their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints
from skewless.diagnosis.writes import SecondShuffle


class Tasks(NamedTuple):
    """The tasks of one stage that succeeded, and those that did not end, one entry each."""

    seconds: Floats  # in the executor; so far, if it did not end
    records: Ints  # read from a shuffle, or from input; 0 if it did not end
    bytes: Ints
    executors: NDArray[np.object_]  # their names
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
    lost_seconds: tuple[float, ...]  # of its tasks that failed
    parents: tuple[int, ...]  # stages whose results it reads
    begun_by: int | None  # the number of its job
    submitted: int  # in milliseconds
    ended: int


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


class LoggedJob(NamedTuple):
    """A job of an application."""

    number: int
    stream: str  # the streaming query that it belongs to, or empty
    submitted: int  # in milliseconds
    ended: int  # the end of the log, if it did not end


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
    jobs: tuple[LoggedJob, ...]  # as they began
    slots: int  # tasks that could run at the same time; 0: the log does not tell
    task_cores: int  # `spark.task.cpus`
    undone: tuple[SecondShuffle, ...] = ()  # writes that shuffle again what was routed
