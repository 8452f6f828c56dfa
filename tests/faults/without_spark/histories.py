"""Test support: a random history of one query, without Spark.

Spark's part is small and explicit: `Progress` is a checkpoint and the output of its sink, a `Run`
is a query between two starts, and `History.batch` is what Spark does in a micro-batch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from faults.without_spark.disturbed_folders import (
    DISK_IS_FULL,
    KINDS,
    Disk,
    DriverDied,
    Faults,
    ObjectStore,
    Task,
    TaskDied,
)
from faults.without_spark.operators import OPERATORS, stream
from faults.without_spark.progress import Progress, Run
from skewless.spark import scale_to
from skewless.spark.ledger import Ledger, LedgerCorrupt, LedgerMismatch
from skewless.spark.ledger import folder as ledger_folder
from skewless.spark.state.savepoint import needed_files
from skewless.spark.state.versions import version_files
from skewless.spark.state.versions.bases import StateIncomplete
from spark.state.chains import random_moves
from spark.state.operators.stepping import rows_of
from spark.state.without_spark import SEED, Offsets

_RECORDS = 150
_ATTEMPTS = 4  # of a task, as Spark makes by default
#: How a query may refuse to go on. A damaged file is none of it: nothing here damages files.
REFUSALS = (LedgerMismatch, StateIncomplete)


class History:
    """What happens to one query; `play` returns whether it was refused.

    Copies of the checkpoint are restored in any order, and a run that another one has replaced may
    go on. If tasks do not find the checkpoint, a restart may be refused, until the user says where
    it is.

    Parameters
    ----------
    operator, seed
        They decide everything.
    folder
        For the ledger, if that is on a disk.
    """

    def __init__(self, operator: str, seed: int, folder: Path) -> None:
        self.chance = random.Random(f"{operator} {seed}")
        self.operator = OPERATORS[operator]
        self.is_found = self.happens(0.7)  # the checkpoint, by tasks
        self.stream = stream(_RECORDS, self.chance)
        self.faults = Faults()
        self.is_disk = seed % 2 == 0
        self.address = str(folder) if self.is_disk else f"mock://{operator}-{seed}-{id(self)}"
        self.files = Disk(folder, self.faults) if self.is_disk else ObjectStore(self.faults)
        self.progress = Progress()
        self.copies: list[Progress] = []
        self.left: list[tuple[Progress, Run]] = []  # runs that were replaced and may go on
        self.late: list[Task] = []
        self.told = ["on a disk" if self.is_disk else "without an atomic create"]
        self.told += ["with its checkpoint" if self.is_found else "without its checkpoint"]
        self.n_runs = self.n_attempts = self.n_stamps = 0
        self.oldest = 0  # the first micro-batch that every purge so far left repeatable
        self.sink_skips = self.happens(0.5)  # a micro-batch that it has, as Spark's file sink does
        self.is_repeated = False
        self.before: list[Any] = []  # records whose states the query begins with
        self.run = self.new_run()
        if not self.operator.has_time and self.happens(0.5):
            self.before, self.stream = self.stream[:40], self.stream[40:]
            self.tell("the query begins with states")

    def play(self) -> bool:
        """Run the query to the end of the stream, whatever happens, and compare its results."""
        opened, ledger_folder._open = ledger_folder._open, lambda *_: self.files  # type: ignore
        try:
            if self.before:
                self.begin()
            while self.progress.offsets[-1:] != (len(self.stream),) or self.is_pending:
                self.between()
                try:
                    self.batch()
                except DriverDied:
                    self.tell(f"the run ends: {self.faults.happened or 'the driver dies'}")
                    self.run = self.new_run()
                except REFUSALS as error:
                    if not self.repaired(error):
                        return True
            self.compare()
        except Exception as error:
            error.add_note("\n".join(self.told[-40:]))
            raise
        finally:
            ledger_folder._open = opened
            self.faults.calm()
            for task in self.late:
                task.is_given_up = True
                task.go()
        return False

    def begin(self) -> None:
        """Let the query begin with the states of another one; the driver may die meanwhile."""
        files, self.files = self.files, ObjectStore(Faults())
        other = self.query(Run("other", {"workers": 3, "most": 3}), {})
        other.step(0, self.operator.table(self.before))
        states = other.states()
        self.files = files
        for attempt in range(5):
            self.faults.calm()
            if attempt < 4:
                self.faults.lay(self.chance.choice(KINDS[:3]), self.chance.randint(1, 40))
            task = self.faults.task = Task(
                lambda n=attempt: self.query(self.run, {}).begin_with(states, f"initial-{n}")
            )
            assert task.go()
            if task.error is not None and not self.is_a_fault(task.error):
                raise task.error
            self.tell(f"initial states: {self.faults.happened}")
            if task.error is not None:
                self.run = self.new_run()
            elif self.happens(0.7):
                return  # otherwise they are written once more, before the first micro-batch

    @property
    def is_pending(self) -> bool:
        """Whether the last micro-batch has an offset and no commit."""
        return len(self.progress.offsets) > self.progress.commits

    def tell(self, text: str) -> None:
        self.told.append(f"[{self.progress.commits}] {text}")

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    def new_run(self) -> Run:
        """Return a run with a new name, maybe with other settings than the one before."""
        chance, first = self.chance, self.n_runs == 0
        version_files._fetched.clear()  # other processes
        most = chance.randint(2, 5)
        settings = {
            "strategy": chance.choice(["hash", "mixed", random_moves(chance.randrange(9))]),
            "most": most,
            "workers": chance.randint(1, most) if first or self.happens(0.3) else None,
            "kept": chance.randint(1, 5),
            "interval": chance.choice([1, 1, 2]),
        }
        chance.choice([1, 3])  # a setting once: so histories that failed are played as they were
        settings["purge_every"] = chance.choice([1, 1, 3])
        self.faults.calm()
        run = Run(f"run-{self.n_runs}", settings)
        self.n_runs += 1
        self.tell(f"{run.name} with {settings}")
        return run

    def between(self) -> None:
        """Let happen what happens between two micro-batches, and lay the next fault."""
        chance = self.chance
        if self.happens(0.4):
            self.copies.append(self.progress)
        if self.happens(0.1):
            self.run = self.new_run()
        if self.copies and self.happens(0.15):
            self.restore(chance.choice(self.copies[-4:]))
        if self.left and self.happens(0.2):
            self.go_on()
        if self.progress.commits and self.happens(0.05):
            self.go_on_from_a_savepoint()
        while self.late and self.happens(0.3):
            self.resume()
        self.faults.calm()
        if self.happens(0.7):
            self.faults.lay(chance.choice(KINDS), chance.randint(1, 150), chance.randint(1, 6))
        if self.happens(0.2):
            self.scale(chance.randint(1, 5))

    def restore(self, copy: Progress) -> None:
        """Restore a copy of the checkpoint, with the sink's output of that time."""
        self.tell(f"the copy before {copy.commits} is restored: {copy.offsets}")
        while copy.commits < self.oldest and self.late:
            self.resume()  # it may purge what only a copy as old as this one needs
        self.copies.append(self.progress)
        self.left.append((self.progress, self.run))
        self.progress = copy
        self.run = self.new_run()

    def go_on(self) -> None:
        """Let a run go on that another run has replaced, as a driver that was cut off may do."""
        self.left.append((self.progress, self.run))
        self.progress, self.run = self.left.pop(self.chance.randrange(len(self.left)))
        self.tell(f"{self.run.name} goes on")

    def go_on_from_a_savepoint(self) -> None:
        """Let a copy of the ledger go on that has only what the checkpoint's last commit needs."""
        self.faults.calm()
        last = self.progress.commits - 1
        ledger, stamps = Ledger(self.address), dict(enumerate(self.progress.stamps))
        try:
            needed = {*needed_files(ledger, Offsets(stamps), last)}
        except REFUSALS as error:
            self.tell(f"no savepoint: {error}")
            return
        copied = {name: self.files.read(name) for name in needed}
        for folder in ("", *self.files.folders("state"), "runs", "scale"):
            for inner in (folder, *(self.files.folders(folder) if folder else ())):
                for name in self.files.files(inner):
                    self.files.delete(name)
        for name, data in copied.items():
            self.files.overwrite(name, data)
        for task in self.late:
            task.is_given_up = True
            task.go()
        self.late, self.copies, self.left = [], [], []
        kept = last + 1
        offsets, stamps_kept = self.progress.offsets[:kept], self.progress.stamps[:kept]
        self.progress = Progress(offsets, stamps_kept, kept, self.progress.sink[:kept])
        self.oldest = kept
        self.tell("a savepoint goes on")
        self.run = self.new_run()

    def repaired(self, error: Exception) -> bool:
        """Do what the documents say after a refusal; return False where the history ends."""
        self.tell(f"refused: {error}")
        before = self.progress.commits - 1
        # On a store without an atomic create, a late task may replace the plan.
        is_replaced = "was replaced" in str(error)
        if "a newer run" in str(error):
            pass  # the query is started again
        elif "does not find the checkpoint" in str(error) and not self.is_found:
            self.is_found = True  # the user says where it is
        elif is_replaced or (self.progress.sink[before:] and self.progress.sink[before] is None):
            self.progress = self.progress.back_to(before)
        elif self.progress.commits < self.oldest:  # its states are purged: give up this timeline
            others = [*self.copies, *(progress for progress, _ in self.left)]
            others = [one for one in others if one.commits >= self.oldest]
            if not others:
                return False
            self.progress = others[-1]
        else:
            raise error
        self.run = self.new_run()
        return True

    def scale(self, n_workers: int) -> None:
        """Let a user ask for another number of workers; the user's process may die or be late."""

        def ask() -> None:
            try:
                scale_to(self.address, n_workers)
            except ValueError as error:  # both are errors of the user
                if not re.search("holds no plan yet|n must be at most", str(error)):
                    raise

        task = self.faults.task = Task(ask)
        if not task.go():
            self.late.append(task)
        elif task.error is not None and not self.is_a_fault(task.error):
            raise task.error
        self.tell(f"{n_workers} workers are asked for: {self.faults.happened}")

    def resume(self) -> None:
        """Let a late task go on to its end; its run may be over, and its folder purged."""
        task = self.late.pop(self.chance.randrange(len(self.late)))
        self.faults.calm()
        self.tell("a late task goes on")
        self.faults.task = task
        assert task.go()
        expected = (*REFUSALS, LedgerCorrupt, FileNotFoundError)
        if task.error is not None and not isinstance(task.error, expected):
            raise task.error

    def batch(self) -> None:
        """Do what Spark does in a micro-batch: offset, evaluation by the sink, commit."""
        chance, progress = self.chance, self.progress
        batch = progress.commits
        self.is_repeated = self.is_pending
        if not self.is_pending:
            begin = progress.offsets[-1] if batch else 0
            end = min(len(self.stream), begin + chance.choice([0, *range(5, 40)]))
            self.n_stamps += 1
            offsets, stamps = (*progress.offsets, end), (*progress.stamps, self.n_stamps)
            self.progress = progress = replace(progress, offsets=offsets, stamps=stamps)
        if self.sink_skips and len(progress.sink) > batch:
            self.tell("the sink has the micro-batch, and skips it")
        else:
            rows = self.evaluated(batch)
            self.progress = self.progress.with_rows(batch, rows)
        if self.happens(0.1):
            raise DriverDied
        self.progress = replace(self.progress, commits=batch + 1)

    def evaluated(self, batch: int) -> Any:
        """Return the rows of a micro-batch, or None if the sink does not evaluate all of it."""
        run, what = self.run, self.chance.random()
        # A sink that notes a micro-batch before it writes it skips the one that is repeated.
        if what < (0.1 if self.is_repeated else 0.03):
            self.tell("the sink does not evaluate the micro-batch")
            return None
        table = self.operator.table(self.stream[self.progress.cut(batch)])
        stamps = dict(enumerate(self.progress.stamps))
        seen = stamps if self.is_found else {batch: stamps[batch]}
        parts = self.task(lambda: self.routed(run, batch, seen, table))
        workers = list(range(len(parts)))
        self.chance.shuffle(workers)
        if what < 0.06:
            workers = workers[: len(workers) // 2]
            self.tell(f"the sink evaluates only {workers}")
        found = []
        for _ in range(2 if what > 0.95 else 1):
            found = [
                self.task(self.working(run, batch, seen, worker, parts[worker]))
                for worker in workers
            ]
        return rows_of(pa.concat_tables(found)) if len(workers) == len(parts) else None

    def query(self, run: Run, seen: dict[int, int]) -> Any:
        settings = {**run.settings, "checkpoint": seen}
        return self.operator.query(self.address, run=run.name, **settings)

    def routed(self, run: Run, batch: int, seen: dict[int, int], table: pa.Table) -> list[pa.Table]:
        """Publish the plan and purge; return the records of each worker, as the JVM sends them."""
        self.oldest = max(self.oldest, batch - run.settings["kept"])
        query = self.query(run, seen)
        return query.parts(batch, query.plan(batch), table)

    def working(
        self, run: Run, batch: int, seen: dict[int, int], worker: int, part: pa.Table
    ) -> Callable[[], Any]:
        """Run the task of a worker, in any of its attempts."""

        def work() -> pa.Table:
            attempt = self.n_attempts = self.n_attempts + 1
            query = self.query(run, seen)
            plan = query.tasks.controller.published(query.ledger, batch, SEED)
            return query.tasks.step(query.ledger, plan, batch, worker, part, attempt)

        return work

    def task(self, work: Callable[[], Any]) -> Any:
        """Return the result of a task, after as many attempts as Spark makes."""
        for _ in range(_ATTEMPTS):
            task = self.faults.task = Task(work)
            if not task.go():
                self.tell(self.faults.happened)
                self.late.append(task)
                if self.happens(0.5):
                    raise DriverDied
            elif task.error is None:
                return task.result
            elif isinstance(task.error, DriverDied) or not self.is_a_fault(task.error):
                raise task.error
            else:
                self.tell(self.faults.happened)
        raise DriverDied

    def is_a_fault(self, error: BaseException | None) -> bool:
        """Return whether an error is one that this history has laid."""
        is_full = isinstance(error, OSError) and self.faults.happened.startswith(DISK_IS_FULL)
        return is_full or isinstance(error, DriverDied | TaskDied)

    def compare(self) -> None:
        """Compare what the sink has of each micro-batch with plain Python."""
        cuts = [self.stream[self.progress.cut(b)] for b in range(self.progress.commits)]
        wanted = (
            self.operator.wanted([self.before, *cuts])[1:]
            if self.before
            else self.operator.wanted(cuts)
        )
        for batch, (found, rows) in enumerate(zip(self.progress.sink, wanted, strict=True)):
            if found is not None and found != rows:
                lost = [row for row in rows if row not in found]
                extra = [row for row in found if row not in rows]
                raise AssertionError(
                    f"micro-batch {batch}: {len(found)} rows, not {len(rows)}; "
                    f"lost {lost[:3]}, wrong {extra[:3]}"
                )
