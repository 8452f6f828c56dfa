"""The killer: kills parts of a running job by chance, and starts it again until all is done.

Tasks, Python workers and executors die by bombs with fuses of random length. The driver dies by
such a bomb, or a random time after one of its files has appeared. Every driver gets other cores
and another number of shuffle partitions than the one before. A seed repeats all choices; only the
moment at which a driver dies from outside depends on the machine.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.jobs.bombs import fired, lay
from faults.jobs.cluster import EXECUTORS
from faults.jobs.starting import N_BATCHES, Job, appeared, query

#: Every way of merging, with and without windows and a ledger, by splitting and moving strategies;
#: and keyed state, of a processor whose results do not merge and of a join.
QUERIES = (
    query("own", "cascade"),
    query("own_windows", "cascade", windows=True),
    query("own_windows_moved", "readj", windows=True, mode="update"),
    query("own_bare", "fish", ledger=False),
    query("variance_windows_bare", "cascade", merging="variance", windows=True, ledger=False),
    query("native", "cascade", merging="native"),
    query("native_windows_moved", "readj", merging="native", windows=True),
    query("routed", "fish", merging="none"),
    query("chained", "wanders", merging="state"),
    query("joined", "wanders", merging="join"),
)
ON_CLUSTER = ("own_windows", "native_windows_moved", "chained")
_KEYED = ("state", "join")
KINDS = {"raise": "task", "kill_worker": "worker", "kill_executor": "executor"}
#: How many may pass at a place before a bomb goes off there; more do pass in every micro-batch.
_FUSES = {"route": 6, "work": 0, "combine": 100, "merge": 60, "finish": 60, "update": 60}
#: What a driver writes, and at what a killer from outside takes aim.
_FILES = ("checkpoint/offsets/*", "checkpoint/state/0/*/*", "checkpoint/commits/*", "out/*")
#: The same where states are in the ledger: plans, and versions with the reports of workers.
_KEYED_FILES = (
    "checkpoint/offsets/*",
    "ledger/state/*/*/plan.arrow",
    "ledger/state/*/*/worker-*.arrow",
    "checkpoint/commits/*",
    "out/*",
)
_SETTINGS = {
    # Several calls of the router per task, and another number of sources with other cores.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "400",
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.task.maxFailures": "8",
    "spark.stage.maxConsecutiveAttempts": "10",
}
#: Spark's refusal of a first micro-batch in a checkpoint that is not empty.
_FOREIGN = "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"
#: What Spark says when a retried task sends other bytes, and some readers have ended by then.
_CANNOT_ROLL_BACK = "A shuffle map stage with indeterminate output was failed and retried"
_CORES = (1, 2, 4)
_PARTITIONS = (1, 2, 3, 5)


@dataclass(frozen=True)
class Moment:
    """When a driver is killed from outside: some time after a file of a query was written."""

    folder: Path
    pattern: str
    delay_s: float

    def has_come(self, since: float) -> bool:
        """Return whether such a file was written since a time."""
        return appeared(self.folder, self.pattern)(since)

    def is_over(self) -> bool:
        """Return whether the query has ended, so that a kill would miss it."""
        return _has_ended(self.folder)


def run_killing(
    folder: Path, records: Path, chance: random.Random, cluster: str | None = None
) -> Counter[str]:
    """Run all queries to their end, and return how many kills of each kind happened.

    With the address of a cluster, some queries run there, and executors are killed.
    """
    chosen = [one for one in QUERIES if cluster is None or one["name"] in ON_CLUSTER]
    chance.shuffle(chosen)
    moments = []
    for one in chosen:
        lay(folder / one["name"], *_bombs(one, chance, on_cluster=cluster is not None))
        if chance.random() < 0.4:
            moments.append(_moment(folder, one, chance))
    layouts = _layouts(chance, cluster)
    n_drivers = 0
    while not all(_has_ended(folder / one["name"]) for one in chosen):
        master, settings = next(layouts)
        job = Job(folder, records, chosen, master=master, settings=settings)
        try:
            code = _watch(job, moments)
        finally:
            job.kill()  # where the test was interrupted
        assert code in (0, -signal.SIGKILL), job.log()
        n_drivers += code == -signal.SIGKILL
        for one in chosen:
            _begin_again(folder / one["name"])
        assert n_drivers <= 3 * len(chosen), "more drivers died than were to be killed"
    kills = Counter(driver=n_drivers)
    for one in chosen:
        actions = [name.split(".")[3].partition("-")[0] for name in fired(folder / one["name"])]
        kills.update(KINDS[action] for action in actions if action in KINDS)
    return kills


def _has_ended(folder: Path) -> bool:
    return (folder / "done").exists() or (folder / "failed").exists()


def _begin_again(folder: Path) -> None:
    """Let a query start again that Spark has ended without a result.

    A retried task may send other bytes, for instance sums of floats in another order. Where some
    readers have ended, Spark ends the query, and a restart repeats the micro-batch. If the first
    offset is half written, Spark takes the checkpoint for a foreign one, and nothing was read yet.
    """
    failed = folder / "failed"
    if not failed.exists():
        return
    why = failed.read_text()
    if _CANNOT_ROLL_BACK in why:
        failed.unlink()
    if _FOREIGN not in why:
        return
    if any((folder / "checkpoint" / "offsets").glob("[0-9]*")):
        return
    for name in ("checkpoint", "ledger", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    failed.unlink()


def _watch(job: Job, moments: list[Moment]) -> int:
    """Kill the driver at the next moment, or let it end; return how it ended."""
    while moments and job.process.poll() is None:
        if moments[0].is_over():
            moments.pop(0)
        elif moments[0].has_come(job.began):
            moment = moments.pop(0)
            time.sleep(moment.delay_s)
            return job.wait() if moment.is_over() else job.kill()
        else:
            time.sleep(0.005)
    return job.wait()


def _layouts(chance: random.Random, cluster: str | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield where drivers run, and their settings; each time other cores and other partitions."""
    cores, partitions = 0, 0
    while True:
        cores = chance.choice([n for n in _CORES if n != cores])
        partitions = chance.choice([n for n in _PARTITIONS if n != partitions])
        master = cluster or f"local[{cores},8]"
        chosen = _SETTINGS | {"spark.sql.shuffle.partitions": str(partitions)}
        yield master, chosen | (EXECUTORS if cluster else {})


def _moment(folder: Path, one: dict[str, Any], chance: random.Random) -> Moment:
    files = _KEYED_FILES if one["merging"] in _KEYED else _FILES
    return Moment(folder / one["name"], chance.choice(files), chance.uniform(0.0, 1.5))


def _bombs(one: dict[str, Any], chance: random.Random, *, on_cluster: bool) -> list[str]:
    """Return one or two bombs for tasks or executors, and perhaps one for the driver."""
    actions = ["kill_executor"] if on_cluster else ["raise", "kill_worker"]
    chosen = [_bomb(one, chance, chance.choice(actions)) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.2:
        chosen.append(_bomb(one, chance, "kill_driver"))
    return chosen


def _bomb(one: dict[str, Any], chance: random.Random, action: str) -> str:
    place = chance.choice(_places(one, action))
    # What is appended is finished when a window closes, which is not in every micro-batch.
    is_rare = one["mode"] == "append" and place in ("finish", "work")
    batch = "any" if is_rare else chance.randrange(N_BATCHES)
    fuse = 0 if is_rare else chance.randint(0, _FUSES.get(place, 0))
    return f"{place}.{batch}.any.{action}-{fuse}"


def _places(one: dict[str, Any], action: str) -> Sequence[str]:
    # Keyed state is routed by the JVM: bombs are in the processor, and before and behind a join.
    places = ["update"] if one["merging"] == "state" else ["route", "work"]
    if one["merging"] == "blocks":
        places += ["combine", "merge", "finish"]
    if action == "kill_driver" and one["mode"] == "update":
        places += ["before_write", "after_write"]
    return places
