"""The ledger: how the tasks of a streaming query share what they learn, by files in one folder.

No file is ever seen half written, and a task that is run again writes the same files again. `names`
lists the files. What belongs to a batch is an `Entry`: published, which the first task does that
needs it, or written by its one task.

Every restart of a query is another run. A task may outlive its run and write late, but only into
the folder of its run. Tasks read the reports of their run. That run has finished the batch before,
so its reports are complete and do not change. Right after a restart there are none, and the reports
of the last earlier run count.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from skewless.plumbing.arguments import path_text
from skewless.spark.ledger import files as content
from skewless.spark.ledger import names as file_names
from skewless.spark.ledger.files import Entry, LedgerCorrupt, LedgerTooNew, from_bytes, to_bytes
from skewless.spark.ledger.folder import Folder, absolute, below, open_folder, require_folder, shown
from skewless.spark.ledger.names import KINDS, PLANS, SOURCES, STATE, WORKERS, run_name

#: The setting of the session with a folder in which each query has its own ledger.
LEDGER_SETTING = "spark.skewless.ledger"
_IDENTITY, _QUERY = "identity.json", "query.json"
#: Bytes at the end of a version that are read first: nearly every report is shorter.
_REPORT_BYTES = 256 << 10
#: Seconds. No task takes that long to write a few hundred bytes: the task has died.
_SURELY_DEAD_S = 3600.0
#: The runs that always stay registered: to look for files of older ones, many folders are listed.
KEPT_RUNS = 16


class LedgerMismatch(ValueError):  # noqa: N818 - it is read as a sentence
    """The ledger was made for something else than it is about to be used for."""


def statement(what: str, value: Any) -> bytes:
    """Return a small text file that people may read."""
    try:
        told = {"format": f"skewless-{what}", "version": content.VERSION, what: value}
        return (json.dumps(told, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be text and finite numbers: {error}") from None


def read_statement(data: bytes, what: str, where: str, kind: type) -> Any:
    """Return the value in the text file, of this type, or raise LedgerCorrupt."""
    with content.readable(where):
        told = content.from_json(data)
        content.require_version(told["format"], told["version"], f"skewless-{what}", where)
        if not isinstance(told.get(what), kind):
            raise ValueError(f"it has no {what}, or one of another type")
        return told[what]


def require_same(
    found: Mapping[str, Any], wanted: Mapping[str, Any], place: str, drawn: Collection[str]
) -> None:
    """Raise LedgerMismatch unless the identity of a ledger is the wanted one, but for `drawn`."""
    if ("process" in found) != ("process" in wanted):
        verb = "process" if "process" in found else "route or aggregate"
        raise LedgerMismatch(f"the ledger in {place} was written by {verb}: use another")
    for field in dict.fromkeys([*wanted, *found]):
        are_there = field in found and field in wanted
        are_same = are_there and (field in drawn or found[field] == wanted[field])
        if are_same or field == "skewless":  # the version is only information
            continue
        if field == "state_layout" and field in wanted:
            version = found.get("skewless")
            wrote = "by an older skewless" if version is None else f"by skewless {version}"
            raise LedgerMismatch(
                f"the ledger in {place} was written {wrote}, whose strategy "
                f"{found.get('strategy')} keeps its state in another layout: use another ledger "
                "folder, or the version that this one was written by"
            )
        was = f"{field}={found[field]}" if field in found else f"no {field}"
        raise LedgerMismatch(
            f"the ledger in {place} was written for {was}, not {wanted.get(field, 'without it')}: "
            "use another ledger folder, or the settings that this one was written for"
        )


__all__ = ["Entry", "Ledger", "LedgerCorrupt", "LedgerMismatch", "LedgerTooNew"]


@dataclass(frozen=True)
class Ledger:
    """Plans and reports in a folder: small, picklable, and the same in every process.

    A plan must be computed from what is the same for all tasks. So a report is either the same in
    every attempt of its task, or that of the first attempt. On a local disk, the first task to
    publish a plan wins. On other filesystems, two tasks that publish at the same moment replace
    each other's file, which is harmless if the plans are equal.

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
        folder = absolute(path_text(self.folder, "ledger", "a folder, as a path or as a URI"))
        require_folder(folder)
        object.__setattr__(self, "folder", folder)

    def __repr__(self) -> str:
        """Show the folder without secrets."""
        return f"Ledger({self.place!r})"

    @property
    def files(self) -> Folder:
        """The folder, opened."""
        return open_folder(self.folder)

    @property
    def place(self) -> str:
        """The folder as messages show it, without secrets."""
        return shown(self.folder)

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
            self.files.create(f"runs/{number:08}.{name}.json", statement("run", run))
        return replace(self, run=run)

    def runs(self) -> dict[str, int]:
        """Return the numbers of all registered runs by name; the earliest of a name counts."""
        return {name: number for number, name, _ in reversed(_registered(self.files))}

    def claim(self, identity: Mapping[str, Any], *, drawn: Collection[str] = ()) -> None:
        """Write what this ledger is for; raise LedgerMismatch if it is for something else.

        Fields that were `drawn` at random may differ; the value in the ledger counts.
        """
        there = self.files.create(_IDENTITY, statement("identity", dict(identity)))
        require_same(self._identity(there), identity, self.place, drawn)

    def check(self, identity: Mapping[str, Any], *, drawn: Collection[str] = ()) -> bool:
        """Return whether the ledger was claimed; raise LedgerMismatch if for something else."""
        there = self.identity()
        if there is not None:
            require_same(there, identity, self.place, drawn)
        return there is not None

    def identity(self) -> dict[str, Any] | None:
        """Read the identity that the ledger was claimed for; None before it was claimed."""
        there = self.files.read(_IDENTITY)
        return None if there is None else self._identity(there)

    def _identity(self, there: bytes) -> dict[str, Any]:
        where = f"{self.place}/{_IDENTITY}"
        identity: dict[str, Any] = read_statement(there, "identity", where, dict)
        for field, value in identity.items():
            if not isinstance(value, str | int | float):
                text = f"{where} is not readable: {field[:40]!r} is not a text or number"
                raise LedgerCorrupt(text)
        return identity

    def bind(self, query_id: str) -> None:
        """Give the ledger to this query; raise LedgerMismatch if it belongs to another."""
        there = self.files.create(_QUERY, statement("query", query_id))
        owner = read_statement(there, "query", f"{self.place}/{_QUERY}", str)
        if owner != query_id:
            raise LedgerMismatch(
                f"the ledger in {self.place} belongs to the query {owner}, not {query_id}: "
                "give this query another ledger folder, or delete that folder "
                "if the other query will never run again"
            )

    def owner(self) -> str | None:
        """Return the id of the query that the ledger belongs to, or None before its first batch."""
        there = self.files.read(_QUERY)
        where = f"{self.place}/{_QUERY}"
        return None if there is None else str(read_statement(there, "query", where, str))

    def publish(self, name: str, entry: Entry) -> Entry:
        """Write an entry unless there is one; return the one that counts."""
        return from_bytes(self.files.create(name, to_bytes(entry)), f"{self.place}/{name}")

    def write(self, name: str, entry: Entry) -> None:
        """Write an entry, in place of that of an earlier attempt."""
        self.files.overwrite(name, to_bytes(entry))

    def read(self, name: str) -> Entry | None:
        """Return an entry, or None; that of a version is the report of its worker."""
        last = _REPORT_BYTES if file_names.version_name(name) else None
        data = self.files.read(name, last)
        if data is not None and len(data) == last and content.begin_of_last(data) < 0:
            data = self.files.read(name)
        return None if data is None else from_bytes(data, f"{self.place}/{name}")

    def members(self, kind: str, batch: int) -> dict[str, list[str]]:
        """Return the finished files of one batch by run, in the order of sources or workers.

        Keyed state purges the plan of a run first, and leaves versions that newer ones build on. So
        a run without a plan is left out there.
        """
        files, found = self.files, {}
        for folder in files.folders(file_names.batch_folder(kind, batch)):
            names = files.files(folder)
            members = sorted(filter(file_names.MEMBER.fullmatch, names), key=file_names.member_of)
            if members and (kind != STATE or folder + file_names.PLAN in names):
                found[folder.rpartition("/")[2]] = members
        return found

    def counted(self, kind: str, batch: int) -> dict[int, str]:
        """Return the files of the reports of `batch` that count, by source or worker, in order.

        Those of the own run count, else those of the last run before it.
        """
        sources = self.members(SOURCES, batch)
        found = sources if sources and kind == SOURCES else self._of_workers(batch)
        runs, order, run = sources or found, self.runs(), run_name(self.run)
        if self.run is None or run not in runs:
            limit = order.get(run, 1 << 62)
            numbers = ((order.get(one, -1), one) for one in runs)
            _, run = max((one for one in numbers if one[0] < limit), default=(-1, ""))
        names = [] if kind == SOURCES and not sources else found.get(run, [])
        return {file_names.member_of(name): name for name in names}

    def reports(self, kind: str, batch: int) -> Iterator[tuple[int, Entry]]:
        """Yield the reports of `batch` that count, in order; one is in memory at a time."""
        for member, name in self.counted(kind, batch).items():
            entry = self.read(name)
            if entry is not None:  # not purged since it was listed
                yield member, entry

    def _of_workers(self, batch: int) -> dict[str, list[str]]:
        """Return the files with reports of workers by run: of keyed state, or of `aggregate`."""
        return {**self.members(STATE, batch), **self.members(WORKERS, batch)}

    def batches(self) -> list[int]:
        """Return all batches of which the ledger holds a plan of sources or a report, in order."""
        found = set(self.listed(PLANS))
        for kind in KINDS:
            found |= {one for one in self.listed(kind) if one in found or self.members(kind, one)}
        return sorted(found)

    def listed(self, *kinds: str) -> list[int]:
        """Return the batches that have a plan of sources, or a folder of another kind, in order."""
        files = self.files
        names = (files.files(kind) if kind == PLANS else files.folders(kind) for kind in kinds)
        found = {file_names.batch_of(name) for some in names for name in some}
        return sorted(batch for batch in found if batch is not None and batch >= 0)

    def newest(
        self, runs_of: Callable[[int], Iterable[str]] | None = None
    ) -> tuple[int, str] | None:
        """Return the newest batch that the last run has, and that run.

        After a rollback of the checkpoint, earlier runs may have newer batches, which were
        abandoned. They count if no later run has any. `runs_of` are the runs that have a batch;
        None: those that have reported on it.
        """
        order = self.runs()
        last = max(order.values(), default=-1)
        runs_of = runs_of or (
            lambda batch: [*self.members(SOURCES, batch), *self._of_workers(batch)]
        )
        found = (-2, -1, "")  # the number of a run, a batch, that run
        for batch in reversed(self.listed(*KINDS)):
            newest = [(order.get(run, -1), batch, run) for run in runs_of(batch)]
            found = max(found, max(newest, default=found), key=itemgetter(0))
            if found[0] == last:
                break
        return found[1:] if found[2] else None

    def purge(self, before: int, needed: AbstractSet[str] = frozenset()) -> None:
        """Delete what batches before `before` have; other tasks may do the same.

        The plan of the first batch to keep should exist: the newest plan holds what was learned,
        and this deletes it too if it is older. Versions that newer ones build on, `needed`, stay.
        """
        files = self.files
        for name in files.files(PLANS):
            match = file_names.OF_PLANS.fullmatch(name)
            if match and int(match[1]) < before:
                files.delete(name)
        unfinished = file_names.UNFINISHED_STATEMENT
        for name in filter(unfinished.fullmatch, files.files("") + files.files("runs")):
            if files.seconds_since_written(name) > _SURELY_DEAD_S:
                files.delete(name)
        for kind in KINDS:
            for folder in files.folders(kind):
                batch = file_names.batch_of(folder)
                if batch is not None and batch < before:
                    _purge_batch(files, folder, needed)
        _purge_runs(files)


def ledger_of_stream(given: Ledger | None, spark: Any) -> tuple[Ledger | None, bool]:
    """Return the given ledger, else that of the setting, and whether it has one per query."""
    if given is not None:
        return given, False
    root = spark.conf.get(LEDGER_SETTING, None)
    return (None, False) if root is None else (Ledger(str(root)), True)


def _purge_batch(files: Folder, folder: str, needed: AbstractSet[str]) -> None:
    for run in files.folders(folder):
        names = files.files(run)
        if run + file_names.PLAN in names:
            files.delete(run + file_names.PLAN)  # first: without it, the run is not whole
        if needed.isdisjoint(names):
            files.delete_folder(run)
            continue
        for name in names:
            if name not in needed:
                files.delete(name)
    if not files.folders(folder):
        files.delete_folder(folder)


def _purge_runs(files: Folder) -> None:
    """Delete registrations of runs that have no files left.

    A task of an abandoned run may still be at work. It would register its run again, as the latest
    one. So a run stays registered until the one after it is old.
    """
    registered = _registered(files)
    pairs = list(itertools.pairwise(registered))[: max(0, len(registered) - KEPT_RUNS)]
    old = [
        (name, file)
        for (_, name, file), (_, _, after) in pairs
        if files.seconds_since_written(after) > _SURELY_DEAD_S
    ]
    batches = (batch for kind in KINDS for batch in files.folders(kind)) if old else ()
    used = {run.rpartition("/")[2] for batch in batches for run in files.folders(batch)}
    # The first registration of a name counts, so it is deleted last.
    for name, file in reversed(old):
        if name not in used:
            files.delete(file)


def _registered(files: Folder) -> list[tuple[int, str, str]]:
    """Return the number, the name and the file of each registration of a run, in order."""
    matches = (file_names.RUN.fullmatch(file) for file in files.files("runs"))
    return sorted((int(match[1]), match[2], match[0]) for match in matches if match)
