"""The plan of a join: which keys are divided into how many cells, and on which workers they are."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from skewless.metrics import imbalance
from skewless.planning.key_plan import read_fields, write_fields
from skewless.planning.pairs import KEPT, WITHOUT_PAIRS
from skewless.plumbing.arguments import LARGEST_SEED, MOST_WORKERS, shown, whole

_FORMAT = "skewless join plan"
#: Of the keys that a printed plan lists.
_SHOWN = 10
_LARGEST_HASH = 1 << 63


@dataclass(frozen=True)
class PlannedCells:
    """One key of the plan.

    Parameters
    ----------
    hash
        The hash of the key, with the seed of the plan.
    left, right
        How many rows of it were counted.
    rows, columns
        Its grid: a left row goes to all cells of one row, a right row to all cells of one column.
    workers
        The worker of each cell, those of the first row first.
    name
        The key as text, if it was looked up.
    """

    hash: int
    left: int
    right: int
    rows: int
    columns: int
    workers: tuple[int, ...]
    name: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be a grid."""
        for argument in ("left", "right"):
            whole(getattr(self, argument), f"plan: {argument}")
        for argument in ("rows", "columns"):
            whole(getattr(self, argument), f"plan: {argument}", least=1)
        if not -_LARGEST_HASH <= int(self.hash) < _LARGEST_HASH:
            raise ValueError(f"plan: hash must fit into 64 bits, not {shown(self.hash)}")
        if len(self.workers) != self.rows * self.columns:
            raise ValueError(
                f"plan: a grid of {self.rows} × {self.columns} cells has not "
                f"{len(self.workers)} workers"
            )


@dataclass(frozen=True)
class JoinPlan:
    """Where the rows of a join go; it is made by `plan_join`, and `join` takes it as `plan`.

    Rows may have changed since they were counted. The join is then less even, and its result is
    still complete.

    Parameters
    ----------
    on, how
        The columns of the key, and the kind of join.
    workers
        The number of partitions.
    seed
        The seed of the hashes.
    untrusted_keys
        Whether keys are hashed as those that strangers choose.
    left_rows, right_rows, pairs
        What was counted; nulls are left out.
    is_sampled
        Whether a side was so large that only a part of its rows was counted.
    keys
        The keys that do not stay whole on the worker of their hash, the heaviest first.
    homes
        The worker of each bucket of hashes; other keys go there.
    loads
        The load of each worker, pairs and rows. With `reason`, by the hash of the keys alone.
    reason
        Why the keys are not divided: `join` is Spark's own join then. None: they are.
    """

    on: tuple[str, ...]
    how: str
    workers: int
    seed: int
    untrusted_keys: bool
    left_rows: int
    right_rows: int
    pairs: int
    is_sampled: bool
    keys: tuple[PlannedCells, ...]
    homes: tuple[int, ...]
    loads: tuple[float, ...]
    reason: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be a plan."""
        whole(self.workers, "plan: workers", least=1, most=MOST_WORKERS)
        whole(self.seed, "plan: seed", most=LARGEST_SEED)
        if self.how not in KEPT:
            raise ValueError(f"plan: how must be one of {', '.join(KEPT)}, not {shown(self.how)}")
        if not all(isinstance(name, str) for name in self.on) or not self.on:
            raise ValueError(f"plan: on must be names of columns, not {shown(self.on)}")
        hashes = [key.hash for key in self.keys]
        if len(set(hashes)) < len(hashes):
            raise ValueError("plan: a key is listed twice")
        for key in self.keys:
            if key.columns > 1 and self.how in WITHOUT_PAIRS:
                raise ValueError(f"plan: a grid of a {self.how} join has one column")
        for worker in (*self.homes, *(worker for key in self.keys for worker in key.workers)):
            if type(worker) is not int or not 0 <= worker < self.workers:
                allowed = f"0 … {self.workers - 1}"
                raise ValueError(f"plan: a worker must be {allowed}, not {shown(worker)}")
        for load in self.loads:
            if type(load) not in (int, float) or not math.isfinite(load) or load < 0:
                raise ValueError(f"plan: a load must be a number of at least 0, not {shown(load)}")
        if not self.homes:
            raise ValueError("plan: homes must name the workers of the buckets")

    @property
    def imbalance(self) -> float:
        """(max − mean) / mean of the loads."""
        return imbalance(self.loads) if sum(self.loads) else 0.0

    @property
    def split_keys(self) -> tuple[PlannedCells, ...]:
        """The keys with more than one cell."""
        return tuple(key for key in self.keys if len(key.workers) > 1)

    def __str__(self) -> str:
        """Return the plan as text for people."""
        counted = "sampled" if self.is_sampled else "counted"
        lines = [
            f"{self.how} join on {', '.join(self.on)}, {self.workers} workers; {counted}: "
            f"{self.left_rows:,} × {self.right_rows:,} rows, {self.pairs:,} pairs",
        ]
        if self.reason is not None:
            return "\n".join([*lines, f"Spark's own join: {self.reason}"])
        split = self.split_keys
        lines += [
            f"divided keys: {len(split):,}, with {sum(len(k.workers) for k in split):,} cells; "
            f"whole keys that move: {len(self.keys) - len(split):,}; "
            f"imbalance {self.imbalance:.2f}",
        ]
        for key in split[:_SHOWN]:
            name = f"hash {key.hash}" if key.name is None else key.name
            lines.append(
                f"  {name}: {key.left:,} × {key.right:,} rows, {key.rows} × {key.columns} cells"
            )
        if len(split) > _SHOWN:
            lines.append(f"  … and {len(split) - _SHOWN:,} more")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON into a file for this user only: it holds the seed."""
        write_fields(path, _FORMAT, asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> JoinPlan:
        """Return the plan of a file; raise ValueError if it is not one."""
        place, found = read_fields(path, _FORMAT)
        try:
            keys = [PlannedCells(**{**k, "workers": tuple(k["workers"])}) for k in found["keys"]]
            lists = {name: tuple(found[name]) for name in ("on", "homes", "loads")}
            return cls(**{**found, **lists, "keys": tuple(keys)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"path: {place} is not a plan of a join: {error}") from error
