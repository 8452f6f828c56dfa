"""`Slots`: the table of a plan as arrays, in which a hash is looked up in two places at most.

A broadcast join would find the worker of a key as well. It makes a row of each record first, which
takes longer than to look into arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.planning.key_plan import PlannedKey
from skewless.planning.packing import Piece

#: A worker gets this many places of a split key, or up to twice as many, if shares are equal; of
#: a key with so many places that Spark would take long to print them, fewer.
_PLACES_PER_WORKER, _LEAST_PER_WORKER = 64, 16
_MANY_PLACES = 1 << 16
#: More slots per key are needed only if somebody chose the hashes.
_MOST_SLOTS_PER_KEY = 1024
_WORD = 1 << 32


class Slots(NamedTuple):
    """The hashes of a table by slot, and the workers of each (Pagh and Rodler's cuckoo hashing).

    A hash is in the slot of its low 32 bits or in that of its high 32 bits, modulo the number of
    slots, a power of 2. A record of the key goes to `workers[begins[slot] + (dealt & masks[slot])]`
    if `dealt` is drawn for it. A slot without a key has a hash that belongs elsewhere.
    """

    hashes: list[int]  # with a sign, as Spark has them
    begins: list[int]
    masks: list[int]
    workers: list[int]

    @classmethod
    def of(cls, table: Sequence[PlannedKey], added: int = 0, slowness: float = 1.0) -> Slots:
        """Return the slots of a table; the workers of split keys are numbered from `added` on.

        The fastest worker is so many times as fast as the slowest one.

        >>> slots = Slots.of([PlannedKey(5, 9.0, (Piece(3, 1.0),))])
        >>> slots.hashes[1], slots.workers[slots.begins[1]]
        (5, 3)
        """
        hashes = [key.hashed % (_WORD * _WORD) for key in table]
        n = 1 << (2 * len(table) - 1).bit_length()
        while (seats := _seats(hashes, n)) is None:
            n *= 2
            if n > _MOST_SLOTS_PER_KEY * len(table):
                raise ValueError(
                    "plan: somebody has chosen its keys: plan again with untrusted_keys=True"
                )
        found = cls([_signed((slot ^ 1) * (_WORD + 1)) for slot in range(n)], [0] * n, [0] * n, [])
        for slot, place in seats.items():
            key = table[place]
            dealt = [worker + added for worker in dealt_to(key.pieces, slowness)]
            dealt = dealt if key.is_split else [key.pieces[0].worker]
            found.hashes[slot], found.begins[slot] = key.hashed, len(found.workers)
            found.masks[slot] = len(dealt) - 1
            found.workers.extend(dealt)
        return found


def dealt_to(pieces: Sequence[Piece], slowness: float = 1.0) -> list[int]:
    """Return the workers of a split key in places of equal size: a power of 2 of them.

    >>> found = dealt_to([Piece(4, 0.75), Piece(7, 0.25)])
    >>> len(found), found.count(4), found.count(7)
    (128, 96, 32)
    """
    size = _PLACES_PER_WORKER << math.ceil(math.log2(len(pieces) * min(slowness, _MANY_PLACES)))
    size = min(size, max(_MANY_PLACES, _LEAST_PER_WORKER << (len(pieces) - 1).bit_length()))
    ends = np.rint(np.cumsum([piece.share for piece in pieces]) * size).astype(np.int64)
    ends[-1] = size
    workers = np.array([piece.worker for piece in pieces])
    return [int(worker) for worker in np.repeat(workers, np.diff(ends, prepend=0))]


def _seats(hashes: Sequence[int], n: int) -> dict[int, int] | None:
    """Return which hash has which of `n` slots, or None if they do not find room."""
    seats: dict[int, int] = {}
    for place in range(len(hashes)):
        slot, seated = hashes[place] % n, place
        for _ in range(n):
            evicted = seats.get(slot)
            seats[slot] = seated
            if evicted is None:
                break
            first, second = hashes[evicted] % n, (hashes[evicted] >> 32) % n
            slot, seated = first + second - slot, evicted
        else:
            return None
    return seats


def _signed(word: int) -> int:
    return word - _WORD * _WORD if word >> 63 else word
