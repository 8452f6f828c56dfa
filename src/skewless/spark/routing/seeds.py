"""The seed of the routing: given, drawn for a batch job, or kept by a stream.

Somebody who knows the seed can choose keys that all go to one worker. So each job has its own seed,
unless the user gives one. A task that runs again must have the seed of its first attempt, and a
restarted stream that of its last run:

- given: it is used, and a ledger that was written with another seed is refused;
- a batch job: the driver draws one and logs it, and all tasks get it with their function;
- a stream: it is derived from the id of the query, which Spark draws and the checkpoint keeps. So
  tasks of different runs agree on it, even if two of them write the identity of the ledger at the
  same moment. The ledger keeps the seed.
"""

from __future__ import annotations

import hashlib
import logging
import secrets

import numpy as np

from skewless.kernels.hashing import seed_array

_BITS = 63  # fits a signed 64-bit integer
_LOGGER = logging.getLogger("skewless")


def draw_seed() -> int:
    """Return a seed that cannot be guessed."""
    return secrets.randbits(_BITS)


def seed_of_query(query: str) -> int:
    """Return the seed of a stream, the same after every restart."""
    digest = hashlib.sha256(f"skewless seed of {query}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _BITS)


def hash_seed(seed: int) -> int:
    """Return the number that the JVM hashes with every key."""
    return int(seed_array(seed, 3)[2].view(np.int64))


def log_seed(seed: int) -> None:
    """Log how to repeat a batch job."""
    _LOGGER.info("the routing has the random seed %d; seed=%d repeats it", seed, seed)
