"""States as files: named arrays in Arrow IPC with a checksum, which is checked before use.

A file has one block or more. A block is an Arrow IPC stream, its length in eight bytes, and a seal:
eight letters and a checksum of all that comes before it in the block. So blocks are found from the
end of a file, and each is read and checked without the others. Arrow readers stop where the stream
ends, so any of them opens the file. The seal is outside the stream so that it also covers Arrow's
headers. It stays at the same place in later versions, so a damaged file is never taken for a newer
one. In an entry's stream there is one row, with one binary column per array.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.arrays import read_only
from skewless.kernels.xxhash64 import SPARK_SEED, hash_bytes
from skewless.plumbing.compiling import JIT_OFF
from skewless.plumbing.private_files import NoFolderForKernels

FORMAT = "skewless-state"
VERSION = 2

_LETTERS = b"SKEWLESS"
_DIGEST_BYTES = 32
_SEAL_BYTES = len(_LETTERS) + _DIGEST_BYTES
_LENGTH_BYTES = 8
#: A longer content is sealed by its XXH64, which takes a fifth of the time.
LONG_BYTES = 1 << 20
#: The end of an Arrow stream. In version 1, the seal followed it without a length.
_ARROW_ENDS = b"\xff\xff\xff\xff\0\0\0\0"
#: Booleans, integers, floats, complex numbers, bytes, text, dates and spans of time.
_KINDS = "biufcSUMm"
_DTYPE = re.compile(rf"[<>|][{_KINDS}][0-9]{{1,9}}(\[[0-9A-Za-z]+\])?")
_MOST_DIMENSIONS = 32
_LAST_CHARACTER = 0x10FFFF


class LedgerCorrupt(ValueError):  # noqa: N818 - it is read as a sentence
    """A file of the ledger is damaged; the message says which and why."""


class LedgerTooNew(ValueError):  # noqa: N818 - it is read as a sentence
    """A file of the ledger was written by a later version of skewless than this one."""


@dataclass(frozen=True, eq=False)
class Entry:
    """What one file holds: arrays by name, and a few words about them."""

    arrays: dict[str, NDArray[Any]]  # of numbers, booleans, text or times, of any shape
    #: JSON values by name: text, finite numbers, booleans, None, lists, and dicts by text.
    about: dict[str, Any] = field(default_factory=dict)
    where: str = ""  # the file that it was read from, for messages; not written
    checksum: str = ""  # there; not written


def to_bytes(entry: Entry) -> bytes:
    """Return the file of `entry`: the same bytes for the same content.

    >>> entry = Entry({"loads": np.arange(3)}, {"batch": 7})
    >>> from_bytes(to_bytes(entry), "here").arrays["loads"]
    array([0, 1, 2])
    """
    fields, columns = [], []
    for name, array in sorted(entry.arrays.items()):
        _require_storable(name, array)
        # The type is kept as text and the values as bytes, because Arrow has no complex numbers,
        # no shapes, and one bit per boolean.
        described = {"dtype": array.dtype.str, "shape": json.dumps(array.shape)}
        fields.append(pa.field(name, pa.large_binary(), nullable=False, metadata=described))
        columns.append(pa.array([array.tobytes()], pa.large_binary()))
    return table_block(pa.table(columns, schema=pa.schema(fields)), FORMAT, entry.about)


def from_bytes(data: bytes, where: str) -> Entry:
    """Return the entry in the last block of `data`; `where` is what an error calls the file.

    The arrays are copies and may be written to.
    """
    with readable(where):
        table, about = block_table(data, FORMAT, where)
        for column in table.schema:
            if table.column_names.count(column.name) > 1:
                raise ValueError(f"it has two arrays named {column.name!r}")
            if column.type != pa.large_binary():
                raise ValueError(f"array {column.name!r} is stored as {column.type}")
        if any(len(column) != 1 or column.null_count for column in table.columns):
            raise ValueError("it must have one row, without nulls")
        arrays = {
            column.name: _array(column, values[0].as_buffer())
            for column, values in zip(table.schema, table.columns, strict=True)
        }
        return Entry(arrays, about, where, data[-_DIGEST_BYTES:].hex())


def table_block(table: pa.Table, form: str, about: dict[str, Any], *, after: bytes = b"") -> bytes:
    """Return a sealed block: a table in this format, and JSON values about it.

    The bytes `after` it are another block. Joined here, a large table is copied once less.
    """
    metadata = {"format": form, "version": str(VERSION), "about": json_text(about)}
    schema = table.schema.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    return seal(sink.getvalue(), after)


def block_table(data: Any, form: str, where: str) -> tuple[pa.Table, dict[str, Any]]:
    """Return the table in the last block of `data` and what is said about it, both validated."""
    with readable(where), pa.ipc.open_stream(pa.py_buffer(unseal(data, where))) as reader:
        metadata = {k.decode(): v.decode() for k, v in (reader.schema.metadata or {}).items()}
        require_version(metadata.get("format"), metadata.get("version"), form, where)
        table = reader.read_all().replace_schema_metadata(None)
        table.validate(full=True)  # a bad offset would end the process, not the task
        about = from_json(metadata["about"])
        if not isinstance(about, dict):
            raise ValueError("what it says about itself is not a dict")
        return table, about


@contextlib.contextmanager
def readable(where: str, what: str = "is not readable") -> Iterator[None]:
    """Turn whatever is wrong with the content of a file into LedgerCorrupt, which names it."""
    try:
        yield
    except (LedgerCorrupt, LedgerTooNew, NoFolderForKernels):
        raise
    except KeyError as error:
        raise LedgerCorrupt(f"{where} {what}: it has no {error}") from error
    except (pa.ArrowException, AttributeError, MemoryError, OSError, TypeError, ValueError) as bad:
        raise LedgerCorrupt(f"{where} {what}: {one_line(bad)}") from bad


def from_json(text: str | bytes) -> Any:
    """Return a JSON value; raise ValueError if it is invalid, nested too deep, or has a NaN."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a JSON value")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def one_line(error: Exception) -> str:
    """Return the text of an error, shortened to one line, for use in a message."""
    return " ".join(str(error).split())[:300]


def seal(content: Any, after: bytes = b"") -> bytes:
    """Return `content` as a block: followed by its length and its seal, and the bytes `after`."""
    length = len(content).to_bytes(_LENGTH_BYTES, "little")
    return b"".join((content, length, _LETTERS, _digest(content, length), after))


def _digest(content: Any, length: bytes) -> bytes:
    """Return the checksum of a content and its length; by way of another one, if it is long.

    It is against damage. Whoever can write the file can write its seal as well.
    """
    if memoryview(content).nbytes <= LONG_BYTES or JIT_OFF:
        return _whole_digest(content, length)
    return _long_digest(content, length)


def _long_digest(content: Any, length: bytes) -> bytes:
    data = read_only(np.frombuffer(content, np.uint8))  # one type for what is written and read
    hashed = int(hash_bytes(data, 0, data.size, SPARK_SEED))
    return _whole_digest(hashed.to_bytes(8, "little"), length)


def _whole_digest(content: Any, length: bytes) -> bytes:
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES)
    digest.update(length)
    return digest.digest()


def _digest_of_ranges(content: Any, length: bytes) -> bytes:
    begins = range(0, len(content), LONG_BYTES)
    sums = [zlib.crc32(content[begin : begin + LONG_BYTES]) for begin in begins]
    return _whole_digest(np.array(sums, "<u4").tobytes(), length)


def begin_of_last(data: Any) -> int:
    """Find the place where the last block of `data` begins; below 0 if it begins before `data`."""
    length = int.from_bytes(data[-_SEAL_BYTES - _LENGTH_BYTES : -_SEAL_BYTES], "little")
    return len(data) - _SEAL_BYTES - _LENGTH_BYTES - length


def unseal(data: Any, where: str) -> Any:
    """Unpack the last block, or raise LedgerCorrupt."""
    begin = begin_of_last(data)
    letters = data[-_SEAL_BYTES:-_DIGEST_BYTES]
    if letters == _LETTERS and data[-_SEAL_BYTES - _LENGTH_BYTES : -_SEAL_BYTES] == _ARROW_ENDS:
        raise _too_old(where, "1")
    if len(data) < _SEAL_BYTES or letters != _LETTERS or begin < 0:
        raise LedgerCorrupt(f"{where} is truncated or not a file of skewless: it has no seal")
    sealed = memoryview(data)[begin:-_SEAL_BYTES]
    parts = sealed[:-_LENGTH_BYTES], bytes(sealed[-_LENGTH_BYTES:])
    # Long files of earlier versions have the checksum of the whole, or of its ranges. Without
    # compilation the checksum of long files takes minutes, so it is the last one there.
    digests = _digest, _whole_digest, _digest_of_ranges, _long_digest
    if all(data[-_DIGEST_BYTES:] != digest(*parts) for digest in digests):
        raise LedgerCorrupt(f"{where} is damaged: its checksum does not match its content")
    return data[begin:-_SEAL_BYTES]


def require_version(found: Any, version: Any, wanted: str, where: str) -> None:
    """Raise LedgerCorrupt for another format or an older version, LedgerTooNew for a later one."""
    if found != wanted or not str(version).isdecimal():
        raise LedgerCorrupt(
            f"{where} has the format {str(found)[:40]!r} version {str(version)[:20]!r}, "
            f"not {wanted!r} version {VERSION}"
        )
    if len(str(version)) > 9 or int(version) > VERSION:
        raise LedgerTooNew(
            f"{where} has version {str(version)[:20]} of the format {wanted!r}; "
            f"this skewless reads version {VERSION}: install the skewless that wrote it"
        )
    if int(version) < VERSION:
        raise _too_old(where, str(version))


def _too_old(where: str, version: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{where} has version {version}, and this skewless reads version {VERSION} only: begin "
        "with another ledger and checkpoint, or install the skewless that wrote it"
    )


def _require_storable(name: str, array: NDArray[Any]) -> None:
    is_array = isinstance(array, np.ndarray)
    found = f"{array.dtype} array" if is_array else type(array).__name__
    if not is_array or array.dtype.kind not in _KINDS or not array.dtype.itemsize:
        raise ValueError(
            f"arrays[{name!r}] must be a numpy array of numbers, booleans, text or times, "
            f"not a {found}"
        )


def _array(column: pa.Field, values: pa.Buffer) -> NDArray[Any]:
    described = column.metadata or {}
    text, shape = described[b"dtype"].decode(), from_json(described[b"shape"])
    if not _DTYPE.fullmatch(text):
        raise ValueError(f"array {column.name!r} has the type {text[:40]!r}")
    is_shape = isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS
    if not is_shape or any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"array {column.name!r} has the shape {str(shape)[:80]}")
    dtype = np.dtype(text)
    if not dtype.itemsize or values.size != dtype.itemsize * math.prod(shape):
        raise ValueError(
            f"array {column.name!r}: {values.size} bytes are not {dtype} of the shape {shape}"
        )
    array = np.empty(shape, dtype)
    array[...] = np.ndarray(shape, dtype, buffer=values)
    _require_values(column.name, array)
    return array


def _require_values(name: str, array: NDArray[Any]) -> None:
    """Raise ValueError for bytes that are no boolean, or no character."""
    kind, flat = array.dtype, array.reshape(-1)
    is_bad = kind.kind == "b" and (flat.view(np.uint8) > 1).any()
    if kind.kind == "U":
        is_bad = (flat.view(f"{kind.str[0]}u4") > _LAST_CHARACTER).any()
    if is_bad:
        raise ValueError(f"array {name!r} of {kind.itemsize} bytes each holds what is not {kind}")


def json_text(about: dict[str, Any]) -> str:
    """Return JSON values as text, the same for the same values; raise ValueError for others."""
    try:
        text = json.dumps(about, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ValueError(f"about must hold JSON values only: {error}") from None
    if json.loads(text) != about:
        raise ValueError(
            f"about must hold JSON values only (lists, not tuples; text as keys), not {about!r}"
        )
    return text
