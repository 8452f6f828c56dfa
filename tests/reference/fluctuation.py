"""One change of Mixed's fluctuation, with lists and sums computed afresh at every step."""

from __future__ import annotations

from collections.abc import Callable


def shift_load(
    frequencies: list[float],
    keys_by_rank: list[int],
    owners: list[int],
    giver: int,
    taker: int,
    rate: float,
    choose: Callable[[int, int], int],
) -> list[int]:
    """Return the key of each rank after the change.

    `choose(rank, n)` draws the number of the taker's key that is offered the frequency of `rank`.
    """
    keys_by_rank = list(keys_by_rank)
    candidates = [key for key in range(len(owners)) if owners[key] == taker]

    def load() -> float:
        at = enumerate(keys_by_rank)
        return sum(frequencies[rank] for rank, key in at if owners[key] == giver)

    before = load()
    for rank in range(len(frequencies)):
        after = load()
        if not candidates or (after > 0 and (before - after) / after >= rate) or before == 0:
            break
        if owners[keys_by_rank[rank]] != giver:
            continue
        light = candidates[choose(rank, len(candidates))]
        other = keys_by_rank.index(light)
        if other > rank:
            keys_by_rank[rank], keys_by_rank[other] = light, keys_by_rank[rank]
    return keys_by_rank
