"""All merges so far, in a list; which of them has the message of a source; its part in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

REMEMBERED = 32


class Merge(NamedTuple):
    n_new: int
    n_sources: int
    fading: float  # of the records before


def merges_after(sources: Sequence[Any], n_new: int, horizon: float) -> list[Merge]:
    longest: list[Merge] = max((source.merges for source in sources), key=len)
    merge = Merge(n_new, len(sources), horizon / (horizon + n_new))
    return [*longest, merge] if n_new else list(longest)


def recent_records(merges: Sequence[Merge]) -> tuple[float, float]:
    """Return the records of all merges, faded, and the same times the sources of each merge."""
    records = times_sources = 0.0
    for n_new, n_sources, fading in merges:
        records = fading * records + n_new
        times_sources = fading * times_sources + n_new * n_sources
    return records, times_sources


def scale_after(source: Any, merges: list[Merge], n_in_message: int, horizon: float) -> float:
    """The message of the source is in the first merge that it does not know of."""
    missed = merges[len(source.merges) :]
    source.merges = list(merges)
    if len(missed) >= REMEMBERED:
        source.own, missed = 0.0, []
    for position, (n_new, _, _) in enumerate(missed):
        n_own = n_in_message if position == 0 else 0
        fading = horizon / (horizon + n_new)
        source.own = fading * source.own + n_own
        if n_own:
            source.cross = fading * source.cross + n_new * n_own
            source.square = fading * source.square + n_own**2
    if source.square:
        return max(1.0, source.cross / source.square)
    records, times_sources = recent_records(merges)
    return max(1.0, times_sources / records) if records else 1.0
