"""A folder on any filesystem, in which a file is whole or absent, never half written.

On a local disk the first to create a file wins, by a hard link. Elsewhere pyarrow offers no such
thing: S3 and GCS show a file when its upload is complete, the others get it by a move, and in both
cases a second writer at the very same moment replaces the first. There, whoever creates a file
must write what anybody else would have written.

Reports hold the texts of hot keys. On a local disk, files have mode 0600 and folders 0700, unless
they lie in a folder that is made for sharing: with the setgid bit, and writable by its group.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

#: These show a file when its upload is complete, and not before.
_SHOWN_WHEN_COMPLETE = ("s3", "gcs")
#: What disks without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
#: The option by which S3 gets a small file in one request instead of three.
_ONE_REQUEST = "allow_delayed_open"
#: Modes of files and of folders.
_FOR_OWNER = (0o600, 0o700)
_FOR_GROUP = (0o660, 0o2770)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# A colon with something else behind it than a port: name and secret.
_SECRET = re.compile(r"^([A-Za-z][\w+.-]*://)[^/:@?]*:(?!\d+(?:/|$))[^?]*@")


class Folder(Protocol):
    """Files by name below one folder; `/` separates, and folders appear by themselves."""

    def read(self, name: str) -> bytes | None:
        """Return the content, or None when there is no such file."""

    def create(self, name: str, data: bytes) -> bytes:
        """Write the file, durably, unless it is there; return the content that counts."""

    def overwrite(self, name: str, data: bytes) -> None:
        """Write the file, in place of the one that may be there."""

    def files(self, under: str) -> list[str]:
        """Return the names of the files directly below `under`, unfinished ones included."""

    def folders(self, under: str) -> list[str]:
        """Return the names of the folders directly below `under`."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is still there."""

    def delete_folder(self, name: str) -> None:
        """Delete a folder and the files in it, if they are still there."""

    def seconds_since_written(self, name: str) -> float:
        """Return the age of a file; 0 when there is none."""


def absolute(address: str) -> str:
    """Return an address that means the same in every process.

    >>> absolute("s3a://bucket/ledger/")
    's3://bucket/ledger'
    """
    if not address.strip():
        raise ValueError("ledger must be a folder, as a path or as a URI, not ''")
    if not _URI.match(address):
        return str(Path(address).absolute())
    place, mark, options = address.partition("?")
    place = re.sub(r"^s3[an]:", "s3:", place)  # as Spark writes it
    return place.rstrip("/") + mark + options


def require_folder(address: str) -> None:
    """Raise ValueError where no folder can be: at a file, below a file, or nowhere."""
    if _URI.match(address):
        return
    try:
        there = next(path for path in (Path(address), *Path(address).parents) if path.exists())
    except OSError as error:  # such as a name that is too long
        raise ValueError(f"ledger: {address!r} cannot be a folder: {error.strerror}") from None
    if not there.is_dir():
        raise ValueError(f"ledger must be a folder, not {address!r}: {str(there)!r} is a file")


def below(address: str, name: str) -> str:
    """Return the address of a folder inside another; the options of a URI stay at its end.

    >>> below("s3://bucket/ledger?region=eu-west-1", "query-1")
    's3://bucket/ledger/query-1?region=eu-west-1'
    """
    if not _URI.match(address):
        return str(Path(address) / name)
    place, mark, options = address.partition("?")
    return f"{place}/{quote(name, safe='')}{mark}{options}"


def shown(address: str) -> str:
    """Return the address as messages may show it, without secrets.

    >>> shown("s3://name:secret@bucket/ledger?region=eu-west-1")
    's3://bucket/ledger'
    """
    if not _URI.match(address):
        return address
    return _SECRET.sub(r"\1", address).split("?")[0]


def open_folder(address: str) -> Folder:
    """Return the folder at a path or URI; connections are made once per process."""
    # By process: a connection to S3 does not survive a fork.
    return _open(address, os.getpid())


@functools.lru_cache(maxsize=32)
def _open(address: str, process: int) -> Folder:
    if not _URI.match(address):
        return LocalFolder(Path(address))
    # Whatever a URI may not hold as it is, such as blanks; what is escaped already stays.
    uri = quote(address, safe="%/:?#[]@!$&'()*+,;=~")
    try:
        filesystem, root = _connect(uri)
    except (OSError, ValueError) as error:
        reason = str(error).replace(uri, shown(address))
        kind = OSError if isinstance(error, OSError) else ValueError
        # Not `from error`: its text holds the whole address.
        raise kind(f"the ledger folder {shown(address)} cannot be opened: {reason}") from None
    if isinstance(filesystem, fs.LocalFileSystem):
        return LocalFolder(Path(root))
    if not root.strip("/"):
        raise ValueError(f"ledger must name a folder, and {shown(address)} names none")
    return RemoteFolder(filesystem, root, shown(address))


def _connect(uri: str) -> tuple[Any, str]:
    if uri.startswith("s3:") and _ONE_REQUEST not in uri:
        with contextlib.suppress(ValueError):  # an older pyarrow does not know the option
            return _connect(f"{uri}{'&' if '?' in uri else '?'}{_ONE_REQUEST}=true")
    filesystem, root = fs.FileSystem.from_uri(uri)
    return filesystem, root


def _unfinished(name: str) -> str:
    """Return a name of our own beside `name`, which no listing takes for a finished file."""
    folder, _, last = name.rpartition("/")
    return f"{folder}/.{last}.{uuid.uuid4().hex}.tmp".lstrip("/")


@contextlib.contextmanager
def _naming(place: str) -> Iterator[None]:
    """Make an error in writing say which folder it is about."""
    try:
        yield
    except OSError as error:
        text = f"the ledger in {place} cannot be written: {error.strerror or error}"
        raise (OSError(error.errno, text) if error.errno else OSError(text)) from error


class LocalFolder:
    """A folder on a disk of this machine, or mounted like one."""

    def __init__(self, root: Path) -> None:
        """Point to `root`, which need not exist."""
        self.root = root

    def read(self, name: str) -> bytes | None:
        """See `Folder`."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bytes:
        """See `Folder`."""
        with _naming(str(self.root)):
            there = self.read(name)
            while there is None:
                if self._create(name, data):
                    return data
                there = self.read(name)  # None only if it was deleted since
            return there

    def overwrite(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        with _naming(str(self.root)), self._written(name, data) as unfinished:
            unfinished.replace(self.root / name)

    def files(self, under: str) -> list[str]:
        """See `Folder`."""
        return self._list(under, folders=False)

    def folders(self, under: str) -> list[str]:
        """See `Folder`."""
        return self._list(under, folders=True)

    def delete(self, name: str) -> None:
        """See `Folder`."""
        (self.root / name).unlink(missing_ok=True)

    def delete_folder(self, name: str) -> None:
        """See `Folder`."""
        for file in self.files(name):
            self.delete(file)
        try:
            (self.root / name).rmdir()
        except OSError as error:  # gone, or somebody writes into it
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def seconds_since_written(self, name: str) -> float:
        """See `Folder`."""
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
        """Give a finished file under an unfinished name, and take that name away afterwards."""
        path = self.root / _unfinished(name)
        self._make(path.parent)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(path, flags, _FOR_OWNER[0]), "wb") as file:
                if _is_shared(path.parent):
                    path.chmod(_FOR_GROUP[0])
                _fill(file, data)
                # An empty file after a power cut would be a damaged one, and stop the query.
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


class RemoteFolder:
    """A folder on any other filesystem that pyarrow reaches."""

    def __init__(self, filesystem: Any, root: str, place: str) -> None:
        """Point to `root` on a pyarrow filesystem; messages call it `place`."""
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self.place = place

    def read(self, name: str) -> bytes | None:
        """See `Folder`."""
        path = self._path(name)
        try:
            with self.filesystem.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError:
            if self._is_there(path):
                raise
            return None

    def create(self, name: str, data: bytes) -> bytes:
        """See `Folder`."""
        there = self.read(name)
        if there is not None:
            return there
        self.overwrite(name, data)
        # Somebody may have written after us; we then go by what everybody will read.
        there = self.read(name)
        return data if there is None else there

    def overwrite(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        with _naming(self.place):
            if self.filesystem.type_name in _SHOWN_WHEN_COMPLETE:
                self._upload(name, data)
                return
            unfinished = _unfinished(name)
            self.filesystem.create_dir(self._path(name).rpartition("/")[0], recursive=True)
            try:
                self._upload(unfinished, data)
                self.filesystem.move(self._path(unfinished), self._path(name))
            except OSError:
                with contextlib.suppress(OSError):
                    self.delete(unfinished)
                raise

    def files(self, under: str) -> list[str]:
        """See `Folder`."""
        return self._list(under, fs.FileType.File)

    def folders(self, under: str) -> list[str]:
        """See `Folder`."""
        return self._list(under, fs.FileType.Directory)

    def delete(self, name: str) -> None:
        """See `Folder`."""
        path = self._path(name)
        try:
            self.filesystem.delete_file(path)
        except OSError:
            if self._is_there(path):
                raise

    def delete_folder(self, name: str) -> None:
        """See `Folder`."""
        path = self._path(name)
        try:
            self.filesystem.delete_dir(path)
        except OSError:
            if self._is_there(path):
                raise

    def seconds_since_written(self, name: str) -> float:
        """See `Folder`."""
        written = self.filesystem.get_file_info(self._path(name)).mtime
        return 0.0 if written is None else time.time() - written.timestamp()

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    def _is_there(self, path: str) -> bool:
        return bool(self.filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def _list(self, under: str, kind: Any) -> list[str]:
        found = self.filesystem.get_file_info(
            fs.FileSelector(self._path(under), allow_not_found=True)
        )
        names = sorted(one.base_name for one in found if one.type == kind)
        return [f"{under}/{name}".lstrip("/") for name in names]

    def _upload(self, name: str, data: bytes) -> None:
        # No `with`: after a failed write it would complete the upload of a part.
        stream = self.filesystem.open_output_stream(self._path(name), compression=None)
        stream.write(pa.py_buffer(data))
        stream.close()
