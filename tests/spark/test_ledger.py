"""The ledger on a local disk: files are whole or absent, and the first plan counts."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pyarrow import fs

from skewless.spark.ledger import local_folder as ledger_folder
from skewless.spark.ledger.files import from_bytes, seal, to_bytes, unseal
from skewless.spark.ledger.folder import LocalFolder, RemoteFolder
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt, LedgerMismatch, LedgerTooNew
from skewless.state import named_arrays, with_arrays

IDENTITY = {"strategy": "pkg", "parameters": '{"choices": 2}', "workers": 32, "seed": 7, "key": "k"}


def small(value: int = 1) -> Entry:
    return Entry({"loads": np.array([value, 2], np.uint64)}, {"value": value})


def same(one: Entry, other: Entry) -> bool:
    """Compare bit for bit, so that NaN equals itself and 0.0 is not −0.0."""
    return (
        one.about == other.about
        and one.arrays.keys() == other.arrays.keys()
        and all(
            (a.dtype, a.shape, a.tobytes())
            == (other.arrays[n].dtype, other.arrays[n].shape, other.arrays[n].tobytes())
            for n, a in one.arrays.items()
        )
    )


def leftovers(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix == ".tmp")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger"))


# What a file holds

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
arrays = st.one_of(npst.scalar_dtypes(), npst.unicode_string_dtypes(), npst.byte_string_dtypes())
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
entries = st.builds(
    Entry,
    st.dictionaries(
        names,
        arrays.flatmap(lambda d: npst.arrays(d, npst.array_shapes(min_dims=0, min_side=0))),
        max_size=4,
    ),
    st.dictionaries(names, json_values, max_size=3),
)


@given(entries)
def test_what_goes_into_a_file_comes_out_of_it(entry):
    read = from_bytes(to_bytes(entry), "here")
    assert same(read, entry)
    assert all(
        a.flags.writeable and a.flags.owndata and a.flags.aligned for a in read.arrays.values()
    )


@given(entries)
def test_equal_content_makes_equal_bytes(entry):
    backwards = Entry(
        {name: array.copy(order="F") for name, array in reversed(entry.arrays.items())},
        dict(reversed(entry.about.items())),
    )
    assert to_bytes(backwards) == to_bytes(entry)


@pytest.mark.parametrize(
    "array",
    [
        np.array(5, np.uint64),
        np.array(2**64 - 1, np.uint64),
        np.empty(0, np.bool_),
        np.empty((3, 0, 2), np.float32),
        np.array([True, False, True]),
        np.arange(12, dtype=np.int32).reshape(3, 4).T,
        np.arange(10)[::3],
        np.array([1, 2], ">u8"),
        np.array([-0.0, np.nan, np.inf]),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_arrays_of_every_shape_survive(ledger, array):
    ledger.write_report(0, 0, Entry({"a": array}))
    assert same(ledger.read_reports(0)[0], Entry({"a": array}))


def test_a_state_survives(ledger):
    class Inner(NamedTuple):
        counts: Any

    class Outer(NamedTuple):
        loads: Any
        head: Inner

    state = Outer(np.arange(3), Inner(np.ones(2, np.uint64)))
    plan = ledger.publish_plan(3, Entry(dict(named_arrays(state))))
    back = with_arrays(state, plan.arrays)
    assert back.loads.tolist() == [0, 1, 2]
    assert back.head.counts.dtype == np.uint64


def test_any_arrow_reader_opens_a_file():
    with pa.ipc.open_stream(to_bytes(small())) as reader:
        assert reader.schema.metadata[b"format"] == b"skewless-state"
        assert reader.schema.metadata[b"version"] == b"1"
        assert reader.read_all().column_names == ["loads"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (Entry({"a": np.array([object()])}), r"arrays\['a'\].*object array"),
        (Entry({"a": np.zeros(1, [("x", "i4")])}), r"arrays\['a'\]"),
        (Entry({"a": [1]}), r"arrays\['a'\].*not a list"),
        (Entry({}, {"t": (1, 2)}), "lists, not tuples"),
        (Entry({}, {1: "x"}), "text as keys"),
        (Entry({}, {"n": float("nan")}), "about must hold JSON values"),
        (Entry({}, {"n": np.int64(1)}), "about must hold JSON values"),
    ],
)
def test_what_would_not_come_back_is_refused(entry, text):
    with pytest.raises(ValueError, match=text):
        to_bytes(entry)


# Damage


def plan_file(ledger: Ledger) -> Path:
    ledger.publish_plan(1, small())
    return Path(ledger.folder) / "plans" / "00000001.arrow"


def test_a_file_cut_at_any_length_is_corrupt(ledger):
    path = plan_file(ledger)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow"):
            ledger.read_plan(1)


def test_any_flipped_byte_is_noticed():
    whole = to_bytes(small())
    for position in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            with pytest.raises(LedgerCorrupt, match="here"):
                from_bytes(bytes(damaged), "here")


@pytest.mark.parametrize("content", [b"", b"text", b"\0" * 4096, to_bytes(small()) + b"\0"])
def test_other_content_is_corrupt(ledger, content):
    plan_file(ledger).write_bytes(content)
    with pytest.raises(LedgerCorrupt, match="no seal"):
        ledger.read_plan(1)
    with pytest.raises(LedgerCorrupt):
        ledger.publish_plan(1, small())


def with_metadata(**changes: str) -> bytes:
    with pa.ipc.open_stream(unseal(to_bytes(small()), "here")) as reader:
        table = reader.read_all()
    metadata = {k.decode(): v.decode() for k, v in table.schema.metadata.items()} | changes
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata(metadata)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return seal(sink.getvalue().to_pybytes())


def test_a_later_version_is_refused_by_its_number(ledger):
    plan_file(ledger).write_bytes(with_metadata(version="2"))
    with pytest.raises(LedgerTooNew, match=r"00000001\.arrow has version 2.*up to 1"):
        ledger.read_plan(1)


@pytest.mark.parametrize("changes", [{"format": "other"}, {"version": "x"}, {"about": "{"}])
def test_sealed_nonsense_is_corrupt(changes):
    with pytest.raises(LedgerCorrupt, match="here"):
        from_bytes(with_metadata(**changes), "here")


def file_of(*columns: tuple[str, str, str, Any], about: str = "{}", kind: Any = None) -> bytes:
    """Return a sealed file of arrays by name, type, shape and bytes, as a stranger writes it."""
    kind = kind or pa.large_binary()
    fields = [
        pa.field(name, kind, metadata={"dtype": dtype, "shape": shape})
        for name, dtype, shape, _ in columns
    ]
    schema = pa.schema(fields, {"format": "skewless-state", "version": "1", "about": about})
    arrays = [pa.array([values], kind) for *_, values in columns]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return seal(sink.getvalue().to_pybytes())


EIGHT = b"\1" * 8


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (file_of(("a", "|O", "[1]", EIGHT)), "has the type '|O'"),
        (file_of(("a", "i4,i4", "[1]", EIGHT)), "has the type"),
        (file_of(("a", "<V8", "[1]", EIGHT)), "has the type"),
        (file_of(("a", "nonsense", "[1]", EIGHT)), "has the type"),
        (file_of(("a", "|S0", "[4]", b"")), "0 bytes are no"),
        (file_of(("a", "<i8", "[-1]", EIGHT)), r"has the shape \[-1\]"),
        (file_of(("a", "<i8", "[-1, -1]", EIGHT)), "has the shape"),
        (file_of(("a", "<i8", "[4294967296, 4294967296]", b"")), "0 bytes are no int64"),
        (file_of(("a", "<i8", "[1.0]", EIGHT)), "has the shape"),
        (file_of(("a", "<i8", "[true]", EIGHT)), "has the shape"),
        (file_of(("a", "<i8", '"1"', EIGHT)), "has the shape"),
        (file_of(("a", "<i8", "[" * 100_000, EIGHT)), "nested too deep"),
        (file_of(("a", "<i8", f"{[1] * 65}", EIGHT)), "has the shape"),
        (file_of(("a", "|b1", "[8]", b"\7" * 8)), "is no bool"),
        (file_of(("a", "<U2", "[1]", b"\xff" * 8)), "is no <U2"),
        (file_of(("a", "<i8", "[1]", None)), "without nulls"),
        (file_of(("a", "<i8", "[1]", 7), kind=pa.int64()), "stored as int64"),
        (file_of(*[("a", "<i8", "[1]", EIGHT)] * 2), "two arrays of the name 'a'"),
        (file_of(about="[]"), "no dict"),
        (file_of(about='{"a": NaN}'), "NaN"),
        (file_of(about='{"a":' * 100_000), "nested too deep"),
        (with_metadata(version="9" * 5_000), "version 9"),
    ],
)
def test_what_a_stranger_seals_is_refused_in_one_line(content, text):
    with pytest.raises((LedgerCorrupt, LedgerTooNew), match=text) as refused:
        from_bytes(content, "here")
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("here ")
    assert len(str(refused.value)) < 500


def test_a_sealed_file_without_arrow_is_corrupt():
    with pytest.raises(LedgerCorrupt, match="here is not readable"):
        from_bytes(seal(b"no arrow at all"), "here")


# Whose ledger it is


def test_the_same_identity_may_claim_again(ledger):
    assert not ledger.check(IDENTITY)
    ledger.claim(IDENTITY)
    ledger.claim(dict(reversed(IDENTITY.items())))
    assert ledger.check(IDENTITY)
    found = json.loads((Path(ledger.folder) / "identity.json").read_text())
    assert found["identity"] == IDENTITY


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (IDENTITY | {"workers": 64}, "was written for workers=32, not 64"),
        (IDENTITY | {"workers": 64, "strategy": "hash"}, "was written for strategy=pkg, not hash"),
        (IDENTITY | {"more": 1}, "was written for no more, not 1"),
        ({k: v for k, v in IDENTITY.items() if k != "key"}, "for key=k, not without it"),
    ],
)
def test_another_identity_is_refused_by_its_first_difference(ledger, wanted, text):
    ledger.claim(IDENTITY)
    for ask in (ledger.claim, ledger.check):
        with pytest.raises(LedgerMismatch, match=text) as refused:
            ask(wanted)
        assert ledger.folder in str(refused.value)
    assert ledger.check(IDENTITY)


def test_another_version_of_the_package_is_no_other_identity(ledger):
    ledger.claim(IDENTITY | {"skewless": "0.1", "state_layout": "abc-1"})
    ledger.claim(IDENTITY | {"skewless": "0.2", "state_layout": "abc-1"})
    assert ledger.identity()["skewless"] == "0.1"


@pytest.mark.parametrize(
    ("wrote", "text"),
    [
        ({"skewless": "0.1", "state_layout": "abc-1"}, "by skewless 0.1, whose strategy pkg keeps"),
        ({}, "by an older skewless, whose strategy pkg keeps its state in another layout"),
    ],
)
def test_another_layout_of_the_state_is_refused_by_name(ledger, wrote, text):
    ledger.claim(IDENTITY | wrote)
    for ask in (ledger.claim, ledger.check):
        with pytest.raises(LedgerMismatch, match=text):
            ask(IDENTITY | {"skewless": "0.2", "state_layout": "abc-2"})


def test_checking_creates_nothing(ledger):
    ledger.check(IDENTITY)
    assert not Path(ledger.folder).exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "7",
        "[" * 100_000,
        '{"format": "skewless-identity", "version": 1}',
        '{"format": "skewless-identity", "version": 1, "identity": []}',
        '{"format": "skewless-identity", "version": 1, "identity": {"seed": [1]}}',
        '{"format": "skewless-identity", "version": 1, "identity": {"seed": NaN}}',
        '{"format": {}, "version": 1, "identity": {}}',
    ],
)
def test_a_damaged_identity_is_corrupt(ledger, content):
    ledger.claim(IDENTITY)
    (Path(ledger.folder) / "identity.json").write_text(content)
    for ask in (lambda: ledger.check(IDENTITY), ledger.identity):
        with pytest.raises(LedgerCorrupt, match=r"identity\.json") as refused:
            ask()
        assert "\n" not in str(refused.value)


def test_an_identity_of_a_later_version_is_refused(ledger):
    ledger.claim(IDENTITY)
    path = Path(ledger.folder) / "identity.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(LedgerTooNew, match="version 2"):
        ledger.claim(IDENTITY)


def test_identities_hold_json_values_only(ledger):
    with pytest.raises(ValueError, match="identity must be"):
        ledger.claim({"seed": float("nan")})


def test_a_ledger_belongs_to_one_query(ledger):
    ledger.bind("first")
    ledger.bind("first")
    with pytest.raises(LedgerMismatch, match=r"query first, not second: give .* or delete"):
        ledger.bind("second")


# Plans and reports


def test_the_first_plan_counts(ledger):
    assert ledger.read_plan(4) is None
    assert same(ledger.publish_plan(4, small(1)), small(1))
    assert same(ledger.publish_plan(4, small(2)), small(1))
    assert same(ledger.read_plan(4), small(1))


def test_a_published_plan_shares_no_array_with_the_ledger(ledger):
    plan = ledger.publish_plan(4, small(1))
    plan.arrays["loads"][:] = 9
    assert same(ledger.read_plan(4), small(1))


def test_the_latest_plan_is_the_newest_before(ledger):
    assert ledger.latest_plan(10) is None
    for batch in (2, 9, 123_456_789):  # one digit more than the names are padded to
        ledger.publish_plan(batch, small(batch))
    assert ledger.latest_plan(2) is None
    for before, batch in ((3, 2), (9, 2), (10, 9), (123_456_789, 9), (10**9, 123_456_789)):
        found = ledger.latest_plan(before)
        assert found is not None
        assert found[0] == batch
        assert same(found[1], small(batch))


def test_reports_come_back_by_source_and_by_worker(ledger):
    assert ledger.read_reports(1) == {}
    assert ledger.read_report(1, 3) is None
    for member in (100_000, 3, 20):
        ledger.write_report(1, member, small(member))
        ledger.write_worker(1, member, small(member + 1))
    ledger.write_report(2, 5, small(5))
    assert list(ledger.read_reports(1)) == [3, 20, 100_000]
    assert same(ledger.read_report(1, 20), small(20))
    assert same(ledger.read_reports(1)[100_000], small(100_000))
    assert same(ledger.read_workers(1)[3], small(4))
    assert ledger.read_workers(2) == {}


# Runs


def test_each_run_reads_its_own_reports_whatever_a_late_task_writes(ledger):
    dead, alive = ledger.of_run("dead"), ledger.of_run("alive")
    for source in range(4):
        dead.write_report(1, source, small(source))
    for source in range(2):
        alive.write_report(1, source, small(10 + source))
    dead.write_report(1, 0, small(99))  # late
    dead.write_report(1, 7, small(99))
    dead.write_worker(1, 3, small(99))
    for reader in (alive, ledger, ledger.of_run("later")):
        reports = reader.read_reports(1)
        assert list(reports) == [0, 1]
        assert same(reports[0], small(10))
        assert same(reader.read_report(1, 1), small(11))
        assert reader.read_report(1, 7) is None
        assert reader.read_workers(1) == {}


def test_after_a_restart_the_last_run_before_it_counts(ledger):
    for run in ("z", "m", "a"):
        ledger.of_run(run).write_report(1, 0, small(ord(run)))
    now = ledger.of_run("now")
    assert same(now.read_reports(1)[0], small(ord("a")))
    ledger.of_run("stranger").write_report(1, 0, small(1))  # registered after `now`
    assert same(now.read_reports(1)[0], small(ord("a")))
    assert same(ledger.read_reports(1)[0], small(1))
    assert same(ledger.of_run("m").read_reports(1)[0], small(ord("m")))


def test_a_run_is_registered_once_and_keeps_its_place(ledger):
    for run in ("b", "a", "b", "a"):
        ledger.of_run(run)
    names = sorted(path.name for path in (Path(ledger.folder) / "runs").iterdir())
    assert names == ["00000000.b.json", "00000001.a.json"]
    assert ledger.of_run(None) == ledger


def test_any_text_may_name_a_run(ledger):
    odd = "../../etc/passwd und mehr\n" * 20
    ledger.of_run(odd).write_report(1, 0, small())
    assert list(ledger.of_run(odd).read_reports(1)) == [0]
    assert all(ledger.folder in str(path) for path in Path(ledger.folder).rglob("*"))
    ledger.purge(2)
    assert ledger.batches() == []


def test_a_retried_task_writes_the_same_file(ledger):
    path = Path(ledger.folder) / "reports" / "00000001" / "unnamed" / "source-00002.arrow"
    ledger.write_report(1, 2, small())
    first = path.read_bytes()
    ledger.write_report(1, 2, small())
    assert path.read_bytes() == first
    assert list(path.parent.iterdir()) == [path]


def test_batches_are_all_that_the_ledger_knows_of(ledger):
    assert ledger.batches() == []
    ledger.publish_plan(7, small())
    ledger.write_report(12, 0, small())
    ledger.write_worker(3, 0, small())
    ledger.write_worker(7, 0, small())
    assert ledger.batches() == [3, 7, 12]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda one: one.read_plan(-1), "batch must be .* not -1"),
        (lambda one: one.write_report(0, -2, small()), "source must be .* not -2"),
        (lambda one: one.write_worker(0, -3, small()), "worker must be .* not -3"),
        (lambda one: Ledger(" "), "ledger must be a folder"),
    ],
)
def test_numbers_out_of_range_are_refused(ledger, call, text):
    with pytest.raises(ValueError, match=text):
        call(ledger)


# Purging


def fill(ledger: Ledger, batches: range) -> None:
    for batch in batches:
        ledger.publish_plan(batch, small(batch))
        ledger.write_report(batch, batch % 3, small(batch))
        ledger.write_worker(batch, 0, small(batch))


def test_purging_deletes_what_is_before_and_nothing_else(ledger):
    ledger.claim(IDENTITY)
    ledger.bind("query")
    fill(ledger, range(10))
    ledger.purge(6)
    assert ledger.batches() == [6, 7, 8, 9]
    assert sorted(p.name for p in (Path(ledger.folder) / "reports").iterdir()) == [
        f"{batch:08}" for batch in range(6, 10)
    ]
    assert list(ledger.read_reports(6)) == [0]
    assert ledger.check(IDENTITY)
    ledger.purge(6)
    ledger.purge(-5)
    assert ledger.batches() == [6, 7, 8, 9]
    ledger.purge(100)
    assert ledger.batches() == []


def test_purging_an_empty_ledger_does_nothing(ledger):
    ledger.purge(5)
    assert not Path(ledger.folder).exists()


def test_purging_leaves_unfinished_files_of_running_tasks(ledger):
    fill(ledger, range(4))
    folder = Path(ledger.folder)
    old = [
        folder / "plans/.00000001.arrow.ab.tmp",
        folder / "reports/00000001/unnamed/.source-00009.arrow.ab.tmp",
    ]
    running = [
        folder / "plans/.00000003.arrow.ab.tmp",
        folder / "workers/00000003/unnamed/.worker-00009.arrow.ab.tmp",
    ]
    claims = [folder / ".identity.json.ab.tmp", folder / ".query.json.ab.tmp"]
    for path in old + running + claims:
        path.write_bytes(b"half")
    os.utime(claims[0], (0, 0))
    assert ledger.batches() == [0, 1, 2, 3]
    assert list(ledger.read_workers(3)) == [0]
    ledger.purge(2)
    assert leftovers(folder) == sorted([*running, claims[1]])


def test_purging_ignores_what_others_delete_meanwhile(ledger, monkeypatch):
    fill(ledger, range(4))
    list_files, list_folders = LocalFolder.files, LocalFolder.folders
    root = Path(ledger.folder)

    def files_then_gone(self, under):
        found = list_files(self, under)
        for name in found:
            (root / name).unlink()
        return found

    def folders_then_gone(self, under):
        found = list_folders(self, under)
        for name in found:
            shutil.rmtree(root / name)
        return found

    monkeypatch.setattr(LocalFolder, "files", files_then_gone)
    assert ledger.latest_plan(9) is None
    monkeypatch.setattr(LocalFolder, "folders", folders_then_gone)
    ledger.purge(4)
    monkeypatch.undo()
    assert ledger.batches() == []


# Folders


@pytest.mark.parametrize(
    "name", ["plain", "with blanks", "grün ☂ 目", "50%", "a%20b", "q?x#y", "a:b"]
)
def test_any_folder_name_works_as_a_path(tmp_path, name):
    folder = tmp_path / name / "ledger"
    Ledger(str(folder)).publish_plan(0, small())
    assert (folder / "plans" / "00000000.arrow").exists()


@pytest.mark.parametrize("name", ["plain", "with blanks", "grün ☂ 目", "50%"])
def test_a_file_uri_means_the_same_folder(tmp_path, name):
    folder = tmp_path / name
    Ledger(str(folder)).publish_plan(0, small())
    assert Ledger(folder.as_uri()).batches() == [0]


def test_a_file_uri_as_spark_writes_it_means_the_same_folder(tmp_path):
    Ledger(f"file:{tmp_path}/with blanks ☂/").publish_plan(0, small())
    assert (tmp_path / "with blanks ☂" / "plans" / "00000000.arrow").exists()


def test_a_relative_path_does_not_follow_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("here")
    monkeypatch.chdir("/")
    ledger.publish_plan(0, small())
    assert (tmp_path / "here" / "plans").is_dir()


def test_a_ledger_travels(ledger):
    ledger.publish_plan(0, small())
    assert pickle.loads(pickle.dumps(ledger)) == ledger
    assert same(pickle.loads(pickle.dumps(ledger)).read_plan(0), small())


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
        lambda: ledger.write_report(0, 0, small()),
        lambda: ledger.publish_plan(0, small()),
    ):
        with pytest.raises(OSError, match=r"the ledger in .*file/ledger cannot be written"):
            write()


def test_a_refused_write_keeps_its_kind_and_leaves_nothing(ledger, monkeypatch):
    def full(file, data):
        file.write(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_folder, "_fill", full)
    with pytest.raises(OSError, match="cannot be written: No space left") as refused:
        ledger.publish_plan(0, small())
    assert refused.value.errno == errno.ENOSPC
    assert ledger.batches() == []
    assert leftovers(Path(ledger.folder)) == []


def test_plans_are_on_the_disk_before_they_are_visible(ledger, monkeypatch):
    events = []
    sync, link = os.fsync, Path.hardlink_to
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("sync"), sync(fd)))
    monkeypatch.setattr(Path, "hardlink_to", lambda *a: (events.append("link"), link(*a)))
    ledger.publish_plan(0, small())
    assert events == ["sync", "link", "sync"]  # the file, its name, the folder


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_disk_without_hard_links_will_do(ledger, monkeypatch, number):
    def refuse(self, target):
        raise OSError(number, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert same(ledger.publish_plan(0, small(1)), small(1))
    assert same(ledger.publish_plan(0, small(2)), small(1))
    assert leftovers(Path(ledger.folder)) == []


# Several processes

PUBLISH = """
import hashlib, sys
import numpy as np
from skewless.spark.ledger import local_folder as ledger_folder
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.files import to_bytes
def fill_together(file, data):
    file.write(data)
    print("writing", flush=True)
    sys.stdin.readline()
ledger_folder._fill = fill_together
folder, who, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for batch in range(n):
    mine = Entry({"loads": np.full(5000, who)}, {"who": who})
    plan = Ledger(folder).publish_plan(batch, mine)
    print(plan.about["who"], hashlib.sha256(to_bytes(plan)).hexdigest(), flush=True)
"""


def test_processes_that_publish_at_once_all_get_the_same_plan(ledger):
    n_batches = 8
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISH, ledger.folder, str(who), str(n_batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in range(4)
    ]
    for batch in range(n_batches):
        # All of them have found no plan and hold one of their own before anyone may go on.
        for process in processes:
            assert process.stdout.readline() == "writing\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        seen = {process.stdout.readline() for process in processes}
        plan = ledger.read_plan(batch)
        assert seen == {f"{plan.about['who']} {hashlib.sha256(to_bytes(plan)).hexdigest()}\n"}
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert leftovers(Path(ledger.folder)) == []


DIE = """
import sys, time
import numpy as np
from skewless.spark.ledger import local_folder as ledger_folder
from skewless.spark.ledger.ledger import Entry, Ledger
def half(file, data):
    file.write(data[: len(data) // 2])
    file.flush()
    print("half", flush=True)
    time.sleep(600)
ledger_folder._fill = half
ledger = Ledger(sys.argv[1])
entry = Entry({"loads": np.arange(5000)})
if sys.argv[2] == "plan":
    ledger.publish_plan(3, entry)
elif sys.argv[2] == "report":
    ledger.write_report(3, 0, entry)
else:
    ledger.claim({"seed": 1})
"""


@pytest.mark.parametrize("what", ["plan", "report", "claim"])
def test_a_writer_killed_in_the_middle_leaves_nothing_visible(ledger, what):
    process = subprocess.Popen(
        [sys.executable, "-c", DIE, ledger.folder, what], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (unfinished,) = leftovers(Path(ledger.folder))
    assert unfinished.stat().st_size > 0

    assert ledger.batches() == []
    assert ledger.read_plan(3) is None
    assert ledger.read_reports(3) == {}
    assert not ledger.check(IDENTITY)
    assert same(ledger.publish_plan(3, small()), small())
    ledger.write_report(3, 0, small())
    assert list(ledger.read_reports(3)) == [0]
    os.utime(unfinished, (0, 0))
    ledger.purge(4)
    assert leftovers(Path(ledger.folder)) == []


# Filesystems that move


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
    assert same(ledger.publish_plan(4, small(9)), small(4))
    ledger.write_report(4, 1, small(4))
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
        Ledger("far://away").publish_plan(0, small())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
