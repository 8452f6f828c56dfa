"""Opens compressed files as Spark writes them, in its own framings of lz4, lzf and snappy too.

Spark's `lz4` is a row of blocks with a header each (`LZ4BlockOutputStream` of lz4-java), `snappy` a
header and blocks with their lengths (`SnappyOutputStream` of snappy-java), `lzf` a row of chunks
(ning's compress-lzf). A block of more than 32 MiB is refused: Spark writes none, and a small file
could ask for much memory. The checksums of lz4 blocks are not compared.
"""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa

#: Bytes of one block, at most.
_LARGEST = 1 << 25
_LZ4_HEADER = struct.Struct("<8sBiii")  # magic, method and level, sizes, checksum
_LZ4_STORED, _LZ4_PACKED = 0x10, 0x20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"


def decompressed(raw: IO[bytes], codec: str) -> Any:
    """Return the content of a file, decompressed; `codec` is how Spark names it.

    Reading raises OSError where the file ends in the middle of a block, and ArrowInvalid where it
    is no such file. To close what is returned closes the file.
    """
    if codec in _BLOCKS:
        return _Joined(raw, _BLOCKS[codec](raw))
    return pa.CompressedInputStream(raw, codec)


class _Joined(io.BufferedIOBase):
    """Blocks of bytes as one file; it owns the file that they come from."""

    def __init__(self, raw: IO[bytes], blocks: Iterator[bytes]) -> None:
        self._raw, self._blocks = raw, filter(None, blocks)  # an empty block is not the end

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()

    def read1(self, size: int = -1) -> bytes:
        """Return the next block, whatever its size: a reader of text takes any."""
        return next(self._blocks, b"")


def _read(raw: IO[bytes], size: int) -> bytes:
    found = raw.read(size)
    if len(found) < size:
        raise OSError("it ends in the middle of a block")
    return found


def _checked(size: int) -> int:
    if not 0 <= size <= _LARGEST:
        raise pa.ArrowInvalid(f"a block claims {size} bytes, and Spark writes at most {_LARGEST}")
    return size


def _unpacked(codec: str, packed: bytes, size: int) -> bytes:
    try:
        found: bytes = pa.Codec(codec).decompress(packed, size, asbytes=True)
    except (OSError, pa.ArrowException):
        raise pa.ArrowInvalid("a block cannot be decompressed") from None
    return found


def _lz4_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    while begin := raw.read(1):
        header = begin + _read(raw, _LZ4_HEADER.size - 1)
        magic, token, n_packed, n_unpacked, _ = _LZ4_HEADER.unpack(header)
        if magic != b"LZ4Block":
            raise pa.ArrowInvalid("a block does not begin with LZ4Block")
        packed = _read(raw, _checked(n_packed))
        method = token & 0xF0
        if method == _LZ4_STORED and n_packed == n_unpacked:
            yield packed  # an empty one ends a stream, and another may follow
        elif method == _LZ4_PACKED:
            yield _unpacked("lz4_raw", packed, _checked(n_unpacked))
        else:
            raise pa.ArrowInvalid(f"unknown method {method:#x}, or sizes that differ")


def _snappy_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    has_header = False
    while begin := raw.read(1):
        begin += _read(raw, 3)
        is_header = begin == _SNAPPY_MAGIC[:4]  # of the first stream, or of one that follows
        if is_header:
            has_header = _read(raw, 12)[:4] == _SNAPPY_MAGIC[4:]
        if not has_header:
            raise pa.ArrowInvalid("it does not begin as Spark's snappy files do")
        if not is_header:
            packed = _read(raw, _checked(int.from_bytes(begin, "big", signed=True)))
            yield _unpacked("snappy", packed, _checked(_snappy_size(packed)))


def _snappy_size(packed: bytes) -> int:
    """Return the number at the beginning of a block: seven bits a byte, the lowest first."""
    size = 0
    for place, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise pa.ArrowInvalid("a block does not begin with its size")


def _lzf_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    while begin := raw.read(1):
        header = begin + _read(raw, 4)
        if header[:2] != b"ZV" or header[2] > 1:
            raise pa.ArrowInvalid("a chunk does not begin with ZV")
        size = int.from_bytes(header[3:5], "big")
        if header[2] == 0:
            yield _read(raw, size)
        else:
            n_unpacked = int.from_bytes(_read(raw, 2), "big")
            yield _unpacked_lzf(_read(raw, size), n_unpacked)


def _unpacked_lzf(packed: bytes, size: int) -> bytes:
    """Return the content of a chunk: literal bytes, and copies of what came before.

    >>> _unpacked_lzf(bytes([1, 97, 98, 0x60, 1]), 7)
    b'abababa'
    """
    out, codes = bytearray(), iter(packed)
    try:
        for code in codes:
            if code < 32:  # this many literals, and one more
                out += bytes(itertools.islice(codes, code + 1))
                continue
            length = (code >> 5) + 2 + (next(codes) if code >> 5 == 7 else 0)
            start = len(out) - ((code & 31) << 8) - next(codes) - 1
            if start < 0:
                raise pa.ArrowInvalid("a chunk copies from before its beginning")
            part = out[start : start + length]  # shorter if the copy overlaps what it writes
            out += (part * -(-length // len(part)))[:length]
    except StopIteration:
        raise pa.ArrowInvalid("a chunk ends in the middle of a copy") from None
    if len(out) != size:
        raise pa.ArrowInvalid(f"a chunk claims {size} bytes and has {len(out)}")
    return bytes(out)


_BLOCKS: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    "lz4": _lz4_blocks,
    "snappy": _snappy_blocks,
    "lzf": _lzf_blocks,
}
