"""Folders that no other user can write to or replace, checked as ssh checks its own.

Some files are trusted without a check: compiled kernels are code. They are in a folder of mode 0700
that belongs to the user, or in a read-only one of the user or of root whose files no other user may
write to. Each parent belongs to the user or to root, and no other user may write to it, unless its
sticky bit keeps others from replacing what is in it.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_ROOT = 0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Make a folder, and the parents that are missing, with mode 0700."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=stat.S_IRWXU, exist_ok=True)  # another process may make it at the same time


def private_folder(folder: Path) -> Path:
    """Return the folder, made if it is missing, without symbolic links.

    Raises OSError when it cannot be made, or when another user could put files into it.
    """
    make_private(folder)
    real = folder.resolve(strict=True)
    if hasattr(os, "geteuid"):  # Windows has neither owners nor modes of this kind
        status = real.stat()
        mine = status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
        if mine and not read_only(real):
            real.chmod(stat.S_IRWXU)  # others could read at most
        wrong = complaint(real)
        if wrong:
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
    status = real.stat()
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
        wrong = _complaint_about_a_parent(parent)
        if wrong:
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
