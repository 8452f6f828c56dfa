"""XXH64 in whole numbers of any size, cut to 64 bits after every step."""

from __future__ import annotations

import struct

P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = (1 << 64) - 1


def rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def take(lane: int, word: int) -> int:
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int) -> int:
    rest = data
    hashed = (seed + P5) & MASK
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while len(rest) >= 32:
            words = struct.unpack("<4Q", rest[:32])
            lanes = [take(lane, word) for lane, word in zip(lanes, words, strict=True)]
            rest = rest[32:]
        turned = zip(lanes, (1, 7, 12, 18), strict=True)
        hashed = sum(rotate(lane, bits) for lane, bits in turned) & MASK
        for lane in lanes:
            hashed = ((hashed ^ take(0, lane)) * P1 + P4) & MASK
    hashed = (hashed + len(data)) & MASK
    while len(rest) >= 8:
        (word,) = struct.unpack("<Q", rest[:8])
        hashed = (rotate(hashed ^ take(0, word), 27) * P1 + P4) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        (half,) = struct.unpack("<I", rest[:4])
        hashed = (rotate(hashed ^ (half * P1 & MASK), 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        hashed = rotate(hashed ^ (byte * P5 & MASK), 11) * P1 & MASK
    hashed = (hashed ^ (hashed >> 33)) * P2 & MASK
    hashed = (hashed ^ (hashed >> 29)) * P3 & MASK
    return hashed ^ (hashed >> 32)


def spark_hash(columns: list[list[bytes | None]]) -> list[int]:
    """Chain the columns of each record, from seed 42; None leaves the hash as it is."""
    hashes = []
    for record in zip(*columns, strict=True):
        hashed = 42
        for value in record:
            hashed = hashed if value is None else xxh64(value, hashed)
        hashes.append(hashed)
    return hashes
