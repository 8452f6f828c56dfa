"""The names of a ledger's files.

```
identity.json                                  what the ledger was made for
query.json                                     the one query that may use it
initial.json                                   keyed state: the run that wrote the initial states
runs/<number>.<run>.json                       the runs of that query, in order
scale/<number>.json                            a number of workers that was asked for
plans/<batch>.arrow                            what all sources route by in this batch
plans/<batch>.<run>.claim                      a task of this run makes that plan now
reports/<batch>/<run>/source-<source>.arrow    what one source learned in this batch
workers/<batch>/<run>/worker-<worker>.arrow    what one worker learned in this batch
state/<batch>/<run>/plan.arrow                 keyed state: what this run routes and reads by
state/<batch>/<run>/worker-<worker>-of-<workers>.arrow   what changed there, and its report
state/initial/<run>/…                          the same for states that a query begins with
```
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

#: The folder with a plan of sources per batch.
PLANS = "plans"
#: The folders with a folder per batch and run.
SOURCES, WORKERS, STATE = KINDS = ("reports", "workers", "state")
#: The number of the version that micro-batch 0 builds on, if a query begins with states.
INITIAL = -1
REQUESTS = "scale"
RUN = re.compile(r"runs/(\d{8,})\.([\w-]+)\.json")
REQUEST = re.compile(r"scale/(\d{8,})\.json")
#: Plans and claims, unfinished ones included.
OF_PLANS = re.compile(r"plans/\.?(\d{8,})\.(?:arrow|[\w-]+\.claim)(?:\.\w+\.tmp)?")
UNFINISHED_STATEMENT = re.compile(r"(?:runs/)?\.[\w.-]+\.json\.\w+\.tmp")
MEMBER = re.compile(
    r"(reports|workers|state)/(\d{8,}|initial)/([\w-]+)/"
    r"(?:source|worker)-(\d{5,})(?:-of-(\d{5,}))?\.arrow"
)
_BATCH = re.compile(r"(?:(?:reports|workers|state)/(\d{8,})|plans/(\d{8,})\.arrow)")
#: How the file of a plan of keyed state ends.
PLAN = "/plan.arrow"


def padded(what: str, number: int, digits: int) -> str:
    """Return a number of at least 0 with leading zeros, so that names sort as numbers do."""
    if number < 0:
        raise ValueError(f"{what} must be an integer of at least 0, not {number!r}")
    return f"{int(number):0{digits}}"


def run_name(run: str | None) -> str:
    """Return the name of a run's folders: its id, or a digest if that is not a valid file name."""
    if run is None:
        return "unnamed"
    is_plain = re.fullmatch(r"[A-Za-z0-9_-]{1,128}", run)
    return run if is_plain else hashlib.blake2b(run.encode(), digest_size=16).hexdigest()


def plan_name(batch: int) -> str:
    """Return the plan by which sources route in a batch."""
    return f"plans/{padded('batch', batch, 8)}.arrow"


def turn_name(batch: int, run: str | None) -> str:
    """Return the file by which a task of a run claims to make that plan."""
    return f"plans/{padded('batch', batch, 8)}.{run_name(run)}.claim"


def batch_folder(kind: str, batch: int) -> str:
    """Return the folder of one batch."""
    if batch == INITIAL:
        return f"{kind}/initial"
    return f"{kind}/{padded('batch', batch, 8)}"


def batch_of(name: str) -> int | None:
    """Return the batch of a plan or of the folder of a batch, or None for anything else.

    >>> batch_of(plan_name(7)), batch_of("workers/00000007"), batch_of("workers/lost+found")
    (7, 7, None)
    """
    if name == batch_folder(STATE, INITIAL):
        return INITIAL
    match = _BATCH.fullmatch(name)
    return int(match[1] or match[2]) if match else None


def member_of(name: str) -> int:
    """Return the source or worker that has written a file."""
    match = MEMBER.fullmatch(name)
    assert match is not None, name
    return int(match[4])


def report_name(kind: str, batch: int, run: str | None, member: int) -> str:
    """Return the file of what one source or worker reports."""
    role = "source" if kind == SOURCES else "worker"
    folder = f"{batch_folder(kind, batch)}/{run_name(run)}"
    return f"{folder}/{role}-{padded(role, member, 5)}.arrow"


def state_plan_name(batch: int, run: str | None) -> str:
    """Return the plan by which one run of keyed state works in one batch."""
    return f"{batch_folder(STATE, batch)}/{run_name(run)}{PLAN}"


class VersionName(NamedTuple):
    """One file: what one of `workers` workers wrote in one batch of one run."""

    batch: int
    run: str
    worker: int
    workers: int

    @property
    def file(self) -> str:
        """The file's name inside the ledger."""
        worker, workers = padded("worker", self.worker, 5), padded("workers", self.workers, 5)
        return f"{batch_folder(STATE, self.batch)}/{self.run}/worker-{worker}-of-{workers}.arrow"


def version_name(file: str) -> VersionName | None:
    """Return the parts of a file's name, or None for a file that is not a version.

    >>> name = VersionName(7, "run", 2, 4)
    >>> name.file
    'state/00000007/run/worker-00002-of-00004.arrow'
    >>> version_name(name.file) == name
    True
    """
    match = MEMBER.fullmatch(file)
    if match is None or match[1] != STATE or match[5] is None:
        return None
    batch = INITIAL if match[2] == "initial" else int(match[2])
    return VersionName(batch, match[3], int(match[4]), int(match[5]))


def request_name(number: int) -> str:
    """Return the file of one request for another number of workers."""
    return f"{REQUESTS}/{padded('request', number, 8)}.json"
