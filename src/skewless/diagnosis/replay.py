"""Replays an application from its event log: how long would it take on other slots?

A task takes as long as it did, from its launch to its end, and begins when a slot is free; tasks
of an earlier job come first, as with Spark's FIFO scheduler. A stage begins when the stages that it
reads from have ended, and a repeated one when what failed has ended. A job begins when the jobs
that had ended before it did have ended again: those of its streaming query, or all jobs if it is of
none. The driver's time between these is kept as it was. What is not replayed: tasks that slow each
other down, the start of Python processes on new slots, where the data is, executors that come and
go, that Spark may cut other partitions, and that a stream waits less for its trigger if its
micro-batches take longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skewless.arrays import Ints
from skewless.diagnosis.application import Application, LoggedJob, Stage

if TYPE_CHECKING:
    from skewless.diagnosis.stragglers import Straggler

#: A stage's numbers: its own, and that of its attempt.
Identity = tuple[int, int]
#: What makes a task slow that even tasks would not be: not a slow machine.
_CAN_BE_BALANCED = ("records", "input", "cost")
# What happens in a replay, in this order if it is at the same time.
_BEGINS, _TASK_ENDS, _ENDS, _MAY_LAUNCH = range(4)


class Span(NamedTuple):
    """From a stage's submission to its end, in seconds from the beginning of the first job."""

    begin: float
    end: float


class Timeline(NamedTuple):
    """A replayed application."""

    seconds: float  # from the beginning of the first job to the end of the last one
    stages: dict[Identity, Span]


@dataclass
class _Step:
    """A stage or a job: what it waits for, the driver's time before and after its work."""

    before: float = 0.0
    launching: float = 0.0  # between its submission and its first task, with a slot free
    after: float = 0.0
    n_awaited: int = 0
    starts: list[int] = field(default_factory=list)  # steps that wait for this one
    seconds: Sequence[float] = ()  # of its tasks, in the order of their launch
    rank: tuple[int, int] = (0, 0)  # its tasks come before those of stages with a higher one


class Replay:
    """An application that can be replayed.

    >>> from skewless.diagnosis.stages import summarise
    >>> about = {"Stage ID": 0, "Task End Reason": {"Reason": "Success"}}
    >>> tasks = [
    ...     {"Event": "TaskEnd", "Task Info": {"Index": n, "Finish Time": 1000 * seconds}, **about}
    ...     for n, seconds in enumerate([4, 1, 1, 1, 1])
    ... ]
    >>> replay = Replay(summarise(tasks))
    >>> replay.run(2).seconds, replay.run(8).seconds, replay.run(8, balanced=[(0, 0)]).seconds
    (4.0, 4.0, 1.6)
    """

    def __init__(self, application: Application) -> None:
        stages, jobs = application.stages, _with_lone_stages(application)
        #: Tasks that could run at the same time, by the log, or else that did.
        self.slots, at_once = application.slots, most_at_once(stages)
        # A log without its first files does not tell of all executors. A slot may have its next
        # task before the end of the last one is noted, so twice the slots are no contradiction.
        if at_once > 2 * self.slots:
            self.slots = at_once
        self._identities = [(stage.number, stage.attempt) for stage in stages]
        origin = min((job.submitted for job in jobs), default=0)
        #: Seconds from the beginning of the first job to the end of the last one, by the log.
        self.measured = (max((job.ended for job in jobs), default=0) - origin) / 1e3
        # Stages, then the beginnings of jobs, then their ends.
        self._steps = [_Step() for _ in range(len(stages) + 2 * len(jobs))]
        _add_stages(self._steps, stages, jobs, self.slots)
        _add_jobs(self._steps, jobs, len(stages), origin)

    def run(self, n_slots: int, balanced: Collection[Identity] = ()) -> Timeline:
        """Return the application on this many slots; tasks of `balanced` stages take equally long.

        Their work stays the same: each task takes the mean.
        """
        steps, chosen, free = self._steps, set(balanced), n_slots
        even = {place for place, one in enumerate(self._identities) if one in chosen}
        awaited = [step.n_awaited for step in steps]
        running = [len(step.seconds) for step in steps]
        begin, end = [0.0] * len(steps), [0.0] * len(steps)
        # Time, what happens, and with which step.
        events = [(one.before, _BEGINS, at) for at, one in enumerate(steps) if not one.n_awaited]
        heapq.heapify(events)
        waiting: list[tuple[tuple[int, int], int, int, float]] = []  # tasks
        while events:
            now = events[0][0]
            while events and events[0][0] <= now:
                _, what, place = heapq.heappop(events)
                step = steps[place]
                if what == _BEGINS:
                    begin[place] = now
                    if running[place]:
                        heapq.heappush(events, (now + step.launching, _MAY_LAUNCH, place))
                    else:
                        heapq.heappush(events, (now + step.after, _ENDS, place))
                elif what == _MAY_LAUNCH:
                    mean = sum(step.seconds) / len(step.seconds)
                    for number, seconds in enumerate(step.seconds):
                        task = mean if place in even else seconds
                        heapq.heappush(waiting, (step.rank, place, number, task))
                elif what == _TASK_ENDS:
                    free += 1
                    running[place] -= 1
                    if not running[place]:
                        heapq.heappush(events, (now + step.after, _ENDS, place))
                else:
                    end[place] = now
                    for other in step.starts:
                        awaited[other] -= 1
                        if not awaited[other]:
                            heapq.heappush(events, (now + steps[other].before, _BEGINS, other))
            while free and waiting:
                _, place, _, seconds = heapq.heappop(waiting)
                heapq.heappush(events, (now + seconds, _TASK_ENDS, place))
                free -= 1
        spans = map(Span, begin, end)
        stages = dict(zip(self._identities, spans, strict=False))
        return Timeline(max(end, default=0.0), stages)


def most_at_once(stages: Sequence[Stage]) -> int:
    """Return the most tasks that ran at the same time: an estimate of the slots."""
    if not stages:
        return 1
    launched = np.concatenate([stage.tasks.launched for stage in stages])
    ended = np.concatenate([stage.tasks.ended for stage in stages])
    times = np.concatenate([launched, np.maximum(ended, launched)])
    steps = np.repeat([1, -1], launched.size)
    # By time; at equal times, ends come first: a slot is used again at once.
    in_order = np.lexsort((steps, times))
    return max(1, int(np.cumsum(steps[in_order]).max()))


def _job_of(stage: Stage) -> int:
    """Return the number of a stage's job; one without a job is a job of its own."""
    return -1 - stage.number if stage.begun_by is None else stage.begun_by


def _with_lone_stages(application: Application) -> list[LoggedJob]:
    """Return the jobs in the order of their beginning, and one for each stage without a job."""
    jobs = {job.number: job for job in application.jobs}
    for stage in application.stages:
        if stage.begun_by is None:
            begin, end = stage.submitted, stage.ended
            known = jobs.get(_job_of(stage))
            if known is not None:  # an earlier attempt
                begin, end = min(begin, known.submitted), max(end, known.ended)
            jobs[_job_of(stage)] = LoggedJob(_job_of(stage), "", begin, end)
    return sorted(jobs.values(), key=lambda job: (job.submitted, job.number))


def _add_stages(
    steps: list[_Step], stages: Sequence[Stage], jobs: Sequence[LoggedJob], n_slots: int
) -> None:
    """Let each stage wait for its job, its parents and its attempt before; and jobs for stages."""
    nothing: Ints = np.empty(0, np.int64)
    launches = np.sort(np.concatenate([nothing, *(stage.tasks.launched for stage in stages)]))
    ends = np.sort(np.concatenate([nothing, *(stage.tasks.ended for stage in stages)]))
    place_of = {job.number: place for place, job in enumerate(jobs)}
    last = [job.submitted for job in jobs]
    attempts: dict[int, list[int]] = {}  # by the number of the stage, which jobs may share
    failed: dict[int, list[int]] = {}  # by the number of the job
    for place in sorted(range(len(stages)), key=lambda place: stages[place].attempt):
        number = _job_of(stages[place])
        steps[place].rank = number, stages[place].number
        attempts.setdefault(stages[place].number, []).append(place)
        if not stages[place].complete:
            failed.setdefault(number, []).append(place)
    for place, stage in enumerate(stages):
        step, tasks, job = steps[place], stage.tasks, place_of[_job_of(stage)]
        own = attempts[stage.number]
        awaited = own[: own.index(place)][-1:]
        for parent in stage.parents:
            awaited += attempts.get(parent, ())
        if awaited and stage.attempt:  # it runs again because of what failed
            awaited = [*dict.fromkeys(awaited + failed.get(step.rank[0], []))]
        # A parent that ran again later is not what this attempt waited for. One of another job had
        # begun with that job, or the log is wrong.
        awaited = [
            one
            for one in awaited
            if _came_before(stages[one], stage)
            and (
                _job_of(stages[one]) == step.rank[0]
                or jobs[place_of[_job_of(stages[one])]].submitted
                <= stage.submitted
                < jobs[job].ended
            )
        ]
        ready = max([jobs[job].submitted, *(stages[one].ended for one in awaited)])
        n_busy = np.searchsorted(launches, stage.submitted, "right")
        n_busy -= np.searchsorted(ends, stage.submitted, "right")
        if n_busy < n_slots:
            # The driver's time ends with the next launch. If that is a task of another stage, this
            # one waits for a slot.
            first = launches[np.searchsorted(launches, stage.submitted) :][:1]
            first = min([tasks.launched.min(), *first])
            step.launching = max(0, int(first) - stage.submitted) / 1e3
        step.before = max(0, stage.submitted - ready) / 1e3
        step.after = max(0, stage.ended - int(tasks.ended.max())) / 1e3
        order = np.argsort(tasks.launched, kind="stable")
        seconds = np.maximum(tasks.ended - tasks.launched, 0)[order] / 1e3
        step.seconds = [*seconds.tolist(), *stage.lost_seconds]
        for one in (len(stages) + job, *awaited):
            _wait(steps, place, one)
        _wait(steps, len(stages) + len(jobs) + job, place)
        last[job] = max(last[job], stage.ended)
    for job, logged in enumerate(jobs):
        begin, end = len(stages) + job, len(stages) + len(jobs) + job
        _wait(steps, end, begin)
        steps[end].before = max(0, logged.ended - last[job]) / 1e3


def _came_before(one: Stage, other: Stage) -> bool:
    order = [(stage.submitted, stage.number, stage.attempt) for stage in (one, other)]
    return one.ended <= other.submitted and order[0] < order[1]


def _add_jobs(steps: list[_Step], jobs: Sequence[LoggedJob], n_stages: int, origin: int) -> None:
    """Let each job wait for the jobs that had ended before it began, of its stream or of all."""
    begun: dict[str, list[int]] = {name: [] for name in ("", *(job.stream for job in jobs))}
    for_all: set[int] = set()  # those that waited for all
    for place, job in enumerate(jobs):
        awaited = _ended_before(job.submitted, begun[job.stream], jobs) if job.stream else []
        if not awaited:
            awaited = _ended_before(job.submitted, begun[""], jobs, for_all)
            for_all.add(place)
        for name in {"", job.stream}:
            begun[name].append(place)
        step = n_stages + place
        latest = max((jobs[one].ended for one in awaited), default=origin)
        steps[step].before = (job.submitted - latest) / 1e3
        for one in awaited:
            _wait(steps, step, n_stages + len(jobs) + one)


def _ended_before(
    moment: int, begun: list[int], jobs: Sequence[LoggedJob], waited: set[int] | None = None
) -> list[int]:
    """Return the jobs that had ended; forget those for which a later one of them waited.

    Only those of `waited` waited for the others, if it is given.
    """
    ended = [one for one in begun if jobs[one].ended <= moment]
    last = max((one for one in ended if waited is None or one in waited), default=None)
    if last is not None:
        begun[:] = [one for one in begun if one == last or jobs[one].ended > jobs[last].submitted]
    return [one for one in begun if jobs[one].ended <= moment]


def _wait(steps: list[_Step], place: int, awaited: int) -> None:
    steps[place].n_awaited += 1
    steps[awaited].starts.append(place)


@dataclass(frozen=True)
class StageWhatIf:
    """One attempt of a stage, as logged and as replayed."""

    stage: int
    attempt: int
    tasks: int
    what: str  # its operators, or its name
    logged_seconds: float  # from its submission to its end, as everywhere here
    seconds: float
    balanced_seconds: float | None  # without stragglers; None: it has none
    begin: float

    @property
    def straggler_seconds(self) -> float:
        """What its straggler costs; nothing if even tasks fill the slots worse."""
        balanced = self.seconds if self.balanced_seconds is None else self.balanced_seconds
        return max(0.0, self.seconds - balanced)


@dataclass(frozen=True)
class WhatIf:
    """An application replayed on some slots: as it is, and with even tasks in skewed stages."""

    slots: int
    seconds: float  # from the beginning of the first job to the end of the last one
    balanced_seconds: float
    measured_seconds: float | None  # by the log, if these are its slots
    stages: tuple[StageWhatIf, ...]

    @property
    def straggler_seconds(self) -> float:
        """What the stragglers cost."""
        return max(0.0, self.seconds - self.balanced_seconds)

    @property
    def error(self) -> float | None:
        """By which part of the measured time the replay is too long, if that is known."""
        if not self.measured_seconds:
            return None
        return self.seconds / self.measured_seconds - 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        told = asdict(self) | {"straggler_seconds": self.straggler_seconds, "error": self.error}
        for one, stage in zip(told["stages"], self.stages, strict=True):
            one["straggler_seconds"] = stage.straggler_seconds
        if self.measured_seconds is None:
            del told["measured_seconds"], told["error"]
        return {"kind": "what-if"} | told


def what_if(
    application: Application, stragglers: Sequence[Straggler], slots: int | None
) -> list[WhatIf]:
    """Replay an application on the slots of its log, and on these if they are others."""
    replay = Replay(application)
    skewed = [(one.stage, one.attempt) for one in stragglers if one.cause in _CAN_BE_BALANCED]
    found = []
    for n_slots in dict.fromkeys([replay.slots, replay.slots if slots is None else slots]):
        as_is = replay.run(n_slots)
        balanced = replay.run(n_slots, skewed) if skewed else as_is
        stages = []
        for stage in application.stages:
            identity = stage.number, stage.attempt
            own, even = as_is.stages[identity], balanced.stages[identity]
            stages.append(
                StageWhatIf(
                    *identity,
                    tasks=int(stage.tasks.seconds.size),
                    what=", ".join(stage.operators) or stage.name,
                    logged_seconds=stage.seconds,
                    seconds=own.end - own.begin,
                    balanced_seconds=even.end - even.begin if identity in skewed else None,
                    begin=own.begin,
                )
            )
        measured = replay.measured if n_slots == replay.slots else None
        found.append(WhatIf(n_slots, as_is.seconds, balanced.seconds, measured, tuple(stages)))
    return found
