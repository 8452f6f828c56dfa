"""What a file of the ledger holds, and what happens when it is damaged."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from skewless.spark.ledger.files import from_bytes, seal, to_bytes, unseal
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt, LedgerTooNew
from skewless.spark.ledger.names import plan_name
from skewless.state import named_arrays, with_arrays
from spark.ledger.entries import IDENTITY, read_reports, same, small, write_report

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
    write_report(ledger, 0, 0, Entry({"a": array}))
    assert same(read_reports(ledger, 0)[0], Entry({"a": array}))


def test_a_state_survives(ledger):
    class Inner(NamedTuple):
        counts: Any

    class Outer(NamedTuple):
        loads: Any
        head: Inner

    state = Outer(np.arange(3), Inner(np.ones(2, np.uint64)))
    plan = ledger.publish(plan_name(3), Entry(dict(named_arrays(state))))
    back = with_arrays(state, plan.arrays)
    assert back.loads.tolist() == [0, 1, 2]
    assert back.head.counts.dtype == np.uint64


def test_any_arrow_reader_opens_a_file():
    with pa.ipc.open_stream(to_bytes(small())) as reader:
        assert reader.schema.metadata[b"format"] == b"skewless-state"
        assert reader.schema.metadata[b"version"] == b"2"
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


def plan_file(ledger: Ledger) -> Path:
    ledger.publish(plan_name(1), small())
    return Path(ledger.folder) / "plans" / "00000001.arrow"


def test_a_file_cut_at_any_length_is_corrupt(ledger):
    path = plan_file(ledger)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerCorrupt, match=r"00000001\.arrow"):
            ledger.read(plan_name(1))


def test_any_flipped_byte_is_noticed():
    whole = to_bytes(small())
    for position in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            with pytest.raises(LedgerCorrupt, match="here"):
                from_bytes(bytes(damaged), "here")


@pytest.mark.parametrize("size", [(1 << 20) - 8, 1 << 20, (1 << 20) + 1, 3_500_000])
def test_long_files_are_checked_like_small_ones(size):
    content = np.random.default_rng(size).bytes(size)
    whole = seal(content)
    assert bytes(unseal(whole, "here"))[:size] == content
    for position in (0, (1 << 20) - 1, size // 2, size - 1, size, size + 7, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        with pytest.raises(LedgerCorrupt, match="here"):
            unseal(bytes(damaged), "here")
    swapped = content[size // 2 :] + content[: size // 2]
    with pytest.raises(LedgerCorrupt, match="its checksum does not match"):
        unseal(swapped + whole[size:], "here")


@pytest.mark.parametrize("has_ranges", [False, True])
def test_a_large_file_with_the_checksum_of_earlier_versions_is_read(has_ranges):
    content = np.random.default_rng(1).bytes(2_000_000)
    whole = seal(content)
    sealed, length = whole[: len(content) + 8], whole[len(content) : len(content) + 8]
    if has_ranges:
        parts = content[: 1 << 20], content[1 << 20 :]
        digest = hashlib.blake2b(pack("<2I", *map(zlib.crc32, parts)) + length, digest_size=32)
    else:
        digest = hashlib.blake2b(sealed, digest_size=32)
    before = sealed + b"SKEWLESS" + digest.digest()
    assert before != whole
    assert bytes(unseal(before, "here")) == sealed
    with pytest.raises(LedgerCorrupt, match="its checksum does not match"):
        unseal(b"?" + before[1:], "here")


@pytest.mark.parametrize("content", [b"", b"text", b"\0" * 4096, to_bytes(small()) + b"\0"])
def test_other_content_is_corrupt(ledger, content):
    plan_file(ledger).write_bytes(content)
    with pytest.raises(LedgerCorrupt, match="no seal"):
        ledger.read(plan_name(1))
    with pytest.raises(LedgerCorrupt):
        ledger.publish(plan_name(1), small())


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
    plan_file(ledger).write_bytes(with_metadata(version="3"))
    with pytest.raises(LedgerTooNew, match=r"00000001\.arrow has version 3.*reads version 2:"):
        ledger.read(plan_name(1))


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
    schema = pa.schema(fields, {"format": "skewless-state", "version": "2", "about": about})
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
        (file_of(("a", "|S0", "[4]", b"")), "0 bytes are not"),
        (file_of(("a", "<i8", "[-1]", EIGHT)), r"has the shape \[-1\]"),
        (file_of(("a", "<i8", "[-1, -1]", EIGHT)), "has the shape"),
        (file_of(("a", "<i8", "[4294967296, 4294967296]", b"")), "0 bytes are not int64"),
        (file_of(("a", "<i8", "[1.0]", EIGHT)), "has the shape"),
        (file_of(("a", "<i8", "[true]", EIGHT)), "has the shape"),
        (file_of(("a", "<i8", '"1"', EIGHT)), "has the shape"),
        (file_of(("a", "<i8", "[" * 100_000, EIGHT)), "nested too deep"),
        (file_of(("a", "<i8", f"{[1] * 65}", EIGHT)), "has the shape"),
        (file_of(("a", "|b1", "[8]", b"\7" * 8)), "is not bool"),
        (file_of(("a", "<U2", "[1]", b"\xff" * 8)), "is not <U2"),
        (file_of(("a", "<i8", "[1]", None)), "without nulls"),
        (file_of(("a", "<i8", "[1]", 7), kind=pa.int64()), "stored as int64"),
        (file_of(*[("a", "<i8", "[1]", EIGHT)] * 2), "two arrays named 'a'"),
        (file_of(about="[]"), "not a dict"),
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


@pytest.mark.parametrize("name", ["identity.json", "query.json"])
def test_a_folder_in_place_of_a_file_is_refused_in_one_line(ledger, name):
    (Path(ledger.folder) / name).mkdir(parents=True)
    begin = ledger.claim if name == "identity.json" else ledger.bind
    with pytest.raises(LedgerCorrupt, match=f"{name} is not readable: it is a folder"):
        begin(IDENTITY if name == "identity.json" else "query")
