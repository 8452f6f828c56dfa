"""Test support: folders in which something happens at a chosen file operation.

Tasks are threads of which one runs at a time. So a task can stop at any file operation, and go on
when its run is long abandoned.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from skewless.spark.ledger.folder import RemoteFolder
from skewless.spark.ledger.local_folder import LocalFolder

#: What can happen at a file operation.
DRIVER_DIES, TASK_DIES, DISK_IS_FULL, TASK_IS_LATE = KINDS = (
    "the driver dies",
    "a task dies",
    "the disk is full",
    "a task is late",
)


class DriverDied(BaseException):
    """The driver ends here, with all tasks that are not late."""


class TaskDied(BaseException):
    """A task ends here; Spark starts another attempt."""


class Task(threading.Thread):
    """A task that runs until it ends, or until it stops in the middle because it is late."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_ended = self.is_given_up = False
        self._turn, self._told = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        self._turn.acquire()
        try:
            self.result = self.work()
        except BaseException as error:  # who started the task looks at it
            self.error = error
        self.has_ended = True
        self._told.release()

    def go(self) -> bool:
        """Let the task run; return whether it has ended."""
        if not self.is_alive():
            self.start()
        self._turn.release()
        self._told.acquire()
        return self.has_ended

    def stop(self) -> None:
        """Stop here, in the task's own thread, until `go` is called again."""
        self._told.release()
        self._turn.acquire()
        if self.is_given_up:
            raise TaskDied


class Faults:
    """Counts file operations, and lets something happen at one of them."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.calm()

    def calm(self) -> None:
        """Let nothing happen."""
        self.left, self.kind, self.n_full, self.happened = 0, "", 0, ""

    def lay(self, kind: str, after: int, n_full: int = 1) -> None:
        """Let `kind` happen after so many operations; a full disk fails `n_full` writes."""
        self.left, self.kind, self.n_full, self.happened = after, kind, n_full, ""

    def at(self, name: str, *, writes: bool = False) -> None:
        """Be called at each file operation."""
        if self.left > 1 or not self.kind:
            self.left -= 1
            return
        kind = self.kind
        if kind == DISK_IS_FULL:
            if writes:
                self.n_full -= 1
                self._over(name, ends=self.n_full <= 0)
                raise OSError(errno.ENOSPC, "No space left on device")
            return
        self._over(name)
        if kind == DRIVER_DIES:
            raise DriverDied
        if kind == TASK_DIES:
            raise TaskDied
        assert self.task is not None
        self.task.stop()

    def _over(self, name: str, *, ends: bool = True) -> None:
        self.happened = f"{self.kind} at {name}"
        if ends:
            self.kind = ""


def _disturbed(cls: Any) -> Any:
    """Let something happen before and after each operation of a folder."""
    for operation in ("read", "create", "overwrite", "files", "folders", "delete", "delete_folder"):
        setattr(cls, operation, _around(operation, getattr(cls, operation)))
    return cls


def _around(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    writes = operation in ("create", "overwrite")

    @functools.wraps(method)
    def around(self: Any, name: str, *data: Any) -> Any:
        self.faults.at(f"{operation} {name}: before", writes=writes)
        found = method(self, name, *data)
        self.faults.at(f"{operation} {name}: after")
        return found

    return around


@_disturbed
class Disk(LocalFolder):
    """A local disk; something may also happen between the temporary file and its last name."""

    def __init__(self, root: Path, faults: Faults) -> None:
        super().__init__(root)
        self.faults = faults

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[Path]:
        left_over: Path | None = None
        try:
            with super()._written(name, data) as path:
                try:
                    self.faults.at(f"{name}: written, not named", writes=True)
                except (DriverDied, TaskDied):
                    left_over = path  # a process that is killed deletes nothing
                    raise
                yield path
        finally:
            if left_over is not None:
                left_over.write_bytes(data[: len(data) // 2])


@_disturbed
class ObjectStore:
    """Like S3, in memory: an object is there when its upload is complete, and the last one wins."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.objects: dict[str, bytes] = {}

    create = RemoteFolder.create  # reads, uploads, and reads what all others will read

    def read(self, name: str, last: int | None = None) -> bytes | None:
        data = self.objects.get(name)
        return data if last is None or data is None else data[-last:]

    def overwrite(self, name: str, data: bytes) -> None:
        self.objects[name] = bytes(data)

    def files(self, under: str) -> list[str]:
        start = f"{under}/".lstrip("/")
        names = (name for name in self.objects if name.startswith(start))
        return sorted(name for name in names if "/" not in name[len(start) :])

    def folders(self, under: str) -> list[str]:
        start = f"{under}/".lstrip("/")
        rests = [name[len(start) :] for name in self.objects if name.startswith(start)]
        return sorted({start + rest.split("/")[0] for rest in rests if "/" in rest})

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    def delete_folder(self, name: str) -> None:
        for one in [one for one in self.objects if one.startswith(f"{name}/")]:
            del self.objects[one]

    def seconds_since_written(self, name: str) -> float:
        return 0.0
