"""Files for this user only, written so that no other user can redirect them.

A new file gets mode 0600. A file is replaced as a whole, through a new file with a name that cannot
be guessed. A symbolic link is followed only if it belongs to this user or to root.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

PRIVATE = 0o600

_ROOT = 0


def write_private(path: Path, text: str) -> None:
    """Write a file for this user only; a file that exists is replaced."""
    place = _followed(path)
    if place.exists() and not place.is_file():  # a pipe or a device
        place.write_text(text, encoding="utf-8")
    else:
        replace_file(place, text, PRIVATE)


def append_private(path: Path, text: str) -> None:
    """Append to a file; a new one is for this user only, an old one keeps its owner and mode."""
    # A link that has replaced the file since the check is refused.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(_followed(path), flags, PRIVATE)
    with os.fdopen(descriptor, "a", encoding="utf-8", newline="\n") as file:
        file.write(text)


def replace_file(path: Path, text: str, mode: int) -> None:
    """Write the file so that a reader finds either the complete old one or the complete new one."""
    # A name that cannot be guessed, opened only if it is new: a link cannot lead elsewhere.
    descriptor, name = tempfile.mkstemp(prefix=".skewless-", suffix=".tmp", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        unfinished.chmod(mode)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _followed(path: Path) -> Path:
    """Return where a path leads; refuse a symbolic link that another user made."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return path
    if not stat.S_ISLNK(status.st_mode):
        return path
    if hasattr(os, "geteuid") and status.st_uid not in (_ROOT, os.geteuid()):
        raise PermissionError(
            f"{path} is a symbolic link of user {status.st_uid}: remove it, or name another file"
        )
    return path.resolve()
