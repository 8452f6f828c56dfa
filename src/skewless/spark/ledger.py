"""The ledger: how the tasks of a streaming query share what they learn, by files in one folder.

```
identity.json                            what the ledger was made for
query.json                               the one query that may use it
plans/<batch>.arrow                      what all sources route by in this batch
reports/<batch>/source-<source>.arrow    what one source learned in this batch
workers/<batch>/worker-<worker>.arrow    what one worker learned in this batch
```
No file is ever seen half written, and a task that is run again writes the same files again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skewless.arguments import path_text
from skewless.spark.ledger_folder import (
    Folder,
    absolute,
    below,
    open_folder,
    require_folder,
    shown,
)
from skewless.spark.state_files import (
    VERSION,
    Entry,
    LedgerCorrupt,
    LedgerTooNew,
    from_bytes,
    require_version,
    to_bytes,
)

__all__ = ["Entry", "Ledger", "LedgerCorrupt", "LedgerMismatch", "LedgerTooNew"]

_PLAN = re.compile(r"plans/(\d{8,})\.arrow")
_UNFINISHED_PLAN = re.compile(r"plans/\.(\d{8,})\.arrow\.\w+\.tmp")
_UNFINISHED_CLAIM = re.compile(r"\.\w+\.json\.\w+\.tmp")
#: Nobody takes that long to write a few hundred bytes: who began has died.
_SURELY_DEAD_S = 3600.0
#: Where a report's file says in which run of the query it was written.
_RUN = "run"


class LedgerMismatch(ValueError):  # noqa: N818 - it is read as a sentence
    """The ledger was made for something else than it is about to be used for."""


@dataclass(frozen=True)
class Ledger:
    """Plans and reports in a folder: small, picklable, and the same in every process.

    Whoever creates a plan must compute it from what all tasks see alike. On a local disk the
    first one to publish wins whatever the others bring; on other filesystems two tasks that
    publish at the same moment replace each other, which is harmless as long as the plans are equal.

    Parameters
    ----------
    folder
        A path, or a URI that pyarrow opens: `file:`, `s3:` (`s3a:` as well), `hdfs:`, `gs:`.
        Options of the connection go into the URI, such as
        `s3://bucket/path?region=eu-west-1&endpoint_override=host:port&scheme=http`.
        The folder is created when first written to.
    """

    folder: str  # given as any path

    def __post_init__(self) -> None:
        """Make a relative path absolute: tasks have other working folders."""
        given = path_text(self.folder, "ledger", "a folder, as a path or as a URI")
        folder = absolute(given)
        require_folder(folder)
        object.__setattr__(self, "folder", folder)

    def __repr__(self) -> str:
        """Show the folder without secrets."""
        return f"Ledger({shown(self.folder)!r})"

    def below(self, name: str) -> Ledger:
        """Return the ledger in a folder inside this one's, such as one per query."""
        return Ledger(below(self.folder, name))

    def claim(self, identity: Mapping[str, str | int | float]) -> None:
        """Say what this ledger is for; raise LedgerMismatch if it is for something else."""
        there = self._files.create("identity.json", _statement("identity", dict(identity)))
        self._compare(there, identity)

    def check(self, identity: Mapping[str, str | int | float]) -> bool:
        """Return whether the ledger was claimed; raise LedgerMismatch if for something else."""
        there = self._files.read("identity.json")
        if there is None:
            return False
        self._compare(there, identity)
        return True

    def bind(self, query_id: str) -> None:
        """Give the ledger to this query; raise LedgerMismatch if it belongs to another."""
        there = self._files.create("query.json", _statement("query", query_id))
        owner = _read_statement(there, "query", self._where("query.json"))
        if owner != query_id:
            raise LedgerMismatch(
                f"the ledger in {self._place} belongs to the query {owner}, not {query_id}: "
                "give this query a ledger folder of its own, or delete that folder "
                "if the other query will never run again"
            )

    def identity(self) -> dict[str, Any] | None:
        """Return what the ledger was claimed for, or None while it is nobody's."""
        there = self._files.read("identity.json")
        if there is None:
            return None
        found: dict[str, Any] = _read_statement(there, "identity", self._where("identity.json"))
        return found

    def owner(self) -> str | None:
        """Return the id of the query that the ledger belongs to, or None before its first batch."""
        there = self._files.read("query.json")
        if there is None:
            return None
        return str(_read_statement(there, "query", self._where("query.json")))

    def publish_plan(self, batch: int, plan: Entry) -> Entry:
        """Make `plan` the plan of `batch` if there is none; return the plan that counts."""
        name = _plan_name(batch)
        return from_bytes(self._files.create(name, to_bytes(plan)), self._where(name))

    def read_plan(self, batch: int) -> Entry | None:
        """Return the plan of `batch`, or None."""
        return self._read(_plan_name(batch))

    def latest_plan(self, before: int) -> tuple[int, Entry] | None:
        """Return the newest plan of a batch before `before`, with its batch, or None."""
        for batch in sorted(self._planned(), reverse=True):
            plan = self.read_plan(batch) if batch < before else None
            if plan is not None:
                return batch, plan
        return None

    def write_report(self, batch: int, source: int, report: Entry, run: str | None = None) -> None:
        """Write what `source` learned in `batch`, in place of an earlier attempt's report.

        `run` names the run of the query, of which there is another after every restart.
        """
        if run is not None:
            report = replace(report, about={**report.about, _RUN: run})
        self._files.overwrite(_member_name("reports", batch, "source", source), to_bytes(report))

    def read_reports(self, batch: int) -> dict[int, Entry]:
        """Return the reports of `batch` by source, in the order of the sources.

        A restarted query may repeat a batch with fewer sources, and then the reports of the run
        before remain under the higher numbers. They do not count. The first source tells which
        run does: it is there however few they are, and every run replaces its report.
        """
        found = self._read_members("reports", batch, "source")
        runs = {source: report.about.pop(_RUN, None) for source, report in found.items()}
        counts = next(iter(runs.values()), None)
        return {source: report for source, report in found.items() if runs[source] == counts}

    def read_report(self, batch: int, source: int) -> Entry | None:
        """Return the report of one source, or None."""
        report = self._read(_member_name("reports", batch, "source", source))
        if report is not None:
            report.about.pop(_RUN, None)
        return report

    def write_worker(self, batch: int, worker: int, report: Entry) -> None:
        """Write what `worker` learned in `batch`, in place of an earlier attempt's report."""
        self._files.overwrite(_member_name("workers", batch, "worker", worker), to_bytes(report))

    def read_workers(self, batch: int) -> dict[int, Entry]:
        """Return the reports of `batch` by worker, in the order of the workers."""
        return self._read_members("workers", batch, "worker")

    def batches(self) -> list[int]:
        """Return all batches of which the ledger holds a plan or a report, in order."""
        found = self._planned()
        for kind, role in (("reports", "source"), ("workers", "worker")):
            found.update(b for b in self._batch_folders(kind) if self._members(kind, b, role))
        return sorted(found)

    def purge(self, before: int) -> None:
        """Delete the plans and reports of batches before `before`, whoever else does so as well.

        Parameters
        ----------
        before
            The first batch to keep. Its plan should be there: what was learned is in the newest
            plan, and this deletes that too if it is older.
        """
        files = self._files
        for name in files.files("plans"):
            plan = _PLAN.fullmatch(name) or _UNFINISHED_PLAN.fullmatch(name)
            if plan and int(plan[1]) < before:
                files.delete(name)
        for name in files.files(""):
            if (
                _UNFINISHED_CLAIM.fullmatch(name)
                and files.seconds_since_written(name) > _SURELY_DEAD_S
            ):
                files.delete(name)
        for kind in ("reports", "workers"):
            for batch, folder in self._batch_folders(kind).items():
                if batch < before:
                    files.delete_folder(folder)

    @property
    def _files(self) -> Folder:
        return open_folder(self.folder)

    @property
    def _place(self) -> str:
        return shown(self.folder)

    def _where(self, name: str) -> str:
        return f"{self._place}/{name}"

    def _compare(self, there: bytes, identity: Mapping[str, str | int | float]) -> None:
        found = _read_statement(there, "identity", self._where("identity.json"))
        for field in [*identity, *(field for field in found if field not in identity)]:
            if field not in found or field not in identity or found[field] != identity[field]:
                was = f"{field}={found[field]}" if field in found else f"no {field}"
                wanted = f"{identity[field]}" if field in identity else "without it"
                raise LedgerMismatch(
                    f"the ledger in {self._place} was written for {was}, not {wanted}: "
                    "use another ledger folder, or the settings that this one was written for"
                )

    def _read(self, name: str) -> Entry | None:
        data = self._files.read(name)
        return None if data is None else from_bytes(data, self._where(name))

    def _planned(self) -> set[int]:
        matches = (_PLAN.fullmatch(name) for name in self._files.files("plans"))
        return {int(match[1]) for match in matches if match}

    def _batch_folders(self, kind: str) -> dict[int, str]:
        matches = (re.fullmatch(rf"{kind}/(\d{{8,}})", f) for f in self._files.folders(kind))
        return {int(match[1]): match[0] for match in matches if match}

    def _members(self, kind: str, batch: int, role: str) -> dict[int, str]:
        """Return the finished files of one batch by source or worker, in order."""
        pattern = re.compile(rf"{kind}/\d+/{role}-(\d{{5,}})\.arrow")
        names = self._files.files(f"{kind}/{_padded('batch', batch, 8)}")
        matches = (pattern.fullmatch(name) for name in names)
        return dict(sorted((int(match[1]), match[0]) for match in matches if match))

    def _read_members(self, kind: str, batch: int, role: str) -> dict[int, Entry]:
        members = self._members(kind, batch, role)
        entries = ((member, self._read(name)) for member, name in members.items())
        return {member: entry for member, entry in entries if entry is not None}


def _padded(what: str, number: int, digits: int) -> str:
    if number < 0:
        raise ValueError(f"{what} must be an integer of at least 0, not {number!r}")
    return f"{int(number):0{digits}}"


def _plan_name(batch: int) -> str:
    return f"plans/{_padded('batch', batch, 8)}.arrow"


def _member_name(kind: str, batch: int, role: str, member: int) -> str:
    return f"{kind}/{_padded('batch', batch, 8)}/{role}-{_padded(role, member, 5)}.arrow"


def _statement(what: str, value: Any) -> bytes:
    """Return a small text file that people may read."""
    try:
        content = {"format": f"skewless-{what}", "version": VERSION, what: value}
        return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be text and finite numbers: {error}") from None


def _read_statement(data: bytes, what: str, where: str) -> Any:
    try:
        content = json.loads(data)
        found, version = content["format"], content["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerCorrupt(f"{where} is not readable: {error}") from error
    require_version(found, version, f"skewless-{what}", where)
    if what not in content:
        raise LedgerCorrupt(f"{where} is not readable: it has no {what}")
    return content[what]
