"""The Spark task that runs this code: its partition, micro-batch, query and run."""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from itertools import count

from pyspark import TaskContext

_SESSION_TAG = re.compile(r"spark-session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TASKS = count(1)


@dataclass(frozen=True)
class Task:
    """A task: its partition, and its micro-batch if the query is a stream."""

    partition: int
    batch: int | None
    query: str | None
    run: str | None = None  # changes with every restart
    attempt: int | None = None  # unique among all attempts of all tasks of this application


def this_task() -> Task:
    """Read the partition, micro-batch, query, run and attempt of the task that runs this."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs inside a Spark task only")
    # Spark collects garbage after every task, and would look through all modules each time. After
    # the first task of this process, they are loaded.
    if next(_TASKS) == 2:
        gc.collect()
        gc.freeze()
    partition, attempt = context.partitionId(), context.taskAttemptId()
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if batch is None:
        return Task(partition, None, query, attempt=attempt)
    return Task(partition, int(batch), query, _run_of(context), attempt)


def _run_of(context: TaskContext) -> str | None:
    """Return the name of this run of the query; no other run has it.

    Spark does not give tasks the id of the run. But each run has its own session, and Spark tags
    all jobs of the run with that session. The job group is the id of the run too, until the user's
    `foreachBatch` sets another group.
    """
    tags = (context.getLocalProperty("spark.job.tags") or "").split(",")
    sessions = [tag for tag in tags if _SESSION_TAG.fullmatch(tag)]
    return min(sessions) if sessions else context.getLocalProperty("spark.jobGroup.id")
