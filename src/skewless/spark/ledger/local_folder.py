"""A folder on a disk of this machine: the first to create a file wins, by a hard link.

Reports hold the texts of hot keys. So files have mode 0600 and folders 0700, unless they are in a
shared folder: one with the setgid bit that its group can write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skewless.spark.ledger.files import LedgerCorrupt

#: Errors of disks without hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
#: Modes of files and of folders.
_FOR_OWNER = (0o600, 0o700)
_FOR_GROUP = (0o660, 0o2770)


class LocalFolder:
    """A folder on a disk of this machine, or mounted like one."""

    def __init__(self, root: Path) -> None:
        """Point to `root`, which need not exist."""
        self.root = root

    def read(self, name: str, last: int | None = None) -> bytes | None:
        """Return the content, or its `last` bytes, or None when there is no such file."""
        try:
            with (self.root / name).open("rb") as file:
                if last is not None:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - last))
                return file.read()
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            text = f"{self.root / name} is not readable: it is a folder and must be a file"
            raise LedgerCorrupt(text) from None

    def create(self, name: str, data: bytes) -> bytes:
        """Write the file, durably, unless it is there; return the content that counts."""
        with naming_the_folder(str(self.root)):
            there = self.read(name)
            while there is None:
                if self._create(name, data):
                    return data
                there = self.read(name)  # None only if it was deleted since
            return there

    def overwrite(self, name: str, data: bytes) -> None:
        """Write the file; replace it if it exists."""
        with naming_the_folder(str(self.root)), self._written(name, data) as unfinished:
            unfinished.replace(self.root / name)

    def files(self, under: str) -> list[str]:
        """Return the names of the files directly below `under`, unfinished ones included."""
        return self._list(under, folders=False)

    def folders(self, under: str) -> list[str]:
        """Return the names of the folders directly below `under`."""
        return self._list(under, folders=True)

    def delete(self, name: str) -> None:
        """Delete a file, if it is still there."""
        (self.root / name).unlink(missing_ok=True)

    def delete_folder(self, name: str) -> None:
        """Delete a folder and the files in it, if they are still there."""
        for file in self.files(name):
            self.delete(file)
        try:
            (self.root / name).rmdir()
        except OSError as error:  # gone, or another task writes into it
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def seconds_since_written(self, name: str) -> float:
        """Return the age of a file; 0 when there is none."""
        try:
            return time.time() - (self.root / name).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _list(self, under: str, *, folders: bool) -> list[str]:
        try:
            with os.scandir(self.root / under) as found:
                names = sorted(one.name for one in found if one.is_dir() == folders)
        except FileNotFoundError:
            return []
        return [f"{under}/{name}".lstrip("/") for name in names]

    def _create(self, name: str, data: bytes) -> bool:
        path = self.root / name
        with self._written(name, data) as unfinished:
            try:
                path.hardlink_to(unfinished)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if path.exists():
                    return False
                unfinished.replace(path)
        _sync(path.parent)
        return True

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[Path]:
        """Yield a complete file under an unfinished name, and delete that name afterwards."""
        path = self.root / unfinished_name(name)
        self._make(path.parent)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(path, flags, _FOR_OWNER[0]), "wb") as file:
                if _is_shared(path.parent):
                    path.chmod(_FOR_GROUP[0])
                _fill(file, data)
                # An empty file after a power cut would count as damaged and stop the query.
                file.flush()
                os.fsync(file.fileno())
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _make(self, folder: Path) -> None:
        """Make a folder of the ledger, if it is missing."""
        if folder == self.root:
            folder.parent.mkdir(parents=True, exist_ok=True)
        elif not folder.parent.is_dir():
            self._make(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_FOR_OWNER[1])
            if _is_shared(folder.parent):
                folder.chmod(_FOR_GROUP[1])


def unfinished_name(name: str) -> str:
    """Return a unique name beside `name` that no listing takes for a finished file."""
    folder, _, last = name.rpartition("/")
    return f"{folder}/.{last}.{uuid.uuid4().hex}.tmp".lstrip("/")


@contextlib.contextmanager
def naming_the_folder(place: str) -> Iterator[None]:
    """Make errors in writing name the folder."""
    try:
        yield
    except OSError as error:
        text = f"the ledger in {place} cannot be written: {error.strerror or error}"
        raise (OSError(error.errno, text) if error.errno else OSError(text)) from error


def _is_shared(folder: Path) -> bool:
    """Return whether the members of the folder's group share what is in it."""
    wanted = stat.S_ISGID | stat.S_IWGRP
    return folder.stat().st_mode & wanted == wanted


def _fill(file: Any, data: bytes) -> None:
    file.write(data)


def _sync(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    if os.name == "nt":  # pragma: no cover - Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
