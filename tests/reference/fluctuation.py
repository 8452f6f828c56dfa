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
    candidates = [key for key in range(len(owners)) if owners[key] == taker]
    if not candidates:
        return keys_by_rank

    def load(keys: list[int]) -> float:
        return sum(frequencies[rank] for rank, key in enumerate(keys) if owners[key] == giver)

    def change(keys: list[int]) -> float:
        """Return by how much the load of the giver has changed, as the paper measures it."""
        before, after = load(keys_by_rank), load(keys)
        if before == 0:
            return float("inf")  # nothing can be given
        return (before - after) / after if after > 0 else float("inf")

    def swapped(keys: list[int], one: int, other: int) -> list[int]:
        return [{one: other, other: one}.get(key, key) for key in keys]

    def walk(beyond: bool) -> list[int]:
        keys = list(keys_by_rank)
        for rank in range(len(frequencies)):
            if change(keys) >= rate:
                break
            heavy = keys[rank]
            if owners[heavy] != giver:
                continue
            drawn = candidates[choose(rank, len(candidates))]
            if keys.index(drawn) < rank:
                continue
            lighter = [key for key in reversed(keys[rank + 1 :]) if owners[key] == taker]
            within = (
                light
                for light in [drawn, *lighter]
                if change(swapped(keys, heavy, light)) <= 1.05 * rate
            )
            light = next(within, lighter[-1] if beyond else None)
            if light is not None:
                keys = swapped(keys, heavy, light)
        return keys

    found = walk(beyond=False)
    return found if change(found) >= rate else walk(beyond=True)
