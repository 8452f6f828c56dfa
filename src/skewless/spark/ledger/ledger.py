"""The ledger: how the tasks of a streaming query share what they learn, by files in one folder.

```
identity.json                                  what the ledger was made for
query.json                                     the one query that may use it
runs/<number>.<run>.json                       the runs of that query, in order
plans/<batch>.arrow                            what all sources route by in this batch
plans/<batch>.<run>.claim                      a task of this run makes that plan now
reports/<batch>/<run>/source-<source>.arrow    what one source learned in this batch
workers/<batch>/<run>/worker-<worker>.arrow    what one worker learned in this batch
```
No file is ever seen half written, and a task that is run again writes the same files again.

Every restart of a query is another run. A task may outlive its run and write late, but only into
the folder of its run. Tasks read the reports of their run. That run has finished the batch before,
so its reports are complete and do not change. Right after a restart there are none, and the reports
of the last earlier run count.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skewless.plumbing.arguments import LARGEST_SEED, MOST_WORKERS, path_text
from skewless.spark.ledger.files import (
    Entry,
    LedgerCorrupt,
    LedgerTooNew,
    from_bytes,
    to_bytes,
)
from skewless.spark.ledger.folder import Folder, absolute, below, open_folder, require_folder, shown
from skewless.spark.ledger.names import (
    PLAN,
    PLAN_CLAIM,
    ROLES,
    RUN,
    UNFINISHED_PLAN,
    UNFINISHED_STATEMENT,
    claim_name,
    member_name,
    padded,
    plan_name,
    run_name,
)
from skewless.spark.ledger.newest import newest_batch
from skewless.spark.ledger.old_runs import purge_runs
from skewless.spark.ledger.statements import read_statement, statement

__all__ = ["Entry", "Ledger", "LedgerCorrupt", "LedgerMismatch", "LedgerTooNew"]

#: Seconds. No task takes that long to write a few hundred bytes: the task has died.
_SURELY_DEAD_S = 3600.0
#: Fields of an identity that are only information: they may differ.
_INFORMATIVE = ("skewless",)
#: The strategy that routes nothing: its ledger has no workers.
_WITHOUT_WORKERS = "local"
#: What an older version did not write into an identity.
_LAYOUT = "state_layout"


class LedgerMismatch(ValueError):  # noqa: N818 - it is read as a sentence
    """The ledger was made for something else than it is about to be used for."""


@dataclass(frozen=True)
class Ledger:
    """Plans and reports in a folder: small, picklable, and the same in every process.

    A plan must be computed from what is the same for all tasks. So a report is either the same in
    every attempt of its task, or that of the first attempt. On a local disk, the first task to
    publish a plan wins. On other filesystems, two tasks that publish at the same moment replace
    each other's file, which is harmless because the plans are equal.

    Parameters
    ----------
    folder
        A path, or a URI that pyarrow opens: `file:`, `s3:` (`s3a:` as well), `hdfs:`, `gs:`.
        Options of the connection go into the URI, such as
        `s3://bucket/path?region=eu-west-1&endpoint_override=host:port&scheme=http`.
        The folder is created when first written to.
    run
        The run of the query whose reports are written and read; set by `of_run`. None: for readers
        outside the query; the reports of the last run count.
    """

    folder: str  # any path is accepted
    run: str | None = None

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
        return Ledger(below(self.folder, name), self.run)

    def of_run(self, run: str | None) -> Ledger:
        """Return the ledger as a task of this run of the query sees it; the run is registered."""
        if run is None:
            return self
        name = run_name(run)
        order = self.runs()
        if name not in order:
            number = 1 + max(order.values(), default=-1)
            self._files.create(f"runs/{number:08}.{name}.json", statement("run", run))
        return replace(self, run=run)

    def claim(
        self, identity: Mapping[str, str | int | float], *, drawn: Collection[str] = ()
    ) -> None:
        """Write what this ledger is for; raise LedgerMismatch if it is for something else.

        Fields that were `drawn` at random may differ; the value in the ledger counts.
        """
        there = self._files.create("identity.json", statement("identity", dict(identity)))
        self._compare(there, identity, drawn)

    def check(
        self, identity: Mapping[str, str | int | float], *, drawn: Collection[str] = ()
    ) -> bool:
        """Return whether the ledger was claimed; raise LedgerMismatch if for something else."""
        there = self._files.read("identity.json")
        if there is None:
            return False
        self._compare(there, identity, drawn)
        return True

    def bind(self, query_id: str) -> None:
        """Give the ledger to this query; raise LedgerMismatch if it belongs to another."""
        there = self._files.create("query.json", statement("query", query_id))
        owner = read_statement(there, "query", self._where("query.json"), str)
        if owner != query_id:
            raise LedgerMismatch(
                f"the ledger in {self._place} belongs to the query {owner}, not {query_id}: "
                "give this query another ledger folder, or delete that folder "
                "if the other query will never run again"
            )

    def identity(self) -> dict[str, Any] | None:
        """Read the identity that the ledger was claimed for; None before it was claimed."""
        there = self._files.read("identity.json")
        if there is None:
            return None
        found: dict[str, Any] = self._read_identity(there)
        return found

    def workers(self) -> int | None:
        """Return the number of workers that the ledger is for, or None.

        None before the ledger was claimed, and for a query that routes nothing.
        """
        identity = self.identity()
        if identity is None:
            return None
        if "process" in identity:  # its number of workers changes
            return len(self.read_workers(newest_batch(self._files, self.runs()) or 0)) or 1
        n_workers = identity.get("workers")
        if n_workers is None and identity.get("strategy") == _WITHOUT_WORKERS:
            return None
        if type(n_workers) is int and 1 <= n_workers <= MOST_WORKERS:
            return n_workers
        raise LedgerCorrupt(
            f"{self._where('identity.json')} cannot be used: workers must be from 1 to "
            f"{MOST_WORKERS}, not {str(n_workers)[:40]}"
        )

    def seed(self) -> int | None:
        """Return the seed that the ledger was claimed with, or None before it was claimed."""
        seed = (self.identity() or {}).get("seed")
        if seed is None or (type(seed) is int and 0 <= seed <= LARGEST_SEED):
            return seed
        where = self._where("identity.json")
        raise LedgerCorrupt(f"{where}: seed must be a whole number of at least 0, not {seed!r}")

    def owner(self) -> str | None:
        """Return the id of the query that the ledger belongs to, or None before its first batch."""
        there = self._files.read("query.json")
        if there is None:
            return None
        return str(read_statement(there, "query", self._where("query.json"), str))

    def publish_plan(self, batch: int, plan: Entry) -> Entry:
        """Make `plan` the plan of `batch` if there is none; return the plan that counts."""
        name = plan_name(batch)
        return from_bytes(self._files.create(name, to_bytes(plan)), self._where(name))

    def read_plan(self, batch: int) -> Entry | None:
        """Return the plan of `batch`, or None."""
        return self._read(plan_name(batch))

    def latest_plan(self, before: int) -> tuple[int, Entry] | None:
        """Return the newest plan of a batch before `before`, with its batch, or None."""
        for batch in sorted(self._planned(), reverse=True):
            plan = self.read_plan(batch) if batch < before else None
            if plan is not None:
                return batch, plan
        return None

    def is_worth_a_claim(self, batch: int) -> bool:
        """Return whether the plan of `batch` is made from the reports of several sources."""
        before = max((b for b in self._planned() if b < batch), default=None)
        return before is not None and len(self._members_that_count("reports", before)) > 1

    def claim_plan(self, batch: int) -> float | None:
        """Claim to make the plan of `batch`; return the seconds since another task did, or None.

        A claim is not a lock: if a filesystem cannot tell which was first, two tasks may hold one.
        """
        name, mine = claim_name(batch, self.run), uuid.uuid4().hex.encode()
        if self._files.create(name, mine) == mine:
            return None
        return self._files.seconds_since_written(name)

    def is_claimed(self, batch: int) -> bool:
        """Return whether a task claims to make the plan of `batch`."""
        return self._files.read(claim_name(batch, self.run)) is not None

    def withdraw_claim(self, batch: int) -> None:
        """Delete the claim to make the plan of `batch`."""
        self._files.delete(claim_name(batch, self.run))

    def write_report(self, batch: int, source: int, report: Entry, run: str | None = None) -> None:
        """Write what `source` learned in `batch`, in place of an earlier attempt's report."""
        self._files.overwrite(self._member("reports", batch, source, run), to_bytes(report))

    def read_reports(self, batch: int) -> dict[int, Entry]:
        """Return the reports of `batch` that count, by source, in the order of the sources."""
        return dict(self.each_report(batch))

    def each_report(self, batch: int) -> Iterator[tuple[int, Entry]]:
        """Yield those reports with their sources, in order; one is in memory at a time."""
        yield from self._each_member("reports", batch)

    def read_report(self, batch: int, source: int) -> Entry | None:
        """Return the report of one source, if there is one that counts, or None."""
        run = self._run_that_counts(batch)
        return None if run is None else self._read(member_name("reports", batch, run, source))

    def write_worker(self, batch: int, worker: int, report: Entry, run: str | None = None) -> None:
        """Write what `worker` learned in `batch`, unless an earlier attempt of this run did."""
        self._files.create(self._member("workers", batch, worker, run), to_bytes(report))

    def read_workers(self, batch: int) -> dict[int, Entry]:
        """Return the reports of `batch` that count, by worker, in the order of the workers."""
        return dict(self._each_member("workers", batch))

    def batches(self) -> list[int]:
        """Return all batches of which the ledger holds a plan or a report, in order."""
        found = self._planned()
        for kind in ("reports", "workers"):
            found.update(b for b in self._batch_folders(kind) if self._runs_in(kind, b))
        return sorted(found)

    def purge(self, before: int) -> None:
        """Delete the plans and reports of batches before `before`; other tasks may do the same.

        Parameters
        ----------
        before
            The first batch to keep. Its plan should exist: the newest plan holds what was learned,
            and this deletes it too if it is older.
        """
        files = self._files
        for name in files.files("plans"):
            patterns = (PLAN, PLAN_CLAIM, UNFINISHED_PLAN)
            plan = next(filter(None, (pattern.fullmatch(name) for pattern in patterns)), None)
            if plan and int(plan[1]) < before:
                files.delete(name)
        for name in files.files("") + files.files("runs"):
            if (
                UNFINISHED_STATEMENT.fullmatch(name)
                and files.seconds_since_written(name) > _SURELY_DEAD_S
            ):
                files.delete(name)
        for kind in ("reports", "workers"):
            for batch, folder in self._batch_folders(kind).items():
                if batch < before:
                    for inner in files.folders(folder):
                        files.delete_folder(inner)
                    files.delete_folder(folder)
        purge_runs(files, _SURELY_DEAD_S)

    @property
    def _files(self) -> Folder:
        return open_folder(self.folder)

    @property
    def _place(self) -> str:
        return shown(self.folder)

    def _where(self, name: str) -> str:
        return f"{self._place}/{name}"

    def _compare(
        self, there: bytes, given: Mapping[str, str | int | float], drawn: Collection[str]
    ) -> None:
        found = self._read_identity(there)
        identity = {**given, **{field: found[field] for field in drawn if field in found}}
        if ("process" in found) != ("process" in identity):
            verb = "process" if "process" in found else "route or aggregate"
            raise LedgerMismatch(f"the ledger in {self._place} was written by {verb}: use another")
        for field in dict.fromkeys([*identity, *found]):
            if field in _INFORMATIVE:
                continue
            if field == _LAYOUT and field in identity and found.get(field) != identity[field]:
                raise LedgerMismatch(self._other_layout(found))
            if field not in found or field not in identity or found[field] != identity[field]:
                was = f"{field}={found[field]}" if field in found else f"no {field}"
                wanted = f"{identity[field]}" if field in identity else "without it"
                raise LedgerMismatch(
                    f"the ledger in {self._place} was written for {was}, not {wanted}: "
                    "use another ledger folder, or the settings that this one was written for"
                )

    def _read_identity(self, there: bytes) -> dict[str, Any]:
        where = self._where("identity.json")
        identity: dict[str, Any] = read_statement(there, "identity", where, dict)
        for field, value in identity.items():
            if not isinstance(value, str | int | float):
                raise LedgerCorrupt(
                    f"{where} is not readable: {field[:40]!r} is not a text or number"
                )
        return identity

    def _other_layout(self, found: Mapping[str, Any]) -> str:
        version = found.get("skewless")
        wrote = "by an older skewless" if version is None else f"by skewless {version}"
        return (
            f"the ledger in {self._place} was written {wrote}, whose strategy "
            f"{found.get('strategy')} keeps its state in another layout: use another ledger "
            "folder, or the version that this one was written by"
        )

    def _read(self, name: str) -> Entry | None:
        data = self._files.read(name)
        return None if data is None else from_bytes(data, self._where(name))

    def _planned(self) -> set[int]:
        matches = (PLAN.fullmatch(name) for name in self._files.files("plans"))
        return {int(match[1]) for match in matches if match}

    def _batch_folders(self, kind: str) -> dict[int, str]:
        matches = (re.fullmatch(rf"{kind}/(\d{{8,}})", f) for f in self._files.folders(kind))
        return {int(match[1]): match[0] for match in matches if match}

    def runs(self) -> dict[str, int]:
        """Return the numbers of all registered runs by name; the earliest of a name counts."""
        matches = (RUN.fullmatch(name) for name in self._files.files("runs"))
        found = sorted(((int(match[1]), match[2]) for match in matches if match), reverse=True)
        return {name: number for number, name in found}

    def _runs_in(self, kind: str, batch: int) -> list[str]:
        """Return the runs that have finished files of one batch."""
        folders = self._files.folders(f"{kind}/{padded('batch', batch, 8)}")
        names = [folder.rpartition("/")[2] for folder in folders]
        return [name for name in names if self._members(kind, batch, name)]

    def _run_that_counts(self, batch: int) -> str | None:
        """Return the run whose reports of a batch count: our own, or the last one before it."""
        runs = self._runs_in("reports", batch) or self._runs_in("workers", batch)
        order = self.runs()
        own = None if self.run is None else run_name(self.run)
        if own in runs:
            return own
        limit = order.get(own, 1 << 62) if own is not None else 1 << 62
        earlier = [(order.get(name, -1), name) for name in runs if order.get(name, -1) < limit]
        return max(earlier)[1] if earlier else None

    def _members(self, kind: str, batch: int, run: str) -> dict[int, str]:
        """Return the finished files of one batch and run by source or worker, in order."""
        pattern = re.compile(rf"{kind}/\d+/[^/]+/{ROLES[kind]}-(\d{{5,}})\.arrow")
        names = self._files.files(f"{kind}/{padded('batch', batch, 8)}/{run}")
        matches = (pattern.fullmatch(name) for name in names)
        return dict(sorted((int(match[1]), match[0]) for match in matches if match))

    def _members_that_count(self, kind: str, batch: int) -> dict[int, str]:
        run = self._run_that_counts(batch)
        return self._members(kind, batch, run) if run is not None else {}

    def _each_member(self, kind: str, batch: int) -> Iterator[tuple[int, Entry]]:
        for member, name in self._members_that_count(kind, batch).items():
            entry = self._read(name)
            if entry is not None:  # not purged since it was listed
                yield member, entry

    def _member(self, kind: str, batch: int, member: int, run: str | None) -> str:
        return member_name(kind, batch, run_name(self.run if run is None else run), member)
