"""How large the share of a key may be that was seen so often: Pd-Stream's probability table.

References
----------
Pd-Stream, Alg. 1 (hot key probability search), eq. 14–15, Table III.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from skewless.arrays import Floats


def probability_table(length: int, confidence: float) -> Floats:
    """Return, for a key seen 0 … `length` times in `length` records, the share it may have.

    It is the share p of the stream at which the key would be seen at least that often with a
    probability of `confidence`. The chance of at least k successes is a regularised incomplete
    beta function, I_p(k, N − k + 1), so p is its inverse and needs no search (Alg. 1, eq. 14–15).

    >>> probability_table(16, 0.99)[[1, 2, 6, 16]].round(3).tolist()
    [0.25, 0.349, 0.63, 0.999]
    """
    counts = np.arange(1, length + 1)
    return np.concatenate([[0.0], betaincinv(counts, length - counts + 1, confidence)])
