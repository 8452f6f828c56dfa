"""How many candidates hot keys need, so that all workers can be balanced (D-Choices).

References
----------
Nasir et al., "When two choices are not enough: balancing at scale in distributed stream
processing", ICDE 2016.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, I64, Floats
from skewless.plumbing.compiling import kernel


@kernel
def fewest_choices(shares: Floats, n_hot: I64, n_workers: I64, epsilon: F64) -> I64:
    """Return the fewest candidates per hot key with which all workers can be balanced.

    `shares[:n_hot]` are the hot keys' shares of all records, largest first. Every prefix of the
    hot keys must satisfy the paper's inequality: the load that lands on the workers which these h
    keys cover is at most what that many workers may get. n means: all workers.
    """
    if n_hot == 0:
        return 2
    head_share = 0.0
    for i in range(n_hot):
        head_share += shares[i]
    tail_share = max(0.0, 1.0 - head_share)
    slack = 1.0 + n_workers * epsilon
    miss = (n_workers - 1.0) / n_workers
    for d in range(max(2, np.int64(np.ceil(shares[0] * n_workers))), n_workers):
        uncovered = 1.0
        prefix_share = 0.0
        for h in range(n_hot):
            uncovered *= miss**d
            covered = 1.0 - uncovered  # B: expected share of workers that h + 1 hot keys cover
            prefix_share += shares[h]
            landing = (
                prefix_share
                + covered**d * (head_share - prefix_share)
                + covered * covered * tail_share
            )
            if landing > covered * slack:
                break
        else:
            return d
    return n_workers
