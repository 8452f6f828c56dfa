"""The folder of a ledger, on any filesystem: a file is complete or absent, never half written.

A path is a `LocalFolder`, a URI that leads elsewhere a `RemoteFolder`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from pyarrow import fs

from skewless.plumbing.arguments import shown as shortened
from skewless.spark.ledger.local_folder import LocalFolder
from skewless.spark.ledger.remote_folder import RemoteFolder

#: The option by which S3 gets a small file in one request instead of three.
_ONE_REQUEST = "allow_delayed_open"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# A colon that is not followed by a port: a name and a secret.
_SECRET = re.compile(r"^([A-Za-z][\w+.-]*://)[^/:@?]*:(?!\d+(?:/|$))[^?]*@")


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
