"""Where keys live: a strategy's state as arrays in which the JVM can look up workers.

The JVM computes one number for each key, its hash with the seed of the query. That number is a
place on the strategy's ring. The strategy mixes the keys that it gets, so it is given the key that
it mixes to exactly this place. Then both agree on the owner of every key, and the JVM needs no
mixing: the upper bits of the hash name a cell of the ring, and nearly every cell has one owner. For
cells with a border inside, or with a key of the routing table, the details are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from skewless.arrays import Floats, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seeded_all, unseeded
from skewless.kernels.key_table import ABSENT
from skewless.spark.arrow_types import from_arrow_schema
from skewless.state import copy_state
from skewless.strategies import Hash
from skewless.strategy import AnyStrategy, Report, Rescales

CELL_BITS = 16
_LOW_BITS = 64 - CELL_BITS
_LOW = (1 << _LOW_BITS) - 1

_INTS, _LONGS = pa.list_(pa.int32()), pa.list_(pa.int64())
_DETAIL = pa.struct({"borders": _LONGS, "owners": _INTS, "keys": _LONGS, "workers": _INTS})
_SPREAD = pa.map_(pa.int64(), pa.int32())
_ROW = pa.schema(
    {"seed": pa.int64(), "homes": _INTS, "details": pa.list_(_DETAIL), "spread": _SPREAD}
)
#: How the JVM gets a plan: one row of these columns.
PLACES = from_arrow_schema(_ROW)


def can_place(strategy: AnyStrategy) -> bool:
    """Return whether a strategy gives each key one worker, by a ring that can be rescaled."""
    is_moving = strategy.traits.family == "moving" and strategy.traits.fan_out == 1
    return is_moving and isinstance(strategy, Rescales) and hasattr(strategy.start(1, 0), "ring")


def as_moving(strategy: AnyStrategy) -> AnyStrategy:
    """Return a strategy that gives each key one worker by a ring; raise ValueError for another."""
    if isinstance(strategy, Hash) and not strategy.ring:
        strategy = replace(strategy, ring=True)  # else most keys would move with every rescale
    if not can_place(strategy):
        raise ValueError(
            f"strategy: {strategy.name!r} cannot place keyed state, which lives on one worker "
            "at a time: use 'mixed', 'min-table', 'min-mig', 'readj' or 'hash'"
        )
    return strategy


@dataclass(frozen=True, eq=False)
class Placing:
    """A strategy and its state for this many workers, by hashes as the JVM computes them."""

    strategy: AnyStrategy
    state: Any
    n_workers: int

    @classmethod
    def unlearned(cls, strategy: AnyStrategy, n_workers: int, seed: int) -> Placing:
        """Return the placing of a strategy that has seen no record."""
        return cls(strategy, strategy.start(n_workers, seed), n_workers)

    def keys_of(self, hashes: Keys) -> Keys:
        """Return the keys that the strategy mixes to these hashes."""
        return unseeded(hashes, self._seed)

    def hashes_of(self, keys: Keys) -> Keys:
        """Return the hashes that the strategy mixes these keys to."""
        hashes = np.empty(keys.size, np.uint64)
        seeded_all(read_only(keys), self._seed, hashes)
        return hashes

    @property
    def _seed(self) -> Words:
        # Some states have several seeds, and the first is that of keys.
        seeds: Words = self.state.seed if hasattr(self.state, "seed") else self.state.seeds
        return seeds

    def owners(self, hashes: Keys) -> Workers:
        """Return the worker of each hash."""
        out = np.full(hashes.size, -1, np.int32)
        self.strategy.route(self.keys_of(hashes), self.state, out)
        return out

    def entries(self) -> tuple[Keys, Workers]:
        """Return the hashes in the routing table, ascending, and their workers."""
        table = getattr(self.state, "table", None)
        if table is None:
            return np.empty(0, np.uint64), np.empty(0, np.int32)
        used = np.flatnonzero(table.values != ABSENT)
        hashes = self.hashes_of(table.keys[used])
        order = np.argsort(hashes)
        return hashes[order], table.values[used][order]

    def changed(self, after: Placing) -> tuple[Keys, Workers, Workers]:
        """Return the hashes of tables whose worker differs `after`, with both their workers.

        With the same workers, these are all hashes whose worker differs.
        """
        known = np.union1d(self.entries()[0], after.entries()[0])
        origins, targets = self.owners(known), after.owners(known)
        moving = origins != targets
        return known[moving], origins[moving], targets[moving]

    def rescaled(self, n_workers: int) -> Placing:
        """Return the placing rescaled to this number of workers."""
        state = self.strategy.rescale(copy_state(self.state), n_workers, None)  # type: ignore[attr-defined]
        return Placing(self.strategy, state, n_workers)

    def rebalanced(
        self, hashes: Keys, loads: Floats, sizes: Floats, rest: Floats, noise: float = 0.0
    ) -> Placing:
        """Let the strategy place keys anew by these loads.

        The report lists only keys with load. The strategy forgets a key of the table that has had
        no load for long. The key then lives at its place on the ring again, and its state, if there
        is one, moves there.
        """
        keys = self.keys_of(hashes)
        order = np.argsort(keys)
        others = rest if rest.any() else None
        report = Report(keys[order], loads[order], sizes[order], others, noise)
        state, _ = self.strategy.rebalance(report, copy_state(self.state))  # type: ignore[attr-defined]
        return replace(self, state=state)

    def row(self, seed: int, spread: Sequence[tuple[int, int]] = ()) -> pa.RecordBatch:
        """Return the one row in which the JVM looks up workers.

        `spread` are the signed hashes of keys that go to several parts, with the number of parts.
        """
        homes, details = self._cells()
        values = ([seed], [homes], [details], [list(spread)])
        arrays = [pa.array(one, kind) for one, kind in zip(values, _ROW.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_ROW)

    def _cells(self) -> tuple[Workers, list[dict[str, list[int]]]]:
        """Return for each cell its owner, or where its details are.

        `homes[cell]` < 0 points to `details[-1 - home]`: −1 to details 0, −2 to details 1.
        """
        ring = self.state.ring
        points, workers = ring.positions[:-1], ring.workers
        first = np.arange(1 << CELL_BITS, dtype=np.uint64) << np.uint64(_LOW_BITS)
        begin = np.searchsorted(points, first, "left")
        end = np.searchsorted(points, first | np.uint64(_LOW), "left")
        homes: Workers = workers[begin].astype(np.int32)
        listed, targets = self.entries()
        cells = (listed >> np.uint64(_LOW_BITS)).astype(np.int64)
        details: list[dict[str, list[int]]] = []
        for cell in np.union1d(np.flatnonzero(begin != end), cells).tolist():
            first_point, end_point = int(begin[cell]), int(end[cell])
            first_key, end_key = np.searchsorted(cells, [cell, cell + 1]).tolist()
            borders = points[first_point:end_point] & np.uint64(_LOW)
            details.append(
                {
                    "borders": borders.astype(np.int64).tolist(),
                    "owners": workers[first_point : end_point + 1].tolist(),
                    "keys": listed[first_key:end_key].view(np.int64).tolist(),
                    "workers": targets[first_key:end_key].tolist(),
                }
            )
            homes[cell] = -len(details)  # −1 − the number of the details just added
        return homes, details


def worker_column(hashed: Column, plan: str) -> Column:
    """Return the worker of a hash, by the columns of a plan whose names begin with `plan`."""
    cell = F.shiftrightunsigned(hashed, _LOW_BITS).cast("int")
    home = F.get(F.col(f"{plan}homes"), cell)
    detail = F.get(F.col(f"{plan}details"), -1 - home)
    listed = F.array_position(detail["keys"], hashed)
    low = hashed.bitwiseAND(F.lit(_LOW))
    before = F.size(F.filter(detail["borders"], lambda border: border < low))
    return (
        F.when(home >= 0, home)
        .when(listed > 0, F.get(detail["workers"], (listed - 1).cast("int")))
        .otherwise(F.get(detail["owners"], before))
    )
