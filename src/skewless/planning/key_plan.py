"""`KeyPlan`: where the keys of a batch go, decided before its first record moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from skewless.metrics import imbalance, replication
from skewless.planning.packing import KeyCounts, Packed
from skewless.planning.plan_files import Made, PlannedKey, read, save
from skewless.plumbing.text_tables import number, percent, printable, text_table

Plan = TypeVar("Plan", bound="KeyPlan")
#: The most keys, and the most workers of a key, that a printed plan has.
_SHOWN_KEYS = 20
_SHOWN_WORKERS = 6


@dataclass(frozen=True)
class KeyPlan:
    """Where the keys of a batch go.

    The table has the keys that do not stay whole in the bucket of their hash. All others go by a
    seeded hash: a key to its bucket, and the bucket to its worker.

    Parameters
    ----------
    n_workers, capacities
        The workers, and their relative speeds if they differ.
    table
        The keys that are listed, the heaviest first.
    homes
        The worker of each bucket.
    loads
        The load of each worker: records, or the sum of their weights.
    n_keys
        How many keys were counted; of a sample, those that were seen.
    made
        How the plan was made.
    """

    n_workers: int
    capacities: tuple[float, ...] | None
    table: tuple[PlannedKey, ...] = field(repr=False)
    homes: tuple[int, ...] = field(repr=False)
    loads: tuple[float, ...] = field(repr=False)
    n_keys: int
    made: Made

    @property
    def split(self) -> tuple[PlannedKey, ...]:
        """The keys that more than one worker gets."""
        return tuple(key for key in self.table if key.is_split)

    @property
    def imbalance(self) -> float:
        """(max − mean) / mean of the planned loads."""
        return imbalance(self.loads, self.capacities)

    @property
    def replication(self) -> float:
        """Replicas per key."""
        n_splits = sum(len(key.pieces) - 1 for key in self.split)
        return replication(self.n_keys + n_splits, self.n_keys)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON into a file for this user only: it holds the seed."""
        save(path, vars(self))

    @classmethod
    def load(cls: type[Plan], path: str | Path) -> Plan:
        """Read a plan that `save` wrote; raise ValueError if the file is something else."""
        return cls(**read(path))

    def __str__(self) -> str:
        """Return the plan as a table: what was counted, and the keys that are listed."""
        is_exact = self.made.counted == "exact"
        how, least = ("all records", "") if is_exact else ("a sample", "at least ")
        unit = "records" if self.made.weight is None else f"of {self.made.weight}"
        unit += f" and {number(self.made.per_key, 1)} a key" if self.made.per_key else ""
        lines = [
            f"{number(sum(self.loads))} {unit}, {least}{number(self.n_keys)} keys of "
            f"{', '.join(map(printable, self.made.key))}, counted in {how}",
            f"{self.n_workers} workers, imbalance {percent(self.imbalance)} "
            f"(tolerance {percent(self.made.tolerance)}), {number(len(self.table))} keys in the "
            f"table, {len(self.split)} of them split",
        ]
        if self.table:
            shown = sorted(self.table, key=lambda key: (not key.is_split, -key.load))
            rows = [self._row(key) for key in shown[:_SHOWN_KEYS]]
            lines += ["", text_table(["key", "load", "share", "workers"], rows)]
            if len(shown) > _SHOWN_KEYS:
                lines.append(f"… and {number(len(shown) - _SHOWN_KEYS)} more")
        return "\n".join(lines)

    def _row(self, key: PlannedKey) -> list[str]:
        total = sum(self.loads)
        pieces = [
            f"{worker}" if share == 1.0 else f"{worker} ({percent(share)})"
            for worker, share in key.pieces[:_SHOWN_WORKERS]
        ]
        more = len(key.pieces) - _SHOWN_WORKERS
        workers = f"{len(key.pieces)} workers" if more > 0 else ", ".join(pieces)
        return [str(key), number(key.load), percent(key.load / total if total else 0.0), workers]


def plan_of(
    counts: KeyCounts,
    packed: Packed,
    made: Made,
    capacities: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the fields of the plan that a packing is; `names` are those of the counted keys."""
    hashes = counts.hashes.view(np.int64)
    table = [
        PlannedKey(
            int(hashes[key]),
            float(counts.loads[key]),
            pieces,
            None if names is None else names[key],
        )
        for key, pieces in packed.placed
    ]
    table.sort(key=lambda key: (-key.load, key.hashed))
    return {
        "n_workers": packed.loads.size,
        "capacities": None if capacities is None else tuple(map(float, capacities)),
        "table": tuple(table),
        "homes": tuple(packed.homes.tolist()),
        "loads": tuple(packed.loads.tolist()),
        "n_keys": counts.n_keys,
        "made": made,
    }
