"""Makes and reads the names of the files of a ledger."""

from __future__ import annotations

import hashlib
import re

PLAN = re.compile(r"plans/(\d{8,})\.arrow")
PLAN_CLAIM = re.compile(r"plans/(\d{8,})\.[\w-]+\.claim")
UNFINISHED_PLAN = re.compile(r"plans/\.(\d{8,})\.(?:arrow|[\w-]+\.claim)\.\w+\.tmp")
UNFINISHED_STATEMENT = re.compile(r"(?:runs/)?\.[\w.-]+\.json\.\w+\.tmp")
#: The kind of task that writes the files of a folder.
ROLES = {"reports": "source", "workers": "worker"}
RUN = re.compile(r"runs/(\d{8,})\.([\w-]+)\.json")
_BATCH_FOLDER = re.compile(r"(?:reports|workers)/(\d{8,})")
#: In the folders of reports, the name of a run that has none.
_NO_RUN = "unnamed"


def padded(what: str, number: int, digits: int) -> str:
    """Return a number of at least 0 with leading zeros, so that names sort as numbers do."""
    if number < 0:
        raise ValueError(f"{what} must be an integer of at least 0, not {number!r}")
    return f"{int(number):0{digits}}"


def plan_name(batch: int) -> str:
    """Return the file of the plan of a batch."""
    return f"plans/{padded('batch', batch, 8)}.arrow"


def batch_of_plan(name: str) -> int | None:
    """Return the batch whose plan a file is, or None for another file.

    >>> batch_of_plan(plan_name(7)), batch_of_plan("plans/.00000007.arrow.x.tmp")
    (7, None)
    """
    match = PLAN.fullmatch(name)
    return int(match[1]) if match else None


def batch_of_folder(name: str) -> int | None:
    """Return the batch whose reports are in a folder, or None for another folder.

    >>> batch_of_folder("workers/00000007"), batch_of_folder("workers/lost+found")
    (7, None)
    """
    match = _BATCH_FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def batch_folder(kind: str, batch: int) -> str:
    """Return the folder of the reports of one batch."""
    return f"{kind}/{padded('batch', batch, 8)}"


def member_name(kind: str, batch: int, run: str, member: int) -> str:
    """Return the file of what one source or worker reports."""
    role = ROLES[kind]
    return f"{batch_folder(kind, batch)}/{run}/{role}-{padded(role, member, 5)}.arrow"


def run_of_member(name: str) -> str:
    """Return the name of the run in which a source or a worker wrote this file.

    >>> run_of_member(member_name("workers", 7, "run-1", 3))
    'run-1'
    """
    _kind, _batch, run, *_file = name.split("/")
    return run


def run_name(run: str | None) -> str:
    """Return the name of a run's folders: its id, or a digest if that is not a valid file name."""
    if run is None:
        return _NO_RUN
    is_plain = re.fullmatch(r"[A-Za-z0-9_-]{1,128}", run)
    return run if is_plain else hashlib.blake2b(run.encode(), digest_size=16).hexdigest()


def claim_name(batch: int, run: str | None) -> str:
    """Return the file by which a task of a run claims to make the plan of a batch."""
    return f"plans/{padded('batch', batch, 8)}.{run_name(run)}.claim"
