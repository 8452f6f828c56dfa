"""Work with a cost per record and per key, simulated by sleeping."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from skewless.aggregations import Count
from skewless.arrays import Ints


@dataclass(frozen=True)
class CountLookedUp(Count):
    """Counts records that are scored by a model of their key, which is loaded first.

    Each record takes time, and so does each key on each worker that has it: the worker loads the
    model of the key before it can score records. The work is a sleep. Like a request to a database,
    it takes time but no processor, so more workers than cores help.

    Parameters
    ----------
    lookup_us
        What a record takes, in microseconds.
    load_us
        What the model of a key takes, in microseconds.
    """

    lookup_us: int = 0
    load_us: int = 0

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Load the models of these keys, wait for each record, and count."""
        time.sleep((codes.size * self.lookup_us + n_groups * self.load_us) * 1e-6)
        return super().update(columns, codes, n_groups)
