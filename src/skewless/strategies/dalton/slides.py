"""Load per worker, and the replicas of a few keys, over a window of slides, by direct index.

Replicas are known only for keys that have a row, such as the hot ones: no hash table is needed.

Loads: each slide holds what it added per worker, which is subtracted when the slide expires. While
a slide is filled, it holds the loads at its beginning instead, so that a record changes one number.

Replicas: each pair (row, worker) remembers the slide of its latest record, and each row counts its
pairs by that slide. A record puts its pair into the present slide. A slide that expires removes the
pairs that are still in it. Both cost O(1) per record, and O(n + rows) per slide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I32, I64, Ints, Rows, SmallInts
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, require_that, require_within, within, zeros

COUNTERS = np.dtype(
    [
        ("total", "i8"),  # records in the window
        ("records", "i8"),  # of them in the present slide
        ("place", "i8"),  # of the present slide, 0 … n_slides − 1
        ("slide", "i8"),  # records that fill a slide
    ]
)


@within(-MOST_COUNTED, MOST_COUNTED, "loads", "by_slide", "counters")
class SlideLoads(NamedTuple):
    """Read `loads` and `counters[0]["total"]`; use the rest through the functions below."""

    loads: Ints  # per worker: its records in the window
    by_slide: Ints  # place by worker, flat; at `place`: the loads when the slide began
    counters: Rows  # [1]

    def check(self, fresh: SlideLoads) -> None:
        """Refuse a slide that does not exist."""
        n_slides = self.by_slide.size // self.loads.size
        # Slides are shorter where other sources fill them too.
        require_within("counters", self.counters["slide"], 1, int(fresh.counters[0]["slide"]))
        require_within("counters", self.counters["place"], 0, n_slides - 1)
        require_within("counters", self.counters["records"], 0, int(self.counters[0]["slide"]))


@fixed("shape")
@within(1, MOST_COUNTED, "slide")
class Replicas(NamedTuple):
    """The replicas of the keys with a row. Read `widths`: how many workers have the key."""

    widths: SmallInts
    latest: Ints  # row by worker, flat: the slide of the latest record, 0 for none
    by_slide: SmallInts  # row by place, flat: pairs whose latest record is in that slide
    slide: Ints  # [number of the present slide, from 1]
    shape: Ints  # [workers, slides]

    def check(self, fresh: Replicas) -> None:
        """Refuse future slides, and counts that do not match the pairs."""
        n_workers, n_slides = self.shape.tolist()
        slide = int(self.slide[0])
        require_within("latest", self.latest, 0, slide)
        latest = self.latest.reshape(-1, n_workers)
        rows, workers = np.nonzero((latest > 0) & (latest > slide - n_slides))
        by_slide = np.zeros((latest.shape[0], n_slides), np.int32)
        np.add.at(by_slide, (rows, latest[rows, workers] % n_slides), 1)
        require_that(
            np.array_equal(self.by_slide, by_slide.ravel()), "by_slide must count the pairs"
        )
        require_that(
            np.array_equal(self.widths, by_slide.sum(axis=1)), "widths must count the pairs"
        )


def slide_loads(n_workers: int, slide: int, n_slides: int) -> SlideLoads:
    """Return an empty window of `n_slides` slides of `slide` records."""
    counters = np.zeros(1, COUNTERS)
    counters["slide"] = slide
    return zeros(SlideLoads, n_workers, by_slide=n_slides * n_workers, counters=counters)


def replicas(n_rows: int, n_workers: int, n_slides: int) -> Replicas:
    """Return `n_rows` rows of keys without replicas."""
    return zeros(
        Replicas,
        n_rows,
        latest=n_rows * n_workers,
        by_slide=n_rows * n_slides,
        slide=np.ones(1, np.int64),
        shape=np.array([n_workers, n_slides]),
    )


def fill(window: SlideLoads, loads: Ints, slide: int) -> None:
    """Fill the window with `loads`, spread evenly over its slides, which now have `slide` records.

    The loads expire slide by slide.
    """
    n_workers = loads.size
    per_slide = loads * n_workers // window.by_slide.size
    window.by_slide.reshape(-1, n_workers)[:] = per_slide
    others = window.by_slide.size // n_workers - 1
    present = int(window.counters[0]["place"]) * n_workers
    window.by_slide[present : present + n_workers] = others * per_slide
    window.loads[:] = loads
    window.counters[0]["total"] = loads.sum()
    window.counters[0]["records"] = min(window.counters[0]["records"], slide)
    window.counters[0]["slide"] = slide


@kernel
def room(window: SlideLoads) -> I64:
    """Count the records that the present slide still takes."""
    return window.counters[0]["slide"] - window.counters[0]["records"]


@kernel
def advance(window: SlideLoads, n_records: I64) -> None:
    """Note that this many records, no more than there is room, have been added to `loads`."""
    window.counters[0]["total"] += n_records
    window.counters[0]["records"] += n_records


@kernel
def expire(window: SlideLoads) -> bool:
    """Begin the next slide if the present one is full; return whether it was."""
    counters = window.counters[0]
    if counters["records"] < counters["slide"]:
        return False
    n_workers = window.loads.size
    full = counters["place"] * n_workers
    fresh = full + n_workers
    if fresh == window.by_slide.size:
        fresh = 0
    for worker in range(n_workers):
        load = window.loads[worker]
        window.by_slide[full + worker] = load - window.by_slide[full + worker]
        expired = window.by_slide[fresh + worker]
        window.loads[worker] = load - expired
        window.by_slide[fresh + worker] = load - expired
        counters["total"] -= expired
    counters["place"] = fresh // n_workers
    counters["records"] = 0
    return True


@kernel
def next_slide(keys: Replicas) -> None:
    """Begin the next slide, and drop pairs without a record in the last slides."""
    keys.slide[0] += 1
    n_slides = keys.shape[1]
    place = keys.slide[0] % n_slides
    for row in range(keys.widths.size):
        keys.widths[row] -= keys.by_slide[row * n_slides + place]
        keys.by_slide[row * n_slides + place] = 0


@kernel
def place_on(keys: Replicas, row: I64, worker: I64) -> I32:
    """Note a record of the row's key on `worker`; return how many workers have the key now."""
    n_slides = keys.shape[1]
    slide = keys.slide[0]
    pair = row * keys.shape[0] + worker
    latest = keys.latest[pair]
    if latest != slide:
        if latest > slide - n_slides and latest > 0:
            keys.by_slide[row * n_slides + latest % n_slides] -= 1
        else:
            keys.widths[row] += 1
        keys.latest[pair] = slide
        keys.by_slide[row * n_slides + slide % n_slides] += 1
    return keys.widths[row]


@kernel
def is_on(keys: Replicas, row: I64, worker: I64) -> bool:
    """Tell whether `worker` has a record of the row's key in the window."""
    latest = keys.latest[row * keys.shape[0] + worker]
    return bool(latest > 0 and latest > keys.slide[0] - keys.shape[1])


@kernel
def clear_replicas(keys: Replicas, row: I64) -> None:
    """Remove all replicas of the row's key."""
    n_workers = keys.shape[0]
    n_slides = keys.shape[1]
    keys.widths[row] = 0
    for worker in range(n_workers):
        keys.latest[row * n_workers + worker] = 0
    for place in range(n_slides):
        keys.by_slide[row * n_slides + place] = 0
