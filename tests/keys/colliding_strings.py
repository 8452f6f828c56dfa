"""Different strings with one and the same `xxhash64`, as many as wanted."""

from __future__ import annotations

import numpy as np

from skewless.arrays import Words

_PRIME_1, _PRIME_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_PRIME_4, _PRIME_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SPARK_SEED = 42
_ALPHABET = np.frombuffer(b"abcdefghijklmnop", np.uint8)


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def colliding_strings(n_strings: int) -> list[str]:
    """Return strings of 16 ASCII characters that all have the same hash.

    The hash takes 8 bytes, turns them around and adds them to what it has by an exclusive or. All
    of that can be undone. So for any first 8 bytes there are second ones that lead to one number;
    kept are those that are text, one in 256.
    """
    found: dict[str, None] = {}
    rng = np.random.default_rng(1)
    wanted = np.uint64(0x0123456789ABCDEF)  # behind the second exclusive or
    back_1, back_2 = (np.uint64(pow(prime, -1, 1 << 64)) for prime in (_PRIME_1, _PRIME_2))
    while len(found) < n_strings:
        first = _ALPHABET[rng.integers(0, 16, (1 << 19, 8))].copy().view(np.uint64)[:, 0]
        turned = _rotated(first * np.uint64(_PRIME_2), 31) * np.uint64(_PRIME_1)
        begin = np.uint64(_SPARK_SEED + _PRIME_5 + 16)
        hashed = _rotated(begin ^ turned, 27) * np.uint64(_PRIME_1) + np.uint64(_PRIME_4)
        second = _rotated((wanted ^ hashed) * back_1, 33) * back_2
        is_text = second & np.uint64(0x8080808080808080) == 0
        pairs = np.stack([first[is_text], second[is_text]], axis=1)
        found |= dict.fromkeys(pair.tobytes().decode("ascii") for pair in pairs)
    return list(found)[:n_strings]
