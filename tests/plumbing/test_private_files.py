"""Files for one user: their modes, and links that another user has laid."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from skewless.plumbing.private_files import write_private

if not hasattr(os, "geteuid"):
    pytest.skip("this system has no owners of files", allow_module_level=True)

STRANGER = 54_321


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_new_file_is_for_this_user_alone(tmp_path):
    write_private(tmp_path / "report", "key\n")
    assert mode(tmp_path / "report") == 0o600
    assert (tmp_path / "report").read_bytes() == b"key\n"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_file_that_others_could_read_is_replaced_by_a_private_one(tmp_path):
    path = tmp_path / "report"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as reader:
        write_private(path, "new")
        assert reader.read() == "old"  # whoever has the old file open sees nothing of the new one
    assert (mode(path), path.read_text()) == (0o600, "new")


def test_replacing_does_not_follow_a_link_at_a_name_that_can_be_guessed(tmp_path):
    """As it did by a name made of the process number, which can be guessed."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "report"
    (tmp_path / f".report.{os.getpid()}.tmp").symlink_to(victim)
    write_private(path, "text")
    assert victim.read_text() == "precious"
    assert (mode(path), path.read_text()) == (0o600, "text")


def test_a_failed_replacement_leaves_nothing_behind(tmp_path, monkeypatch):
    def fails(self, target):
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="full"):
        write_private(tmp_path / "report", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_link_of_ones_own_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_private(tmp_path / "link", "key\n")
    assert (tmp_path / "link").is_symlink()
    assert (mode(tmp_path / "real"), (tmp_path / "real").read_text()) == (0o600, "key\n")


def test_a_link_of_another_user_is_refused(tmp_path, monkeypatch):
    link, victim = tmp_path / "link", tmp_path / "victim"
    victim.write_text("precious")
    link.symlink_to(victim)
    if os.geteuid() == 0:
        os.lchown(link, STRANGER, STRANGER)
    else:  # to this user, the own link seems to be another one's
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    with pytest.raises(PermissionError, match="is a symbolic link of user"):
        write_private(link, "key\n")
    assert victim.read_text() == "precious"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_private(pipe, "key\n")
        assert os.read(reader, 100) == b"key\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
