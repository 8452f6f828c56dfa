"""Seeded 64-bit mixing, and how a hash becomes a worker."""

import numpy as np

from skewless.arrays import F64, I32, I64, U64, Keys, Words, Workers, read_only
from skewless.plumbing.compiling import kernel

#: 2^64 divided by the golden ratio: multiples of it are spread evenly over all 64-bit numbers.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT_11, _SHIFT_27, _SHIFT_30 = np.uint64(11), np.uint64(27), np.uint64(30)
_SHIFT_31, _SHIFT_32 = np.uint64(31), np.uint64(32)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_INVERSE_1 = np.uint64(pow(int(_FACTOR_1), -1, 1 << 64))
_INVERSE_2 = np.uint64(pow(int(_FACTOR_2), -1, 1 << 64))
_TO_UNIT = 1.0 / (1 << 53)


@kernel
def mix(x: U64) -> U64:
    """Return `x` with every bit depending on every bit (the finaliser of SplitMix64)."""
    x = (x ^ (x >> _SHIFT_30)) * _FACTOR_1
    x = (x ^ (x >> _SHIFT_27)) * _FACTOR_2
    return x ^ (x >> _SHIFT_31)


@kernel
def seeded(key: U64, seed: U64) -> U64:
    """Return a hash of `key` that cannot be predicted without `seed`.

    Mixing twice matters: with one round, keys that differ by a multiple of the golden ratio
    would share their workers under every seed.
    """
    return mix(mix(key + GOLDEN) ^ seed)


@kernel
def nth_hash(hashed: U64, number: I64) -> U64:
    """Return one of many hashes of a key, by number, from its seeded hash."""
    return mix(hashed + np.uint64(number) * GOLDEN)


@kernel
def seeded_all(keys: Keys, seed: Words, out: Words) -> None:
    """Fill `out` with the seeded hash of each key."""
    for i in range(keys.size):
        out[i] = seeded(keys[i], seed[0])


def unseeded(hashes: Words, seed: Words) -> Keys:
    """Return the keys that `seeded_all` turns into these hashes: mixing loses nothing."""
    keys: Keys = _unmixed(_unmixed(hashes) ^ seed[0]) - GOLDEN
    return keys


def _unmixed(x: Words) -> Words:
    """Return the words that `mix` turns into `x`."""
    x = _unshifted(x, 31) * _INVERSE_2
    x = _unshifted(x, 27) * _INVERSE_1
    return _unshifted(x, 30)


def _unshifted(x: Words, bits: int) -> Words:
    """Return y for which y ^ (y >> bits) is `x`."""
    found = x
    for _ in range(64 // bits):
        found = x ^ (found >> np.uint64(bits))
    return found


@kernel
def keyed(first: Keys, second: Keys, seeds: Words, out: Keys) -> None:
    """Fill `out` with one hash for each pair, which cannot be predicted without the two seeds."""
    for i in range(out.size):
        out[i] = seeded(seeded(first[i], seeds[0]) ^ second[i], seeds[1])


@kernel
def to_worker(hashed: U64, n_workers: I64) -> I32:
    """Return the worker 0 … n_workers − 1 of a 64-bit hash.

    The upper half times n, upper half again: as even as modulo, and several times faster, because
    there is no division.
    """
    return np.int32(((hashed >> _SHIFT_32) * np.uint64(n_workers)) >> _SHIFT_32)


@kernel
def two_workers(hashed: U64, n_workers: I64) -> tuple[I32, I32]:
    """Return the two candidates of a key, one from each half of its hash. They may be equal."""
    return to_worker(hashed, n_workers), to_worker(hashed << _SHIFT_32, n_workers)


@kernel
def _fill_workers(keys: Keys, seed: U64, n_workers: I64, out: Workers) -> None:
    for i in range(keys.size):
        out[i] = to_worker(seeded(keys[i], seed), n_workers)


def hashed_workers(keys: Keys, seed: Words, n_workers: int) -> Workers:
    """Return the worker to which each key is hashed: of its two candidates, the first."""
    out = np.empty(keys.size, np.int32)
    _fill_workers(read_only(keys), seed[0], n_workers, out)
    return out


@kernel
def draw(seed: U64, counter: I64) -> U64:
    """Return random bits number `counter` of the stream `seed`: any of them, in any order."""
    return mix(seed + mix(np.uint64(counter) * GOLDEN + GOLDEN))


@kernel
def to_unit(bits: U64) -> F64:
    """Return random bits as a float, uniform in [0, 1)."""
    return np.float64(bits >> _SHIFT_11) * _TO_UNIT


def seed_array(seed: int, n: int) -> Words:
    """Return `n` independent 64-bit seeds that follow from `seed`."""
    return np.random.SeedSequence(seed).generate_state(n, np.uint64).astype(np.uint64)
