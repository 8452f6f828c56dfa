"""Folders whose files are believed: no other user can write to them or replace them."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from skewless.plumbing import private_files as folders
from skewless.plumbing.private_files import complaint, private_folder

if not hasattr(os, "geteuid"):
    pytest.skip("this system has no owners of files", allow_module_level=True)

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
Own = Callable[[Path, int], None]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of mode 0755 outside of the folders of the program."""
    monkeypatch.setattr(folders, "_folders_of_the_program", lambda: {tmp_path})
    folder = tmp_path / "place"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


@pytest.fixture
def owned_by(monkeypatch: pytest.MonkeyPatch) -> Own:
    """Return a function that makes a path seem to belong to a user."""
    owners: dict[Path, int] = {}
    real = Path.stat

    def seeming(path: Path, **options: bool) -> os.stat_result:
        status = real(path, **options)
        if path not in owners:
            return status
        fields = list(status)
        fields[stat.ST_UID] = owners[path]
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "stat", seeming)
    monkeypatch.setattr(Path, "lstat", lambda path: seeming(path, follow_symlinks=False))
    return owners.__setitem__


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000])
def test_what_is_made_is_for_this_user_alone(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = private_folder(place / "a" / "b")
    finally:
        os.umask(before)
    assert (mode(folder), mode(folder.parent), mode(place)) == (0o700, 0o700, 0o755)


def test_a_folder_that_others_could_only_read_is_closed_and_taken(place: Path) -> None:
    (place / "mine").mkdir(mode=0o755)
    assert mode(private_folder(place / "mine")) == 0o700


@pytest.mark.parametrize("writable", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_could_write_to_is_refused(place: Path, writable: int) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(writable)
    with pytest.raises(PermissionError, match=rf"open belongs to .* mode {writable:04o}.* remove"):
        private_folder(place / "open")


def test_a_folder_of_another_user_is_refused(place: Path, owned_by: Own) -> None:
    folder = private_folder(place / "mine")
    owned_by(folder, STRANGER)
    with pytest.raises(
        PermissionError, match=rf"mine belongs to user {STRANGER} and has mode 0700"
    ):
        private_folder(folder)


def test_a_folder_of_root_is_not_ours(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may own parents, but a folder of root holds what somebody else compiled."""
    folder = private_folder(place / "mine")
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert "it must belong to" in str(complaint(folder))


def test_a_parent_of_another_user_is_refused(place: Path, owned_by: Own) -> None:
    folder = private_folder(place / "mine")
    owned_by(place, STRANGER)
    assert f"place belongs to user {STRANGER} and has mode 0755" in str(complaint(folder))
    owned_by(place, 0)
    assert complaint(folder) is None


@pytest.mark.parametrize(
    ("parent", "taken"),
    [(0o777, False), (0o775, False), (0o1777, True), (0o1775, True), (0o755, True)],
)
def test_a_parent_that_others_write_to_needs_the_sticky_bit(
    place: Path, monkeypatch: pytest.MonkeyPatch, parent: int, taken: bool
) -> None:
    monkeypatch.setattr(folders, "_is_private_group", lambda group: False)
    folder = private_folder(place / "mine")
    place.chmod(parent)
    wrong = complaint(folder)
    assert (wrong is None) == taken
    assert taken or f"chmod go-w {place}" in str(wrong)


@pytest.mark.parametrize(
    ("members", "primary", "private"),
    [([], ["me"], True), (["me"], ["me"], True), (["me", "you"], ["me"], False),
     ([], ["me", "you"], False), ([], [], False), (["you"], [], False)],
)  # fmt: skip
def test_a_group_is_private_when_this_user_is_all_of_it(
    monkeypatch: pytest.MonkeyPatch, members: list[str], primary: list[str], private: bool
) -> None:
    users = [SimpleNamespace(pw_name=name, pw_gid=7) for name in primary]
    others = [SimpleNamespace(pw_name="else", pw_gid=8)]
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr(pwd, "getpwall", lambda: users + others)
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(gr_mem=members))
    assert folders._is_private_group(7) == private


def test_a_clone_under_umask_002_needs_no_change(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_is_private_group", lambda group: True)
    place.chmod(0o775)
    assert complaint(private_folder(place / "mine")) is None
    place.chmod(0o777)  # everybody is no group
    assert complaint(place / "mine") is not None


def test_links_are_resolved_before_the_check(place: Path, tmp_path: Path) -> None:
    (place / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(place)
    assert private_folder(tmp_path / "link" / "real") == place / "real"
    place.chmod(0o777)
    with pytest.raises(PermissionError, match="place belongs to"):
        private_folder(tmp_path / "link" / "real")


def test_folders_of_the_program_are_trusted_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    program = folders._folders_of_the_program()
    assert Path(sys.prefix).resolve() in program
    assert Path(folders.__file__).resolve().parent in program
    assert Path(sys.prefix).resolve() / "kernels" not in program
    monkeypatch.setattr(sys, "prefix", "")
    assert Path.cwd().resolve() / "x" not in folders._folders_of_the_program()


def test_an_environment_in_a_shared_checkout_can_hold_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes to the checkout or to its environment can change the program itself."""
    monkeypatch.setattr(folders, "_is_private_group", lambda group: False)
    environment = tmp_path / "checkout" / ".venv"
    environment.mkdir(parents=True)
    for folder in (environment, environment.parent):
        folder.chmod(0o775)
    with pytest.raises(PermissionError, match="chmod go-w"):
        private_folder(environment / "kernels" / "one")
    monkeypatch.setattr(sys, "prefix", str(environment))
    assert complaint(environment / "kernels" / "one") is None


@as_root
def test_real_owners_are_seen(place: Path) -> None:
    folder = private_folder(place / "mine")
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match=f"mine belongs to user {STRANGER}"):
        private_folder(folder)
    os.chown(folder, 0, 0)
    os.chown(place, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match=f"place belongs to user {STRANGER}"):
        private_folder(folder)
