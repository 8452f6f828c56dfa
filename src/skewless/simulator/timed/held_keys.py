"""Keys whose state is on its way: their records wait at their sources, other keys do not."""

from __future__ import annotations

import numpy as np

from skewless.arrays import Floats, Keys


class HeldKeys:
    """Says until when records of moving keys wait, as the pause of Mixed's protocol does."""

    def __init__(self) -> None:
        self._keys: Keys = np.empty(0, np.uint64)  # ascending
        self._until: Floats = np.empty(0)

    def hold(self, keys: Keys, until: Floats, now: float) -> None:
        """Let records of these keys wait until the times given; a key may be held already."""
        current = self._until > now
        all_keys = np.concatenate([self._keys[current], keys])
        all_times = np.concatenate([self._until[current], until])
        self._keys, index = np.unique(all_keys, return_inverse=True)
        self._until = np.full(self._keys.size, -np.inf)
        np.maximum.at(self._until, index, all_times)

    def until(self, keys: Keys) -> Floats:
        """Return until when the records of each key wait; 0 where they need not."""
        if not self._keys.size:
            return np.zeros(keys.size)
        at = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        times: Floats = np.where(self._keys[at] == keys, self._until[at], 0.0)
        return times
