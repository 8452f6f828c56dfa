"""Opens compressed files as Spark writes them, in its own framing of lz4 too.

Spark's `lz4` is a row of blocks with a header each (`LZ4BlockOutputStream` of lz4-java). A block of
more than 32 MiB is refused: Spark writes none, and a small file could ask for much memory. The
checksums of blocks are not compared.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

#: Bytes of one block, at most.
_LARGEST = 1 << 25
_LZ4_HEADER = struct.Struct("<8sBiii")  # magic, method and level, sizes, checksum
_LZ4_STORED, _LZ4_PACKED = 0x10, 0x20


def decompressed(raw: IO[bytes], codec: str) -> Any:
    """Return the content of a file, decompressed; `codec` is how Spark names it.

    Reading raises OSError where the file ends in the middle of a block, and ArrowInvalid where it
    is no such file. To close what is returned closes the file.
    """
    if codec == "lz4":
        return _Joined(raw, _lz4_blocks(raw))
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


def _unpacked(packed: bytes, size: int) -> bytes:
    try:
        found: bytes = pa.Codec("lz4_raw").decompress(packed, size, asbytes=True)
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
            yield _unpacked(packed, _checked(n_unpacked))
        else:
            raise pa.ArrowInvalid(f"unknown method {method:#x}, or sizes that differ")
