"""Compressed logs, in the framings of Spark's codecs."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from diagnosis.log_events import START
from skewless.diagnosis.event_log import LogError, read_events

LINES = "".join(json.dumps(event) + "\n" for event in START * 50).encode()
HALF = len(LINES) // 2


def lz4(*parts: bytes) -> bytes:
    blocks = [pa.Codec("lz4_raw").compress(part, asbytes=True) for part in parts]
    headers = [
        struct.pack("<8sBiii", b"LZ4Block", 0x26, len(block), len(part), 1)
        for block, part in zip(blocks, parts, strict=True)
    ]
    end = struct.pack("<8sBiii", b"LZ4Block", 0x16, 0, 0, 0)
    return b"".join(map(b"".join, zip(headers, blocks, strict=True))) + end


FORMS = {"lz4": lz4}


@pytest.mark.parametrize("codec", FORMS)
def test_blocks_are_read_one_after_the_other(tmp_path: Path, codec: str) -> None:
    packed = FORMS[codec](LINES[:HALF], LINES[HALF:])
    (tmp_path / f"log.{codec}").write_bytes(packed)
    assert list(read_events(tmp_path / f"log.{codec}")) == START * 50
    # One stream after the other, as a writer that was opened again leaves it.
    again = tmp_path / f"again.{codec}.inprogress"
    again.write_bytes(FORMS[codec](LINES[:HALF]) + FORMS[codec](LINES[HALF:]))
    assert list(read_events(again)) == START * 50


@pytest.mark.parametrize("codec", FORMS)
def test_a_file_that_was_not_closed_is_read_up_to_its_last_block(
    tmp_path: Path, codec: str
) -> None:
    packed = FORMS[codec](LINES[:HALF], LINES[HALF:])
    (tmp_path / f"log.{codec}").write_bytes(packed[:-60])
    found = list(read_events(tmp_path / f"log.{codec}"))
    assert 50 <= len(found) < 200
    assert found == (START * 50)[: len(found)]


HUGE = (1 << 25) + 1
CORRUPT = {
    "a.lz4": (b"nonsense" * 9, "does not begin with LZ4Block"),
    "b.lz4": (struct.pack("<8sBiii", b"LZ4Block", 0x20, HUGE, 1, 0), f"claims {HUGE} bytes"),
    "c.lz4": (struct.pack("<8sBiii", b"LZ4Block", 0x20, 4, HUGE, 0) + b"1234", "claims"),
    "d.lz4": (struct.pack("<8sBiii", b"LZ4Block", 0x20, -4, 9, 0), "claims -4 bytes"),
    "e.lz4": (struct.pack("<8sBiii", b"LZ4Block", 0x20, 4, 900, 0) + b"\xff" * 4, "decompressed"),
    "f.lz4": (struct.pack("<8sBiii", b"LZ4Block", 0x70, 4, 4, 0) + b"1234", "unknown method 0x70"),
    "g.lz4": (lz4(LINES)[:11], "ends in the middle of a block"),
    "a.snappy": (b"\x82SNAPPY\x00", "compression.codec to zstd or lz4"),
    "a.lzf": (b"ZV\x01\x00\x02\x00\x09\x00a", "compression.codec to zstd or lz4"),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_what_no_codec_wrote_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = CORRUPT[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=message) as error:
        list(read_events(tmp_path / name))
    assert "cannot be read" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.spark
@pytest.mark.parametrize("codec", [*FORMS, "zstd"])
def test_what_sparks_codec_writes_is_read(spark: Any, tmp_path: Path, codec: str) -> None:
    """Bytes that repeat near and far, bytes that do not, and more than one block."""
    jvm = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.sc().conf()
    made = jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, codec)
    path = tmp_path / f"log.{codec}"
    out = made.compressedOutputStream(jvm.java.io.FileOutputStream(str(path)))
    events = [
        {"Event": "x", "text": "ab" * (n % 300) + str(hash((n, "far")) ** 3), "n": n}
        for n in range(3_000)
    ]
    out.write("".join(json.dumps(event) + "\n" for event in events).encode())
    out.close()
    assert list(read_events(path)) == events
