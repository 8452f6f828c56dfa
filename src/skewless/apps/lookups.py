"""Work that costs something per record: a call to somewhere else, for which the worker waits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from skewless.aggregations import Count
from skewless.arrays import Ints


@dataclass(frozen=True)
class CountLookedUp(Count):
    """Counts records, each of which is looked up somewhere first, which takes a while.

    The waiting is a sleep: it takes time and no processor, like a request to a database, so more
    workers than cores are of use.
    """

    lookup_us: int = 0

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Wait for the lookups, and count."""
        time.sleep(codes.size * self.lookup_us * 1e-6)
        return super().update(columns, codes, n_groups)
