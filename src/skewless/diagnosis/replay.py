"""Replays an application from its event log: how long would it take on other slots?

A task takes as long as it did, from its launch to its end, and begins when a slot is free; tasks
of an earlier job come first, as with Spark's FIFO scheduler. A stage begins when the stages that it
reads from have ended. A job begins when the jobs that had ended before it did have ended again:
those of its streaming query, or all jobs if it is of none. The driver's time between these is kept
as it was. What is not replayed: tasks that slow each other down, the start of Python processes on
new slots, where the data is, executors that come and go, and that Spark may cut other partitions.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skewless.arrays import Ints
from skewless.diagnosis.application import Application, LoggedJob, Stage

#: A stage's numbers: its own, and that of its attempt.
Identity = tuple[int, int]


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


class Replay:
    """An application that can be replayed.

    Parameters
    ----------
    application
        The content of its log.

    Examples
    --------
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
        """Find out what waits for what, and how long the driver took."""
        stages = application.stages
        #: Tasks that could run at the same time, by the log, or else that did.
        self.slots = application.slots or most_at_once(stages)
        self._identities = [(stage.number, stage.attempt) for stage in stages]
        jobs = _with_lone_stages(application)
        origin = min((job.submitted for job in jobs), default=0)
        #: Seconds from the beginning of the first job to the end of the last one, by the log.
        self.measured = (max((job.ended for job in jobs), default=0) - origin) / 1e3
        # Stages, then the beginnings of jobs, then their ends.
        self._steps = [_Step() for _ in range(len(stages) + 2 * len(jobs))]
        number_of = {job.number: place for place, job in enumerate(jobs)}
        members: list[list[int]] = [[] for _ in jobs]
        self._rank: list[tuple[int, int]] = []
        for place, stage in enumerate(stages):
            job = number_of[_job_of(stage)]
            members[job].append(place)
            self._rank.append((jobs[job].number, stage.number))
        _add_stages(self._steps, stages, jobs, members, self.slots)
        _add_jobs(self._steps, jobs, len(stages), origin)

    def run(self, n_slots: int, balanced: Collection[Identity] = ()) -> Timeline:
        """Return the application on this many slots; tasks of `balanced` stages take equally long.

        Their work stays the same: each task takes the mean.
        """
        chosen = set(balanced)
        work: list[Sequence[float]] = []
        for step, identity in zip(self._steps, self._identities, strict=False):
            seconds = step.seconds
            if identity in chosen and seconds:  # the same work in equal tasks
                seconds = [sum(seconds) / len(seconds)] * len(seconds)
            work.append(seconds)
        return _Run(self._steps, work, self._rank, n_slots).timeline(self._identities)


class _Run:
    """One replay: events in the order of time, and stages that wait for slots."""

    def __init__(
        self,
        steps: Sequence[_Step],
        work: Sequence[Sequence[float]],
        rank: Sequence[tuple[int, int]],
        n_slots: int,
    ) -> None:
        self.steps, self.work, self.rank, self.free = steps, work, rank, n_slots
        self.awaited = [step.n_awaited for step in steps]
        self.next_task = [0] * len(work)
        self.running = [len(seconds) for seconds in work]
        self.begin = [0.0] * len(steps)
        self.end = [0.0] * len(steps)
        # Time, and a step: submitted (0), a task of it has ended (1), ended (2), it may launch (3).
        self.events: list[tuple[float, int, int]] = []
        self.waiting: list[tuple[tuple[int, int], int]] = []

    def timeline(self, identities: Sequence[Identity]) -> Timeline:
        """Return when each stage ran."""
        for place, step in enumerate(self.steps):
            if not step.n_awaited:
                heapq.heappush(self.events, (step.before, 0, place))
        while self.events:
            now = self.events[0][0]
            while self.events and self.events[0][0] <= now:
                self._happen(*heapq.heappop(self.events))
            self._launch(now)
        spans = zip(self.begin, self.end, strict=True)
        stages = {one: Span(*span) for one, span in zip(identities, spans, strict=False)}
        return Timeline(max(self.end, default=0.0), stages)

    def _happen(self, now: float, what: int, place: int) -> None:
        step = self.steps[place]
        if what == 0:
            self.begin[place] = now
            if place < len(self.work) and self.work[place]:
                heapq.heappush(self.events, (now + step.launching, 3, place))
            else:
                heapq.heappush(self.events, (now + step.after, 2, place))
        elif what == 1:
            self.free += 1
            self.running[place] -= 1
            if not self.running[place]:
                heapq.heappush(self.events, (now + step.after, 2, place))
        elif what == 3:
            heapq.heappush(self.waiting, (self.rank[place], place))
        else:
            self.end[place] = now
            for other in step.starts:
                self.awaited[other] -= 1
                if not self.awaited[other]:
                    heapq.heappush(self.events, (now + self.steps[other].before, 0, other))

    def _launch(self, now: float) -> None:
        while self.free and self.waiting:
            place = self.waiting[0][1]
            seconds, first = self.work[place], self.next_task[place]
            last = min(len(seconds), first + self.free)
            for one in seconds[first:last]:
                heapq.heappush(self.events, (now + one, 1, place))
            self.free -= last - first
            self.next_task[place] = last
            if last == len(seconds):
                heapq.heappop(self.waiting)


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
    steps: list[_Step],
    stages: Sequence[Stage],
    jobs: Sequence[LoggedJob],
    members: Sequence[Sequence[int]],
    n_slots: int,
) -> None:
    """Let each stage wait for its job, its parents and its attempt before; and jobs for stages."""
    nothing: Ints = np.empty(0, np.int64)
    launches = np.sort(np.concatenate([nothing, *(stage.tasks.launched for stage in stages)]))
    ends = np.sort(np.concatenate([nothing, *(stage.tasks.ended for stage in stages)]))
    for number, places in enumerate(members):
        begin, end = len(stages) + number, len(stages) + len(jobs) + number
        last = jobs[number].submitted
        attempts: dict[int, list[int]] = {}
        for place in sorted(places, key=lambda place: stages[place].attempt):
            attempts.setdefault(stages[place].number, []).append(place)
        for place in places:
            stage, step = stages[place], steps[place]
            own = attempts[stage.number]
            awaited = own[: own.index(place)][-1:]
            awaited += [one for parent in stage.parents for one in attempts.get(parent, ())]
            # A parent that ran again later is not what this attempt waited for.
            awaited = [one for one in awaited if _came_before(stages[one], stage)]
            ready = max([jobs[number].submitted, *(stages[one].ended for one in awaited)])
            tasks = stage.tasks
            launched = int(tasks.launched.min())
            n_busy = np.searchsorted(launches, stage.submitted, "right")
            n_busy -= np.searchsorted(ends, stage.submitted, "right")
            # Where a slot was free, the time until the first task is the driver's.
            step.launching = max(0, launched - stage.submitted) / 1e3 if n_busy < n_slots else 0.0
            step.before = max(0, stage.submitted - ready) / 1e3
            step.after = max(0, stage.ended - int(tasks.ended.max())) / 1e3
            order = np.argsort(tasks.launched, kind="stable")
            seconds = np.maximum(tasks.ended - tasks.launched, 0)[order] / 1e3
            step.seconds = [*seconds.tolist(), *stage.lost_seconds]
            for one in awaited or [begin]:
                _wait(steps, place, one)
            _wait(steps, end, place)
            last = max(last, stage.ended)
        _wait(steps, end, begin)
        steps[end].before = max(0, jobs[number].ended - last) / 1e3


def _came_before(one: Stage, other: Stage) -> bool:
    order = [(stage.submitted, stage.number, stage.attempt) for stage in (one, other)]
    return one.ended <= other.submitted and order[0] < order[1]


class _Ended:
    """The jobs that have ended, without those for which a later one of them waited."""

    def __init__(self, jobs: Sequence[LoggedJob]) -> None:
        self._jobs = jobs
        self._open: list[tuple[int, int]] = []  # when each ended, and its place
        self._ended: list[int] = []

    def before(self, moment: int) -> list[int]:
        """Return the places of the jobs that had ended at this moment; it must not go back."""
        jobs = self._jobs
        while self._open and self._open[0][0] <= moment:
            self._ended.append(heapq.heappop(self._open)[1])
        if self._ended:
            last = max(self._ended)
            begin = jobs[last].submitted
            self._ended = [one for one in self._ended if one == last or jobs[one].ended > begin]
        return self._ended

    def add(self, place: int) -> None:
        """Remember a job that has begun."""
        heapq.heappush(self._open, (self._jobs[place].ended, place))


def _add_jobs(steps: list[_Step], jobs: Sequence[LoggedJob], n_stages: int, origin: int) -> None:
    """Let each job wait for the jobs that had ended before it began, of its stream or of all."""
    of_all, of_streams = _Ended(jobs), {job.stream: _Ended(jobs) for job in jobs if job.stream}
    for place, job in enumerate(jobs):
        awaited = of_all.before(job.submitted)
        if job.stream:
            awaited = of_streams[job.stream].before(job.submitted) or awaited
            of_streams[job.stream].add(place)
        of_all.add(place)
        step = n_stages + place
        latest = max((jobs[one].ended for one in awaited), default=origin)
        steps[step].before = (job.submitted - latest) / 1e3
        for one in awaited:
            _wait(steps, step, n_stages + len(jobs) + one)


def _wait(steps: list[_Step], place: int, awaited: int) -> None:
    steps[place].n_awaited += 1
    steps[awaited].starts.append(place)
