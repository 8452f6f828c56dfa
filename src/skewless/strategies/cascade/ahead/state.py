"""What a source of Cascade with foresight remembers, and the buffers for one block of records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.sound import MOST_COUNTED, MOST_WEIGHT, require_same, require_within

# Positions in `numbers`.
WEIGHT = 0  # of the records since the interval began
SCALE = 1  # weight of an average record of the last block that weighed anything
NUMBERS = 2

# Positions in `counters`.
RECORDS = 0  # since the interval began
EXPECTED = 1  # records of this source in the whole interval; 0: not known
COUNTERS = 2

#: The most records that are decided together. Spark hands over 10,000 at a time.
BLOCK = 1 << 14
#: Entries of the table that finds the keys of a block: at most half of them are used.
TABLE = 2 * BLOCK
NO_KEY = -1  # in `table`
NO_PIECE = -1  # in `after`
NO_WORKER = -1  # in `workers`


class Buffers(NamedTuple):
    """The keys of one block and their pieces. Between two blocks only `table` means anything.

    The keys of a block are numbered in the order in which they first occur. A piece is a part of
    the records of one key that goes to one worker. The first piece of a key has the key's number.
    Each further piece uses up what a key has left or what a worker gets.
    """

    table: SmallInts  # hash -> number of the key in the block; NO_KEY between two blocks
    slots: SmallInts  # number of a key -> where it is in the table
    which: SmallInts  # record -> number of its key
    keys: Keys
    hashes: Words
    weights: Floats  # what the records of each key weigh, less what has got a worker
    homes: Workers  # the first worker in the order of each key
    listed: SmallInts  # keys that do not simply stay at home
    ranks: SmallInts  # the light keys among them have small ones
    spare: SmallInts  # for sorting
    tally: Ints  # for sorting
    heads: SmallInts  # key -> the piece that its next record belongs to
    tails: SmallInts  # key -> its last piece
    after: SmallInts  # piece -> the next one of the same key
    workers: Workers  # of each piece
    sizes: Floats  # of each piece: what its records may still weigh
    rooms: Floats  # of each worker: what it may still take of light keys
    shares: Floats  # of each worker: what it is still to get in this block

    def check(self, fresh: Buffers) -> None:
        """Refuse a table that is not empty; all else is written before it is read."""
        require_same("table", self.table, fresh.table)


class AheadState(NamedTuple):
    """What this source has sent in the present interval, and how long that will be."""

    seed: Words
    owners: Workers  # slot -> worker
    strides: Ints
    costs: Floats  # what a record of weight 1 adds to the level of each worker
    levels: Floats  # what each worker got in this interval, per capacity
    tolerance: Floats
    numbers: Floats
    counters: Ints
    buffers: Buffers

    def check(self, fresh: AheadState) -> None:
        """Refuse workers that are not there, and numbers that no records lead to."""
        for name in ("seed", "owners", "strides", "costs", "tolerance"):
            require_same(name, getattr(self, name), getattr(fresh, name))
        check_numbers(self)


class CondensedAhead(NamedTuple):
    """What is in `AheadState`, without what follows from the start and without the buffers."""

    owners: Workers
    costs: Floats
    levels: Floats
    numbers: Floats
    counters: Ints

    def check(self, fresh: CondensedAhead) -> None:
        """Refuse workers that are not there, and numbers that no records lead to."""
        require_same("owners", self.owners, fresh.owners)
        require_same("costs", self.costs, fresh.costs)
        check_numbers(self)


def check_numbers(state: AheadState | CondensedAhead) -> None:
    """Refuse levels and counters that no records lead to."""
    require_within("levels", state.levels, -MOST_WEIGHT, MOST_WEIGHT)
    require_within("numbers", state.numbers, 0, MOST_WEIGHT)
    require_within("numbers", state.numbers[[SCALE]], 1 / MOST_WEIGHT, MOST_WEIGHT)
    require_within("counters", state.counters, 0, MOST_COUNTED)


def buffers(n_workers: int) -> Buffers:
    """Return empty buffers."""
    n_pieces = 2 * BLOCK + n_workers
    return Buffers(
        table=np.full(TABLE, NO_KEY, np.int32),
        slots=np.zeros(BLOCK, np.int32),
        which=np.zeros(BLOCK, np.int32),
        keys=np.zeros(BLOCK, np.uint64),
        hashes=np.zeros(BLOCK, np.uint64),
        weights=np.zeros(BLOCK),
        homes=np.zeros(BLOCK, np.int32),
        listed=np.zeros(BLOCK, np.int32),
        ranks=np.zeros(BLOCK, np.int32),
        spare=np.zeros(BLOCK, np.int32),
        tally=np.zeros(257, np.int64),
        heads=np.zeros(BLOCK, np.int32),
        tails=np.zeros(BLOCK, np.int32),
        after=np.zeros(n_pieces, np.int32),
        workers=np.zeros(n_pieces, np.int32),
        sizes=np.zeros(n_pieces),
        rooms=np.zeros(n_workers),
        shares=np.zeros(n_workers),
    )
