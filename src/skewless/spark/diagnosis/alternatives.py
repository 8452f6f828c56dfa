"""Where the alternatives in plain Spark would send the records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skewless.arrays import Ints, Workers
from skewless.kernels.hashing import keyed
from skewless.spark.diagnosis.sampled_keys import SampledKeys

ROUND_ROBIN = "round-robin"
LOCAL = "local"
_SALTS = (2, 4, 8, 16, 32)
_SEEDS = np.array([1, 2], np.uint64)
_SALT_SEED = 0


def round_robin(sample: SampledKeys, n_workers: int) -> Workers:
    """Return the workers by `repartition(n)`: each partition deals its records out in turn."""
    workers = np.empty(sample.n_records, np.int32)
    for partition, records in enumerate(sample.sources()):
        size = records.stop - records.start
        workers[records] = (np.arange(size) + partition) % n_workers
    return workers


def salted(sample: SampledKeys, n_workers: int) -> Iterator[tuple[str, Workers]]:
    """Yield the workers by hash of the key and a random salt, as `F.rand()` gives it.

    Salts dealt out in turn could follow a period of the keys, and look better than they are.
    """
    drawn = np.random.default_rng(_SALT_SEED).random(sample.n_records, np.float32)
    for n_salts in _SALTS:
        if n_salts > n_workers:
            break
        hashes = np.empty(sample.n_records, np.uint64)
        keyed(sample.keys, (drawn * n_salts).astype(np.uint64), _SEEDS, hashes)
        yield f"salt-{n_salts}", (hashes % np.uint64(n_workers)).astype(np.int32)


def partition_of(sample: SampledKeys) -> tuple[Ints, int]:
    """Return the partition that each record is in already, and how many there are."""
    sizes = [records.stop - records.start for records in sample.sources()]
    return np.repeat(np.arange(len(sizes)), sizes), max(1, len(sizes))
