"""Which micro-batch this is: Spark's offset log stamps each one with a time.

A micro-batch that runs again has the same stamp. After a checkpoint was rolled back, or a copy of
it was continued, there may be two micro-batches with the same number. Their stamps differ. A task
sees the stamp of its own micro-batch. Those of earlier ones are in the checkpoint. A task is not
told where that is, so it looks beside the ledger and where the settings say.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from skewless.spark.ledger.files import LedgerCorrupt
from skewless.spark.ledger.folder import Folder, open_folder, parent, shown

#: Settings of the session: where checkpoints are.
CHECKPOINT_SETTINGS = ("spark.skewless.checkpoint", "spark.sql.streaming.checkpointLocation")
#: The most folders beside a ledger that are looked into.
_MOST_FOLDERS = 1_000


@dataclass(frozen=True)
class SeenOffsets:
    """What a task sees of the offset log."""

    query: str  # its id, which is in the checkpoint too
    batch: int  # that runs
    now: int  # the stamp of that batch
    places: tuple[str, ...]  # that may be the checkpoint, or may have it directly below them

    def stamp(self, batch: int) -> int | None:
        """Return the stamp of a micro-batch, or None if it is not known."""
        if batch == self.batch:
            return self.now
        # Copies of a checkpoint have the same id. The running one has just planned a micro-batch.
        places = chain.from_iterable(map(_folders, self.places))
        found = {self._stamp_in(folder, name, batch) for folder, name in places} - {None}
        return found.pop() if len(found) == 1 else None

    def searched(self) -> str:
        """Say where the checkpoint was looked for, and what is there instead."""
        found = []
        for place in dict.fromkeys(self.places):
            why = "has no checkpoint of it"
            try:
                open_folder(place).folders("")
            except (OSError, ValueError) as error:
                why = f"cannot be listed ({error})"
            found.append(f"{shown(place)} {why}")
        return "; ".join(found)

    def _stamp_in(self, folder: Folder, name: str, batch: int) -> int | None:
        """Return the stamp that a folder has, if it is the checkpoint of this run of the query."""
        # Somebody else's folder may be closed to us, or hold other things by these names.
        with contextlib.suppress(OSError, LedgerCorrupt):
            if (
                _lines(folder.read(f"{name}metadata"))[:1] == [{"id": self.query}]
                and _stamp(folder.read(f"{name}offsets/{self.batch}")) == self.now
            ):
                return _stamp(folder.read(f"{name}offsets/{batch}"))
        return None


@dataclass(frozen=True)
class Checkpoint:
    """The offset log of a checkpoint whose folder is known."""

    folder: Folder
    place: str  # for messages

    def query(self) -> str | None:
        """Return the id of the query."""
        found = [line for line in _lines(self.folder.read("metadata")) if isinstance(line, dict)]
        return str(found[0]["id"]) if found and "id" in found[0] else None

    def stamp(self, batch: int) -> int | None:
        """Return the stamp of a micro-batch, or None if it is not known."""
        return _stamp(self.folder.read(f"offsets/{batch}"))

    def searched(self) -> str:
        """Say where the offset log is."""
        return f"It is {self.place}"

    def last_commit(self) -> int | None:
        """Return the last micro-batch that is committed, or None if there is none."""
        names = (name.rpartition("/")[2] for name in self.folder.files("commits"))
        return max((int(name) for name in names if name.isdigit()), default=None)


#: What has the stamps of micro-batches, in milliseconds.
OffsetLog: TypeAlias = SeenOffsets | Checkpoint


def places_of(ledger: str, settings: tuple[str, ...], *, per_query: bool) -> tuple[str, ...]:
    """List the places to look for the checkpoint of a query that has this ledger."""
    above = parent(ledger)
    return (*settings, above, *((parent(above),) if per_query else ()))


def _folders(place: str) -> list[tuple[Folder, str]]:
    """Return a folder and those in it, each as what is before the names in it."""
    try:
        folder = open_folder(place)
        inside = folder.folders("")[:_MOST_FOLDERS]
    except (OSError, ValueError):  # such as an address that only Spark knows
        return []
    return [(folder, ""), *((folder, f"{name}/") for name in inside)]


def _stamp(data: bytes | None) -> int | None:
    for line in _lines(data):
        found = line.get("batchTimestampMs") if isinstance(line, dict) else None
        if type(found) is int:
            return found
    return None


def _lines(data: bytes | None) -> list[Any]:
    """Return the lines of a file of Spark that are JSON."""
    found = []
    for line in (data or b"").splitlines():
        with contextlib.suppress(ValueError):  # such as the version, in the first line
            found.append(json.loads(line))
    return found
