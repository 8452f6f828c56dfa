"""Files of versions: a table of states as an Arrow IPC stream, sealed, read by memory map.

A version is what one worker changed in one batch. Its file also names the files below it: for each
key, the last file that has it counts. A file that names none is a snapshot. The files get smaller
from the bottom to the top, so there are few of them, and merging seldom writes a key again. The
report of the worker is the second block of the file. So both are there or neither, and the disk
must confirm one file only.
"""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from skewless.spark.ledger import files as blocks
from skewless.spark.ledger.files import Entry, LedgerCorrupt, readable
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.local_folder import LocalFolder
from skewless.spark.ledger.names import VersionName, version_name
from skewless.spark.state.versions import state_tables
from skewless.spark.state.versions.state_tables import StateLayout, values_of

if TYPE_CHECKING:
    from skewless.spark.state.versions.held_state import HeldState

T = TypeVar("T")
FORMAT = "skewless-version"
#: What is wrong if several workers share a partition.
NOT_A_PARTITION = (
    "each worker of process must have its own partition: a coalesce after process, or a union, "
    "prevents that. Use repartition instead of coalesce, and write each side of a union separately"
)
#: A file is merged into the one above it while it has at most this many times its rows.
_MERGE_FACTOR = 2
#: If a key has several rows, files are merged up to so many bytes. A larger file stays as it is,
#: until all its rows have ended, or too many rows of all files do not count any more.
_MERGED_BYTES = 64 << 20
#: The rows that count are at least half of all, but for so many.
_FEW_ROWS = 1 << 12
#: Files of local disks that a process keeps mapped. A map is neither memory nor a descriptor, but
#: Linux allows 65,530 of them. If a micro-batch needs more files, each is checked again.
_MAPPED_FILES = 1 << 12
#: After so many new maps, those of deleted files go: they keep the files' blocks on disk.
_NEW_MAPS = 128
#: Files of other filesystems are completely in memory, so their bytes are limited.
_FETCHED_BYTES = 256 << 20


class KeptFiles(Generic[T]):
    """A cache that is bounded by bytes; a file larger than the bound is not kept."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.n_bytes = 0
        self._files: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, fetch: Callable[[], tuple[T, int]]) -> T:
        """Return the file of this name; `fetch` returns a missing one and its number of bytes."""
        with self._lock:
            if name in self._files:
                self._files.move_to_end(name)
                return self._files[name][0]
        found, n_bytes = fetch()  # without the lock: it may take long
        with self._lock:
            if name not in self._files and n_bytes <= self.most_bytes:
                self._files[name] = found, n_bytes
                self.n_bytes += n_bytes
            while self.n_bytes > self.most_bytes:
                _, (_, gone) = self._files.popitem(last=False)
                self.n_bytes -= gone
        return found

    def forget(self, is_gone: Callable[[Any], bool]) -> None:
        """Forget the files whose names are those of files that are gone."""
        with self._lock:
            for name in list(filter(is_gone, self._files)):
                self.n_bytes -= self._files.pop(name)[1]

    def clear(self) -> None:
        """Forget all files."""
        with self._lock:
            self._files.clear()
            self.n_bytes = 0


@dataclass(frozen=True, eq=False)
class Version:
    """One file: what it holds, and the files below it from the bottom up.

    `about` has JSON values: `held` keys and `bytes`, including the files below; `soonest`, the
    earliest time at which a state of this file ends; and `last`, the latest one, if a key has
    several rows.
    """

    table: pa.Table  # the rows that changed, in the order of their hashes
    below: tuple[str, ...] = ()  # names of the files that it builds on
    about: dict[str, Any] = field(default_factory=dict)
    where: str = ""  # the file, for messages


_fetched: KeptFiles[Version] = KeptFiles(_FETCHED_BYTES)
_mapped: KeptFiles[Version] = KeptFiles(_MAPPED_FILES)  # each counts as one
_maps = itertools.count(1)


def block_of(version: Version, after: bytes = b"") -> bytes:
    """Return the block of a version, the same bytes for the same content, and what comes after."""
    about = {**version.about, "below": list(version.below)}
    return blocks.table_block(version.table, FORMAT, about, after=after)


def states_of(data: Any) -> Any:
    """Return the block of states in a file, before that of the report."""
    begin = 0 if data is None else blocks.begin_of_last(data)
    return data[:begin] if begin > 0 else data


def write(
    ledger: Ledger, name: VersionName, version: Version, report: Entry, attempt: int | None = None
) -> None:
    """Write a version, and the report of its worker, unless an earlier attempt of this run did.

    Raises RuntimeError if another attempt of the task wrote other states. It also does so if the
    same attempt has written the file before: then one task works for several workers, and would
    return the results of one of them several times. Plans do not read the number of the attempt.
    """
    token, where = uuid.uuid4().hex, f"{ledger.place}/{name.file}"
    told = Entry(report.arrays, report.about | {"attempt": attempt, "written": token})
    mine = block_of(version, blocks.to_bytes(told))
    there = ledger.files.create(name.file, mine)
    if there == mine:
        return
    # The file may be that of an attempt that has failed because it works for several workers. So
    # this attempt leaves a trace file, which is deleted with the folder.
    trace = f"{name.file}.attempt-{attempt}"
    if attempt is not None and (
        blocks.from_bytes(there, where).about.get("attempt") == attempt
        or ledger.files.create(trace, token.encode()) != token.encode()
    ):
        raise RuntimeError(NOT_A_PARTITION)
    if states_of(there) != states_of(mine):
        raise RuntimeError(
            f"{where}: another attempt of this task wrote other states. A processor must return "
            "the same states for the same records: without clocks, random numbers, or the order of "
            "a set. Records must also come in the same order: if they are shuffled before process, "
            "give order_by="
        )


def read(ledger: Ledger, file: str) -> Version:
    """Return a version; raise LedgerCorrupt if it is gone or damaged."""
    folder, where = ledger.files, f"{ledger.place}/{file}"
    if isinstance(folder, LocalFolder):
        path = folder.root / file
        try:
            status = path.stat()
        except FileNotFoundError:
            raise _gone(where) from None
        # By process: a memory map must not be shared by accident. By time: the file may be a
        # restored copy.
        name = path, status.st_size, status.st_mtime_ns, os.getpid()
        return _mapped.get(name, lambda: (_map(path, where, status.st_size), 1))

    def fetch() -> tuple[Version, int]:
        data = folder.read(file)
        if data is None:
            raise _gone(where)
        return _parsed(pa.py_buffer(data), where), len(data)

    return _fetched.get((ledger.folder, file, os.getpid()), fetch)


def _map(path: Path, where: str, size: int) -> Version:
    if next(_maps) % _NEW_MAPS == 0:
        _mapped.forget(lambda name: not name[0].exists())
    if not size:
        raise LedgerCorrupt(f"{where} is truncated or not a file of skewless: it has no seal")
    with pa.memory_map(str(path)) as source:
        return _parsed(source.read_buffer(), where)


def _gone(where: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{where} is gone, and states need it: the ledger and the checkpoint must be kept, copied "
        "and restored together"
    )


def _parsed(buffer: Any, where: str) -> Version:
    with readable(where):
        table, about = blocks.block_table(states_of(memoryview(buffer).cast("B")), FORMAT, where)
        below = tuple(about.pop("below"))
        _require_sound(table, below, about)
    return Version(table, below, about, where)


def _require_sound(table: pa.Table, below: Sequence[str], about: dict[str, Any]) -> None:
    ours = state_tables.OURS | (state_tables.ROWS if state_tables.ROW in table.column_names else {})
    for name, kind in ours.items():
        column = table.column(name)
        if column.type != kind or column.null_count:
            raise ValueError(f"column {name!r} must be {kind} without nulls")
    hashes = state_tables.hashes_of(table)
    if not (hashes[1:] >= hashes[:-1]).all():  # else a key would not be found
        raise ValueError("the hashes of its keys do not ascend")
    if any(version_name(file) is None for file in below):
        raise ValueError("it builds on what is not a version")
    for name in ("held", "bytes", "soonest"):
        if type(about[name]) is not int:
            raise ValueError(f"{name} must be a whole number")


def stack(ledger: Ledger, file: str) -> list[Version]:
    """Return the files that make up a worker's state in one batch, from the bottom up."""
    top = read(ledger, file)
    return [*(read(ledger, name) for name in top.below), top]


def held_rows(
    ledger: Ledger, names: Iterable[VersionName], spread: Collection[int] = ()
) -> list[str]:
    """Return the rows of all keys that have a state, in one order wherever the keys are.

    Keys that are `spread` are left out, by the hashes of their parts 0: which rows a part holds
    depends on the number of parts. The last column of their keys is the part.
    """
    stacks = [stack(ledger, name.file) for name in names]
    # The newest files have all fields, even if the query began with fewer.
    layout = state_tables.layout_of(max((files[-1].table.schema for files in stacks), key=len))
    held = [layout.newest([table_of(layout, file) for file in files]) for files in stacks]
    rows = [row for table in held for row in layout.live(table).to_pylist()]
    if spread:
        part = layout.key_names[-1]
        rows = [row for row in rows if row[part] == 0 and row[state_tables.HASH] not in spread]
    return sorted(map(repr, rows))


def table_of(layout: StateLayout, version: Version) -> pa.Table:
    """Return the rows of a version with the columns of `layout`, or raise LedgerCorrupt."""
    with readable(version.where, "cannot be used"):
        return layout.fitted(version.table)


def merged(
    layout: StateLayout, changed: pa.Table, held: HeldState, now: int | None, size: dict[str, int]
) -> Version:
    """Return the next version: rows that have changed, merged with those of the topmost files.

    `held` is the state so far. `now` is the watermark, by which `changed` says of all rows that
    have ended. `size` is how many rows are `held` now, and their `bytes`.
    """
    files = held.files
    first, n_below, n_rows, n_bytes = 0, len(files), changed.num_rows, changed.nbytes
    if layout.rows and now is not None:
        while first < n_below and files[first].about.get("last", state_tables.FOREVER) <= now:
            first += 1  # nothing lies below it that its rows hide
    while n_below > first and files[n_below - 1].table.num_rows <= _MERGE_FACTOR * n_rows:
        n_bytes += files[n_below - 1].table.nbytes
        if layout.has_items and n_bytes > _MERGED_BYTES:
            break
        n_below -= 1
        n_rows += files[n_below].table.num_rows
    parts = [table_of(layout, file) for file in files[n_below:]]
    table = layout.trimmed(layout.newest([*parts, changed]))
    below = files[first:n_below]
    n_stored = sum(file.table.num_rows for file in below) + table.num_rows
    if layout.growing and below and n_stored > 2 * size["held"] + _FEW_ROWS:
        lowest, *others = [table_of(layout, file) for file in below]
        table = layout.newest([_lifted(layout, lowest, [*others, table]), table])
        first += 1
    if n_below == first:  # no file below that a row without a state would hide
        table = layout.live(table)
    return version_of(layout, table, size, held.names[first:n_below])


def version_of(
    layout: StateLayout, table: pa.Table, size: dict[str, int], below: Sequence[str] = ()
) -> Version:
    """Return a version with these rows on top of some files; `size` includes those files."""
    ends = values_of(table, state_tables.UNTIL)[values_of(table, state_tables.LIVE)]
    about = size | {"soonest": int(ends.min(initial=state_tables.FOREVER))}
    if layout.rows:
        about["last"] = int(ends.max(initial=state_tables.NO_TIME))
    return Version(table, tuple(below), about)


def _lifted(layout: StateLayout, lowest: pa.Table, above: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of the lowest table that count, with the newest heads of their keys."""
    at = np.flatnonzero(state_tables.values_of(lowest, state_tables.LIST) == state_tables.HEAD)
    heads = lowest.take(pa.array(at))
    is_old, parts = np.zeros(at.size, np.bool_), [lowest]
    for table in above:
        rows = layout.find(table, state_tables.hashes_of(heads), layout.keys(heads))
        is_old |= rows >= 0
        parts.append(table.take(pa.array(rows[rows >= 0])))
    found = layout.live(layout.newest(parts))
    # A head that a file above has too is needed only for items.
    begins = np.flatnonzero(state_tables.values_of(found, state_tables.LIST) == state_tables.HEAD)
    new = found.take(pa.array(begins))
    places = layout.find(heads, state_tables.hashes_of(new), layout.keys(new))
    is_alone = np.diff(np.append(begins, found.num_rows)) == 1
    stays = np.ones(found.num_rows, np.bool_)
    stays[begins[is_alone & is_old[places]]] = False
    return found.filter(pa.array(stays))
