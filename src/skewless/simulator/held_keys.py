"""Keys whose state is on its way: their records wait at their sources, other keys go on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Keys
from skewless.simulator.routed import Routed, joined_routed, no_routed


class HeldKeys:
    """Keeps records of moving keys back, as the pause of Mixed's protocol does."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._keys: Keys = np.empty(0, np.uint64)  # ascending
        self._until: Floats = np.empty(0)
        self._records = no_routed()

    def hold(self, keys: Keys, until: Floats, now: float) -> None:
        """Keep records of these keys back until the times given; a key may be held already."""
        current = self._until > now
        all_keys = np.concatenate([self._keys[current], keys])
        all_times = np.concatenate([self._until[current], until])
        self._keys, index = np.unique(all_keys, return_inverse=True)
        self._until = np.full(self._keys.size, -np.inf)
        np.maximum.at(self._until, index, all_times)

    def _waits(self, keys: Keys, now: float) -> NDArray[np.bool_]:
        """Return for each key whether its state is still on its way."""
        if not self._keys.size:
            return np.zeros(keys.size, np.bool_)
        at = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        waits: NDArray[np.bool_] = (self._keys[at] == keys) & (self._until[at] > now)
        return waits

    def pass_through(self, records: Routed, now: float) -> Routed:
        """Return the records that can leave now, first those that waited; keep the others."""
        if not self._keys.size and not self._records.keys.size:
            return records
        waits = self._waits(records.keys, now)
        kept = records.part(waits)
        kept.born[:] = now
        before = self._waits(self._records.keys, now)
        released = self._records.part(~before)
        self._records = joined_routed([self._records.part(before), kept])
        return joined_routed([released, records.part(~waits)])

    def release_all(self) -> Routed:
        """Return the records that still wait: the stream has ended."""
        records, self._records = self._records, no_routed()
        return records
