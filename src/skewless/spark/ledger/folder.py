"""The folder of a ledger, on any filesystem: a file is complete or absent, never half written.

A path is a `LocalFolder`, a URI that leads elsewhere a `RemoteFolder`. S3 and GCS show a file when
its upload is complete. On other filesystems, the complete file is moved into place. In both cases,
a second writer at the same moment replaces the first. So two tasks that create the same file must
write the same content.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from skewless.plumbing.arguments import shown as shortened
from skewless.spark.ledger.local_folder import LocalFolder, naming_the_folder, unfinished_name

#: The option by which S3 gets a small file in one request instead of three.
_ONE_REQUEST = "allow_delayed_open"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# A colon that is not followed by a port: a name and a secret.
_SECRET = re.compile(r"^([A-Za-z][\w+.-]*://)[^/:@?]*:(?!\d+(?:/|$))[^?]*@")
#: These show a file when its upload is complete, and not before.
_SHOWN_WHEN_COMPLETE = ("s3", "gcs")


class RemoteFolder:
    """A folder on any other filesystem that pyarrow reaches, such as S3, GCS or HDFS."""

    def __init__(self, filesystem: Any, root: str, place: str) -> None:
        """Point to `root` on a pyarrow filesystem; messages call it `place`."""
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self.place = place

    def read(self, name: str, last: int | None = None) -> bytes | None:
        """See `LocalFolder`."""
        path = self._path(name)
        try:
            if last is not None:
                with self.filesystem.open_input_file(path) as file:
                    n_bytes = min(last, file.size())
                    return bytes(file.read_at(n_bytes, file.size() - n_bytes))
            with self.filesystem.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError:
            if self._is_there(path):
                raise
            return None

    def create(self, name: str, data: bytes) -> bytes:
        """See `LocalFolder`."""
        there = self.read(name)
        if there is not None:
            return there
        self.overwrite(name, data)
        # Another task may have written since; the content that all tasks will read counts.
        there = self.read(name)
        return data if there is None else there

    def overwrite(self, name: str, data: bytes) -> None:
        """See `LocalFolder`."""
        with naming_the_folder(self.place):
            if self.filesystem.type_name in _SHOWN_WHEN_COMPLETE:
                self._upload(name, data)
                return
            unfinished = unfinished_name(name)
            self.filesystem.create_dir(self._path(name).rpartition("/")[0], recursive=True)
            try:
                self._upload(unfinished, data)
                self.filesystem.move(self._path(unfinished), self._path(name))
            except OSError:
                with contextlib.suppress(OSError):
                    self.delete(unfinished)
                raise

    def files(self, under: str) -> list[str]:
        """See `LocalFolder`."""
        return self._list(under, fs.FileType.File)

    def folders(self, under: str) -> list[str]:
        """See `LocalFolder`."""
        return self._list(under, fs.FileType.Directory)

    def delete(self, name: str) -> None:
        """See `LocalFolder`."""
        self._delete(self.filesystem.delete_file, self._path(name))

    def delete_folder(self, name: str) -> None:
        """See `LocalFolder`."""
        self._delete(self.filesystem.delete_dir, self._path(name))

    def _delete(self, delete: Callable[[str], None], path: str) -> None:
        try:
            delete(path)
        except OSError:
            if self._is_there(path):
                raise

    def seconds_since_written(self, name: str) -> float:
        """See `LocalFolder`."""
        written = self.filesystem.get_file_info(self._path(name)).mtime
        return 0.0 if written is None else time.time() - written.timestamp()

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    def _is_there(self, path: str) -> bool:
        return bool(self.filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def _list(self, under: str, kind: Any) -> list[str]:
        where = fs.FileSelector(self._path(under), allow_not_found=True)
        found = self.filesystem.get_file_info(where)
        names = sorted(one.base_name for one in found if one.type == kind)
        return [f"{under}/{name}".lstrip("/") for name in names]

    def _upload(self, name: str, data: bytes) -> None:
        # No `with`: after a failed write, it would complete a partial upload.
        stream = self.filesystem.open_output_stream(self._path(name), compression=None)
        stream.write(pa.py_buffer(data))
        stream.close()


#: Files by name below one folder; `/` separates, and folders are created as needed.
Folder: TypeAlias = LocalFolder | RemoteFolder


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
    if mark and place.startswith("file:"):
        raise ValueError(
            f"ledger: {address!r} has a '?': it starts the options of an address, and a "
            "local folder has none. Write %3F, or give a path without file:"
        )
    place = re.sub(r"^s3[an]:", "s3:", place)  # as Spark writes it
    return place.rstrip("/") + mark + options


def require_folder(address: str) -> None:
    """Raise ValueError if there cannot be a folder: it is a file, or below one, or impossible."""
    if _URI.match(address):
        return
    try:
        there = next(path for path in (Path(address), *Path(address).parents) if path.exists())
    except OSError as error:  # such as a name that is too long
        text = f"ledger: {shortened(address)} cannot be a folder: {error.strerror}"
        raise ValueError(text) from None
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


def parent(address: str) -> str:
    """Return the address of the folder that a folder is in.

    >>> parent("s3://bucket/query/ledger?region=eu-west-1")
    's3://bucket/query?region=eu-west-1'
    """
    if not _URI.match(address):
        return str(Path(address).parent)
    place, mark, options = address.partition("?")
    return place.rstrip("/").rpartition("/")[0] + mark + options


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
    # Escape characters that a URI may not have, such as blanks; keep existing escapes.
    uri = quote(address, safe="%/:?[]@!$&'()*+,;=~")
    try:
        filesystem, root = _connect(uri)
    except (OSError, ValueError) as error:
        reason = str(error).replace(uri, shown(address))
        kind = OSError if isinstance(error, OSError) else ValueError
        # Not `from error`: its text has the complete address, with secrets.
        raise kind(f"the ledger folder {shown(address)} cannot be opened: {reason}") from None
    if isinstance(filesystem, fs.LocalFileSystem):
        return LocalFolder(Path(root))
    if not root.strip("/"):
        raise ValueError(f"ledger must name a folder, and {shown(address)} names no folder")
    return RemoteFolder(filesystem, root, shown(address))


def _connect(uri: str) -> tuple[Any, str]:
    if uri.startswith("s3:") and _ONE_REQUEST not in uri:
        with contextlib.suppress(ValueError):  # an older pyarrow does not know the option
            return _connect(f"{uri}{'&' if '?' in uri else '?'}{_ONE_REQUEST}=true")
    filesystem, root = fs.FileSystem.from_uri(uri)
    return filesystem, root
