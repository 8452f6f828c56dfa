"""The merge stage: partial results of a key meet at one reducer when their window has ended."""

from __future__ import annotations

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.simulator.forwarding import SlidingPartials, partials
from skewless.simulator.timed.timing import Timing


class MergeStage:
    """Reducers that merge one replica after the other; each key belongs to one of them.

    With key forwarding, only some keys are merged: `merge_only` says which, slide by slide.
    """

    def __init__(self, timing: Timing, *, n_slides: int = 1, forwarding: bool = False) -> None:
        self._seconds = timing.merge
        self._free: Floats = np.zeros(timing.reducers)
        self._sent: dict[int, list[tuple[Keys, Workers]]] = {}
        self._window = SlidingPartials(n_slides)
        self._merging: dict[int, Keys] | None = {} if forwarding else None

    def add(self, slide: int, keys: Keys, workers: Workers) -> None:
        """Note which keys have a part on which workers."""
        self._sent.setdefault(slide, []).append((keys, workers))

    def merge_only(self, slide: int, keys: Keys) -> None:
        """Merge only these keys of a slide; the results of all other keys are final."""
        if self._merging is not None:
            self._merging[slide] = keys

    def knows(self, slide: int) -> bool:
        """Return whether it is known which keys of a slide are merged."""
        return self._merging is None or slide in self._merging

    def close(self, slide: int, time: float) -> float:
        """Return when the results of a slide are merged, whose records were done at `time`.

        Without a call of `merge_only`, as for an incomplete last slide, all keys are merged.
        """
        pieces = self._sent.pop(slide)
        keys = np.concatenate([k for k, _ in pieces])
        workers = np.concatenate([w for _, w in pieces])
        merging = None if self._merging is None else self._merging.pop(slide, None)
        self._window.add(partials(keys, workers), merging)
        pairs, merged = self._window.pairs()
        reducers = (pairs.keys[merged] % np.uint64(self._free.size)).astype(np.int64)
        work = np.bincount(reducers, minlength=self._free.size) * self._seconds
        busy = work > 0
        self._free[busy] = np.maximum(self._free[busy], time) + work[busy]
        return float(self._free[busy].max(initial=time))
