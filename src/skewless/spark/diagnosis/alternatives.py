"""Where the alternatives in plain Spark would send the records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skewless.arrays import Ints, Workers
from skewless.diagnosis.salting import Salting
from skewless.spark.diagnosis.sampled_keys import SampledKeys

ROUND_ROBIN = "round-robin"
LOCAL = "local"
_SALTS = (2, 4, 8, 16, 32)
_SALT_SEED = 0


def round_robin(sample: SampledKeys, n_workers: int) -> Workers:
    """Return the workers by `repartition(n)`: each partition deals its records out in turn."""
    workers = np.empty(sample.n_records, np.int32)
    for partition, records in enumerate(sample.sources()):
        size = records.stop - records.start
        workers[records] = (np.arange(size) + partition) % n_workers
    return workers


def salted(sample: SampledKeys, n_workers: int) -> Iterator[tuple[str, Workers]]:
    """Yield the workers by hash of the key and a random salt, as `F.rand()` gives it."""
    for n_salts in _SALTS:
        if n_salts > n_workers:
            break
        strategy, workers = Salting(n_salts), np.empty(sample.n_records, np.int32)
        strategy.route(sample.keys, strategy.start(n_workers, _SALT_SEED), workers)
        yield f"salt-{n_salts}", workers


def partition_of(sample: SampledKeys) -> tuple[Ints, int]:
    """Return the partition that each record is in already, and how many there are."""
    sizes = [records.stop - records.start for records in sample.sources()]
    return np.repeat(np.arange(len(sizes)), sizes), max(1, len(sizes))
