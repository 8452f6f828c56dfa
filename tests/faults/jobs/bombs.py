"""Bombs: files that make a job fail at a chosen place, each exactly once.

A bomb is an empty file `<place>.<batch>.<partition>.<action>.<number>` in the folder `bombs` of a
query; `any` stands for all batches or partitions. Whatever comes by its place renames it, which
only one can, and then does what it says. An action like `raise-3` lets three pass before. Nothing
of this is known to the code under test: the bombs are laid in a strategy, an aggregator, the
results and a sink of the tests.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.aggregations import Aggregator
from skewless.spark.state.processor import KeyProcessor
from skewless.strategies.cascade import Cascade, CascadeAhead
from skewless.strategies.fish import Fish
from skewless.strategies.hash import Hash
from skewless.strategies.mixed import routing_table
from skewless.strategies.mixed.mixed import Mixed
from skewless.strategies.mixed.readj import Readj
from skewless.strategy import Moves


class BombWentOff(RuntimeError):  # noqa: N818 - it is read as a sentence
    """The failure of a task that the test asked for."""


def lay(folder: Path, *names: str) -> None:
    """Lay bombs for the query in `folder`, e.g. `route.1.any.raise`."""
    (folder / "bombs").mkdir(parents=True, exist_ok=True)
    (folder / "fired").mkdir(exist_ok=True)
    for number, name in enumerate(names):
        (folder / "bombs" / f"{name}.{number}").touch()


def not_fired(folder: Path) -> list[str]:
    """Return the bombs that nobody came by."""
    return sorted(path.name for path in (folder / "bombs").iterdir())


def pass_by(folder: str, place: str, batch: int | None = None) -> None:
    """Set off the bombs at `place`, of this task or, in the driver, of this batch."""
    if not folder:
        return
    try:
        names = sorted(path.name for path in (Path(folder) / "bombs").iterdir())
    except FileNotFoundError:
        return
    partition = "none"
    if batch is None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return
        batch = int(context.getLocalProperty("streaming.sql.batchId"))
        partition = str(context.partitionId())
    for name in names:
        at, in_batch, in_partition, _, _ = name.split(".")
        if at == place and in_batch in ("any", str(batch)) and in_partition in ("any", partition):
            _burn(Path(folder), name)
    if partition != "none":
        _note_copies(Path(folder), f"{place}.{batch}.{partition}")


def _burn(folder: Path, name: str) -> None:
    """Shorten the fuse of a bomb, or set it off; do nothing for a query whose driver is dead."""
    *begin, action, number = name.split(".")
    action, _, fuse = action.partition("-")
    driver = folder / "driver.pid"  # written by jobs, whose drivers may be killed
    if driver.exists() and not _is_alive(int(driver.read_text())):
        return
    shorter = ".".join([*begin, f"{action}-{int(fuse) - 1}", number]) if int(fuse or 0) else None
    to = folder / "bombs" / shorter if shorter else folder / "fired" / name
    try:
        (folder / "bombs" / name).rename(to)
    except FileNotFoundError:
        return  # another task was here first
    if shorter is None:
        _ACTIONS[action](folder)


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def fired(folder: Path) -> list[str]:
    """Return the bombs that went off, each with its action."""
    return sorted(path.name for path in (folder / "fired").glob("*"))


def _note_copies(folder: Path, where: str) -> None:
    """Write down that another attempt of a task came by where one waits for it.

    The one that waits may be the copy: on a busy machine it may overtake the first attempt.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    waiting = folder / f"waiting.{context.stageId()}.{context.partitionId()}"
    if waiting.exists() and waiting.read_text() != str(context.attemptNumber()):
        (folder / f"copy.{where}.{context.attemptNumber()}").touch()


def copies(folder: Path) -> list[str]:
    """Return where copies of tasks came by, as place, batch and partition."""
    return sorted({path.name[5:].rpartition(".")[0] for path in folder.glob("copy.*")})


def _wait_for_a_copy(folder: Path) -> None:
    """Wait until a copy of this task came by as well; Spark may kill this one meanwhile."""
    from pyspark import TaskContext

    context = TaskContext.get()
    where = f"{context.getLocalProperty('streaming.sql.batchId')}.{context.partitionId()}"
    waiting = folder / f"waiting.{context.stageId()}.{context.partitionId()}"
    unfinished = waiting.with_suffix(".writing")
    unfinished.write_text(str(context.attemptNumber()))
    unfinished.rename(waiting)
    give_up = time.time() + 600
    while not any(folder.glob(f"copy.*.{where}.*")):
        if time.time() > give_up:
            raise TimeoutError(f"nobody ran a copy of the task {where}")
        time.sleep(0.05)


def _note(folder: str, keys: Any, workers: Any) -> None:
    """Write down what was decided, also by attempts whose results are thrown away.

    Keys of records come from Arrow and cannot be written to. A task that makes a plan asks for the
    workers of other keys as well, and that may be another task in another run.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or not workers.size or not folder or keys.flags.writeable:
        return
    batch, partition = context.getLocalProperty("streaming.sql.batchId"), context.partitionId()
    attempt = f"{os.getpid()}.{context.taskAttemptId()}"  # numbers begin again with a new driver
    digest = hashlib.sha256(workers.tobytes()).hexdigest()
    with (Path(folder) / "decisions").open("ab", buffering=0) as notes:
        notes.write(f"{batch} {partition} {attempt} {digest}\n".encode())


def decisions(folder: Path) -> dict[tuple[int, int], dict[str, str]]:
    """Read the decisions by batch and source, and there by attempt, as digests.

    An attempt that ended early counts as the longest one, if it agrees with that as far as it went.
    """
    notes: dict[tuple[int, int], dict[str, str]] = {}
    for line in (folder / "decisions").read_text().splitlines():
        batch, partition, attempt, digest = line.split()
        attempts = notes.setdefault((int(batch), int(partition)), {})
        attempts[attempt] = attempts.get(attempt, "") + digest
    found = {}
    for task, attempts in notes.items():
        longest = max(attempts.values(), key=len)
        found[task] = {
            attempt: longest if longest.startswith(digests) else digests
            for attempt, digests in attempts.items()
        }
    return found


def _raise(folder: Path) -> None:
    raise BombWentOff("as the test asked for")


def _kill_worker(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor(folder: Path) -> None:
    """Kill the Java process whose Python worker this is: worker, its daemon, the executor."""
    executor = _parent(os.getppid())
    command = Path(f"/proc/{executor}/cmdline").read_bytes()
    if b"CoarseGrainedExecutorBackend" not in command:
        raise RuntimeError(f"process {executor} is no executor: {command!r}")
    os.kill(executor, signal.SIGKILL)


def _kill_driver(folder: Path) -> None:
    """Kill the driver's Python and its Java process; this task, if it is one, goes on alone."""
    os.killpg(int((folder / "driver.pid").read_text()), signal.SIGKILL)


def _lose_shuffle(folder: Path) -> None:
    """Delete all that map tasks have written so far: who reads it later fails to fetch."""
    local = Path((folder / "local.path").read_text())
    lost = [path for path in local.rglob("shuffle_*_*_0.*") if path.suffix in (".data", ".index")]
    for path in lost:
        path.unlink(missing_ok=True)
    (folder / "lost").write_text("\n".join(path.name for path in lost))


def _parent(process: int) -> int:
    """Return the parent of a process; the name of the command may hold blanks and brackets."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


_ACTIONS = {
    "raise": _raise,
    "kill_worker": _kill_worker,
    "kill_executor": _kill_executor,
    "kill_driver": _kill_driver,
    "lose_shuffle": _lose_shuffle,
    "wait": lambda _: time.sleep(2),
    "until_copied": _wait_for_a_copy,
}


def once(folder: Path, action: str) -> None:
    """Do this at the first call with this folder, whichever attempt of a task it is."""
    try:
        (folder / "fired").touch(exist_ok=False)
    except FileExistsError:
        return
    _ACTIONS[action](folder)


@dataclass(frozen=True)
class _Bombed:
    folder: str = ""

    def route(self, keys: Any, state: Any, out: Any) -> None:
        # Decide first: the failure then comes when the state has learned already.
        super().route(keys, state, out)  # type: ignore[misc]
        _note(self.folder, keys, out)
        pass_by(self.folder, "route")


@dataclass(frozen=True)
class BombedCascade(_Bombed, Cascade):
    """Splits keys; all sources share what they learn."""


@dataclass(frozen=True)
class BombedCascadeAhead(_Bombed, CascadeAhead):
    """Splits keys, and decides for a whole batch at once."""


@dataclass(frozen=True)
class BombedFish(_Bombed, Fish):
    """Splits keys, with epochs inside the micro-batch."""


@dataclass(frozen=True)
class BombedReadj(_Bombed, Readj):
    """Moves keys, by a table that its controller makes after each micro-batch."""


@dataclass(frozen=True)
class Dice(_Bombed, Hash):
    """What no strategy may be: it decides differently every time it is asked."""

    name: ClassVar[str] = "dice"
    n_workers: int = 8

    def route(self, keys: Any, state: Any, out: Any) -> None:
        out[:] = np.random.default_rng().integers(0, self.n_workers, out.size)
        _note(self.folder, keys, out)


@dataclass(frozen=True)
class Wanders(Mixed):
    """Moves half of the keys that it knows, at random, with every plan."""

    name: ClassVar[str] = "wanders"

    def rebalance(self, report: Any, state: Any) -> Any:
        rng = np.random.default_rng(int(report.loads.sum()) % 1000)
        moved = report.keys[rng.random(report.keys.size) < 0.5]
        targets = rng.integers(0, state.capacities.size, moved.size).astype(np.int32)
        none = np.empty(0, np.int32)
        after = routing_table.with_entries(state, moved, targets)
        return after, Moves(np.empty(0, np.uint64), none, none)


STRATEGIES = {
    "cascade": BombedCascade,
    "cascade-ahead": BombedCascadeAhead,
    "fish": BombedFish,
    "readj": BombedReadj,
    "dice": Dice,
}


class Spread(Aggregator[Any]):
    """The largest minus the smallest value, with bombs where it combines, merges and finishes."""

    inputs = ("v",)
    state = "struct<low: bigint, high: bigint>"
    result = "bigint"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def zero(self) -> Any:
        return None

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        pass_by(self.folder, "combine")
        ends = pc.min_max(records["v"])
        return self._wider(state, {"low": ends["min"].as_py(), "high": ends["max"].as_py()})

    def merge(self, a: Any, b: Any) -> Any:
        pass_by(self.folder, "merge")
        return self._wider(a, b)

    def finish(self, state: Any) -> Any:
        pass_by(self.folder, "finish")
        return None if state is None else state["high"] - state["low"]

    def _wider(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return {"low": min(a["low"], b["low"]), "high": max(a["high"], b["high"])}


class Chain(KeyProcessor):
    """Chains checksums over the records of a key: any record lost, doubled or misplaced shows."""

    state_schema = "n bigint, sum bigint"
    result_schema = "k string, n bigint, sum bigint"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        pass_by(self.folder, "update")
        n, total = (state["n"], state["sum"]) if state else (0, 0)
        rows = []
        for record in records:
            n, total = n + 1, zlib.crc32(f"{total} {record['v']}".encode())
            rows.append({"n": n, "sum": total})
        return rows, {"n": n, "sum": total}
