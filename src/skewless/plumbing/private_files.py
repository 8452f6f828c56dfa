"""Files and folders for this user only, which no other user can redirect or replace.

A new file gets mode 0600. A file is replaced as a whole, through a new file with a name that cannot
be guessed. A symbolic link is followed only if it belongs to this user or to root.

Some files are trusted without a check: compiled kernels are code. They are in a folder of mode 0700
that belongs to the user, or in a read-only one of the user or of root whose files no other user may
write to, checked as ssh checks its own. Each parent belongs to the user or to root, and no other
user may write to it, unless its sticky bit keeps others from replacing what is in it.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

PRIVATE = 0o600
#: The name of a folder of compiled kernels.
KERNELS = "kernels"
_ROOT = 0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NoFolderForKernels(OSError):  # noqa: N818 - it is read as a sentence
    """There is no folder that compiled kernels could be in, or it has no room for more."""


def write_private(path: Path, text: str) -> None:
    """Write a file for this user only; a file that exists is replaced.

    A reader finds either the complete old one or the complete new one.
    """
    place = _followed(path)
    if place.exists() and not place.is_file():  # a pipe or a device
        place.write_text(text, encoding="utf-8")
        return
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{place} cannot be written: there is no folder {place.parent}")
    # A name that cannot be guessed, opened only if it is new, with the mode of private files: a
    # link cannot lead elsewhere.
    descriptor, name = tempfile.mkstemp(prefix=".skewless-", suffix=".tmp", dir=place.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        unfinished.replace(place)
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


def private_folder(folder: Path) -> Path:
    """Return the folder, made with mode 0700 if it is missing, without symbolic links.

    Raises OSError when it cannot be made, or when another user could put files into it.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=stat.S_IRWXU, exist_ok=True)  # another process may make it at the same time
    real = folder.resolve(strict=True)
    if hasattr(os, "geteuid"):  # Windows has neither owners nor modes of this kind
        status = real.stat()
        mine = status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
        if mine and not read_only(real):
            real.chmod(stat.S_IRWXU)  # others could read at most
        if wrong := complaint(real):
            raise PermissionError(wrong)
    return real


def read_only(folder: Path) -> bool:
    """Return whether this is a folder that this process cannot write to."""
    if not folder.is_dir():
        return False
    # Root could write in spite of the mode: a folder of its own without the bit is read-only too.
    return not (os.access(folder, os.W_OK) and folder.stat().st_mode & stat.S_IWUSR)


def complaint(folder: Path) -> str | None:
    """Return in one line which other user could put files into the folder, or None."""
    real = folder.resolve(strict=True)
    fixed = read_only(real)
    for path in (real, *(real.iterdir() if fixed else ())):
        status = path.lstat()
        if status.st_uid != os.geteuid() and not (fixed and status.st_uid == _ROOT):
            return f"{described(path, status)}; it must belong to {user(os.geteuid())}"
        if status.st_mode & (_OTHERS_WRITE if fixed else _OTHERS) or stat.S_ISLNK(status.st_mode):
            return f"{described(path, status)}; other users could have written to it: remove it"
    program = _folders_of_the_program()
    for parent in real.parents:
        if parent in program:
            return None
        if wrong := _complaint_about_a_parent(parent):
            return wrong
    return None


def described(path: Path, status: os.stat_result) -> str:
    """Return the path with its owner and mode, for messages."""
    mode = stat.S_IMODE(status.st_mode)
    return f"{path} belongs to {user(status.st_uid)} and has mode {mode:04o}"


def user(number: int) -> str:
    """Return the user's name and number, for messages."""
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _complaint_about_a_parent(parent: Path) -> str | None:
    status = parent.stat()
    if status.st_uid not in (_ROOT, os.geteuid()):
        return (
            f"{described(parent, status)}; every parent must belong to {user(os.geteuid())} or root"
        )
    if not status.st_mode & _OTHERS_WRITE or status.st_mode & stat.S_ISVTX:
        return None
    if not status.st_mode & stat.S_IWOTH and _is_private_group(status.st_gid):
        return None
    return f"{described(parent, status)}; other users can write to it: chmod go-w {parent}"


def _is_private_group(group: int) -> bool:
    """Return whether this user is the only member: umask 002 is usual with such groups."""
    import grp
    import pwd

    try:
        me = pwd.getpwuid(os.geteuid()).pw_name
        named = grp.getgrgid(group).gr_mem
    except KeyError:
        return False
    # A directory service may list no users. Then this user is missing too: the group is shared.
    members = {*named, *(entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == group)}
    return me in members and members <= {me, "root"}


def _folders_of_the_program() -> set[Path]:
    """Return the folders whose writers can change this program itself.

    A check of these adds nothing: a user who can write there can already run code as this user.
    """
    places = [Path(__file__).resolve().parent]
    if Path(sys.prefix).is_absolute():
        places.append(Path(sys.prefix).resolve())
    return {folder for place in places for folder in (place, *place.parents)}
