"""The plan of a join: which keys are divided into how many cells, and on which workers they are."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skewless.metrics import imbalance
from skewless.planning.key_plan import numbers, read_fields, write_fields
from skewless.planning.pairs import KEPT, WITHOUT_PAIRS
from skewless.plumbing.arguments import LARGEST_SEED, MOST_WORKERS, shown, whole
from skewless.plumbing.text_tables import printable

_FORMAT = "skewless join plan"
#: Of the keys that a printed plan lists.
_SHOWN = 10
_LARGEST_HASH = 1 << 63
#: Estimated seconds by cells are at most this part of those by Spark's own join: they are rough.
_PAYS = 0.8


@dataclass(frozen=True)
class PlannedCells:
    """One key of the plan.

    A left row goes to all cells of one row of its grid, a right row to all cells of one column.
    """

    hash: int  # of the key, with the seed of the plan
    left: int  # how many of its rows were counted
    right: int
    rows: int  # of its grid
    columns: int
    workers: tuple[int, ...]  # of its cells, those of the first row first
    name: str | None = None  # the key as text, if it was looked up

    def __post_init__(self) -> None:
        for name, least in (("left", 0), ("right", 0), ("rows", 1), ("columns", 1)):
            whole(getattr(self, name), f"plan: {name}", least=least)
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
    """

    on: tuple[str, ...]  # the columns of the key
    how: str
    workers: int
    seed: int  # of the hashes
    untrusted_keys: bool  # whether keys are hashed as those that strangers choose
    # What was counted, without nulls; if a side was very large, of a part of its rows.
    left_rows: int
    right_rows: int
    pairs: int
    is_sampled: bool
    keys: tuple[PlannedCells, ...]  # that do not stay whole where their hash is, the heaviest first
    homes: tuple[int, ...]  # the worker of each bucket of hashes; other keys go there
    loads: tuple[float, ...]  # of each worker, pairs and rows; with `reason`, by the hash alone
    reason: str | None = None  # why keys are not divided, so that `join` is Spark's own; None: are
    # Estimated without counting: by Spark's own join, and by these cells.
    seconds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        whole(self.workers, "plan: workers", least=1, most=MOST_WORKERS)
        whole(self.seed, "plan: seed", most=LARGEST_SEED)
        if self.how not in KEPT:
            raise ValueError(f"plan: how must be one of {', '.join(KEPT)}, not {shown(self.how)}")
        if not all(isinstance(name, str) for name in self.on) or not self.on:
            raise ValueError(f"plan: on must be names of columns, not {shown(self.on)}")
        if len({key.hash for key in self.keys}) < len(self.keys):
            raise ValueError("plan: a key is listed twice")
        if self.how in WITHOUT_PAIRS and any(key.columns > 1 for key in self.keys):
            raise ValueError(f"plan: a grid of a {self.how} join has one column")
        for worker in itertools.chain(self.homes, *(key.workers for key in self.keys)):
            if type(worker) is not int or not 0 <= worker < self.workers:
                allowed = f"0 … {self.workers - 1}"
                raise ValueError(f"plan: a worker must be {allowed}, not {shown(worker)}")
        numbers("plan: a load", list(self.loads))
        if self.seconds is not None:
            numbers("plan: seconds", list(self.seconds), 2)
        if not self.homes:
            raise ValueError("plan: homes must name the workers of the buckets")

    @property
    def imbalance(self) -> float:
        """(max − mean) / mean of the loads."""
        return imbalance(self.loads) if sum(self.loads) else 0.0

    @property
    def too_slow(self) -> str | None:
        """A reason if Spark's own join is estimated to be as fast as these cells."""
        if self.seconds is None or self.seconds[1] <= _PAYS * self.seconds[0]:
            return None
        plain, cells = self.seconds
        return f"it takes about {plain:.2f} s, and cells {cells:.2f} s"

    @property
    def split_keys(self) -> tuple[PlannedCells, ...]:
        """The keys with more than one cell."""
        return tuple(key for key in self.keys if len(key.workers) > 1)

    def __str__(self) -> str:
        counted = f"{'sampled' if self.is_sampled else 'counted'}: {self.left_rows:,} × "
        counted += f"{self.right_rows:,} rows, {self.pairs:,} pairs"
        if not self.left_rows and not self.right_rows:  # Spark's own join, or without any row
            counted = "keys were not counted"
        told = f"{self.how} join on {', '.join(self.on)}, {self.workers} workers; {counted}\n"
        if self.reason is not None:
            return f"{told}Spark's own join: {self.reason}"
        split = self.split_keys
        told += (
            f"divided keys: {len(split):,}, with {sum(len(k.workers) for k in split):,} cells; "
            f"whole keys that move: {len(self.keys) - len(split):,}; "
            f"imbalance {self.imbalance:.2f}"
        )
        for key in split[:_SHOWN]:
            name = f"hash {key.hash}" if key.name is None else printable(key.name)
            told += f"\n  {name}: {key.left:,} × {key.right:,} rows, "
            told += f"{key.rows} × {key.columns} cells"
        told += f"\n  … and {len(split) - _SHOWN:,} more" if len(split) > _SHOWN else ""
        if self.too_slow is None:
            return told
        return f"{told}\nwithout plan=, `join` is Spark's own: {self.too_slow}"

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON into a file for this user only: it holds the seed."""
        write_fields(path, _FORMAT, asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> JoinPlan:
        """Return the plan of a file; raise ValueError if it is not one."""
        place, found = read_fields(path, _FORMAT)
        try:
            keys = [PlannedCells(**{**k, "workers": tuple(k["workers"])}) for k in found["keys"]]
            lists: Any = {name: tuple(found[name]) for name in ("on", "homes", "loads")}
            seconds = found.get("seconds")
            lists["seconds"] = None if seconds is None else tuple(seconds)
            return cls(**{**found, **lists, "keys": tuple(keys)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"path: {place} is not a plan of a join: {error}") from error
