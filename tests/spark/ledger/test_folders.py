"""Folders on a disk and on filesystems that move files."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from skewless.spark.ledger import local_folder as ledger_folder
from skewless.spark.ledger.folder import RemoteFolder
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.names import plan_name
from spark.ledger.entries import IDENTITY, fill, leftovers, same, small, write_report


@pytest.mark.parametrize(
    "name", ["plain", "with blanks", "grün ☂ 目", "50%", "a%20b", "q?x#y", "a:b"]
)
def test_any_folder_name_works_as_a_path(tmp_path, name):
    folder = tmp_path / name / "ledger"
    Ledger(str(folder)).publish(plan_name(0), small())
    assert (folder / "plans" / "00000000.arrow").exists()


@pytest.mark.parametrize("name", ["plain", "with blanks", "grün ☂ 目", "50%"])
def test_a_file_uri_means_the_same_folder(tmp_path, name):
    folder = tmp_path / name
    Ledger(str(folder)).publish(plan_name(0), small())
    assert Ledger(folder.as_uri()).batches() == [0]


def test_a_file_uri_as_spark_writes_it_means_the_same_folder(tmp_path):
    Ledger(f"file:{tmp_path}/with blanks ☂/").publish(plan_name(0), small())
    assert (tmp_path / "with blanks ☂" / "plans" / "00000000.arrow").exists()


def test_a_relative_path_does_not_follow_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("here")
    monkeypatch.chdir("/")
    ledger.publish(plan_name(0), small())
    assert (tmp_path / "here" / "plans").is_dir()


def test_a_ledger_travels(ledger):
    ledger.publish(plan_name(0), small())
    assert pickle.loads(pickle.dumps(ledger)) == ledger
    assert same(pickle.loads(pickle.dumps(ledger)).read(plan_name(0)), small())


def test_a_ledger_inside_another_keeps_the_options(ledger):
    assert ledger.below("q").folder == f"{ledger.folder}/q"
    assert Ledger("s3a://b/p/?region=x").below("q").folder == "s3://b/p/q?region=x"


@pytest.mark.parametrize(
    "address",
    [
        "s3://name:SECRET@bucket/p?region=x",
        "s3://name:SECRET/more@bucket/p",
        "s3://bucket/p?k=SECRET",
    ],
)
def test_secrets_are_not_shown(address):
    ledger = Ledger(address)
    assert "SECRET" not in repr(ledger)
    assert "bucket/p" in repr(ledger)


def test_a_failed_connection_shows_no_secret():
    with pytest.raises(ValueError, match="ledger folder s3://bucket/p cannot be opened") as failed:
        Ledger("s3://name:SECRET@bucket/p?region=x&nonsense=1").batches()
    assert "SECRET" not in str(failed.value)


def test_an_address_of_no_known_kind_is_refused():
    with pytest.raises(ValueError, match="nowhere://x cannot be opened"):
        Ledger("nowhere://x").batches()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    ledger = Ledger(str(tmp_path / "file" / "ledger"))
    (tmp_path / "file").write_text("in the way")
    for write in (
        lambda: ledger.claim(IDENTITY),
        lambda: write_report(ledger, 0, 0, small()),
        lambda: ledger.publish(plan_name(0), small()),
    ):
        with pytest.raises(OSError, match=r"the ledger in .*file/ledger cannot be written"):
            write()


def test_a_refused_write_keeps_its_kind_and_leaves_nothing(ledger, monkeypatch):
    def full(file, data):
        file.write(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_folder, "_fill", full)
    with pytest.raises(OSError, match="cannot be written: No space left") as refused:
        ledger.publish(plan_name(0), small())
    assert refused.value.errno == errno.ENOSPC
    assert ledger.batches() == []
    assert leftovers(Path(ledger.folder)) == []


def test_plans_are_on_the_disk_before_they_are_visible(ledger, monkeypatch):
    events = []
    sync, link = os.fsync, Path.hardlink_to
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("sync"), sync(fd)))
    monkeypatch.setattr(Path, "hardlink_to", lambda *a: (events.append("link"), link(*a)))
    ledger.publish(plan_name(0), small())
    assert events == ["sync", "link", "sync"]  # the file, its name, the folder


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_disk_without_hard_links_will_do(ledger, monkeypatch, number):
    def refuse(self, target):
        raise OSError(number, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert same(ledger.publish(plan_name(0), small(1)), small(1))
    assert same(ledger.publish(plan_name(0), small(2)), small(1))
    assert leftovers(Path(ledger.folder)) == []


class Moving:
    """A local disk that answers as HDFS does: files by move, errors without a kind."""

    type_name = "hdfs"

    def __init__(self, clumsy: bool = False) -> None:
        self.inner = fs.LocalFileSystem()
        self.clumsy = clumsy

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def delete_file(self, path: str) -> None:
        try:
            self.inner.delete_file(path)
        except OSError as error:
            raise OSError(str(error)) from None

    def move(self, source: str, target: str) -> None:
        if self.clumsy:
            raise OSError("the connection broke")
        assert Path(source).name.startswith(".")
        self.inner.move(source, target)


@pytest.fixture
def moving(tmp_path, monkeypatch):
    folder = RemoteFolder(Moving(), str(tmp_path / "far away"), "far://away")
    monkeypatch.setattr("skewless.spark.ledger.ledger.open_folder", lambda address: folder)
    return folder


def test_all_of_it_works_on_a_filesystem_that_moves(moving, tmp_path):
    ledger = Ledger("far://away")
    assert ledger.batches() == []
    assert not ledger.check(IDENTITY)
    ledger.claim(IDENTITY)
    ledger.bind("query")
    with pytest.raises(LedgerMismatch, match="far://away"):
        ledger.bind("other")
    fill(ledger, range(5))
    assert same(ledger.publish(plan_name(4), small(9)), small(4))
    write_report(ledger, 4, 1, small(4))
    moving.overwrite("plans/.00000001.arrow.ab.tmp", b"half")
    moving.overwrite(".query.json.ab.tmp", b"half")
    os.utime(tmp_path / "far away" / ".query.json.ab.tmp", (0, 0))
    ledger.purge(4)
    assert ledger.batches() == [4]
    assert leftovers(tmp_path) == []
    moving.delete("plans/none")
    moving.delete_folder("none")


def test_a_failed_move_leaves_nothing_and_names_the_folder(moving, tmp_path):
    moving.filesystem = Moving(clumsy=True)
    with pytest.raises(OSError, match="the ledger in far://away cannot be written: the conn"):
        Ledger("far://away").publish(plan_name(0), small())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
