"""`KeyPlan`: where the keys of a batch go, decided before its first record moves.

Plans are kept as JSON files with a version; what is read is checked before it is used.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from skewless.metrics import imbalance, replication
from skewless.planning.packing import KeyCounts, Packed, Piece
from skewless.plumbing.arguments import LARGEST_SEED, MOST_WORKERS, path_text, shown, whole
from skewless.plumbing.private_files import write_private
from skewless.plumbing.text_tables import number, percent, printable, text_table

Plan = TypeVar("Plan", bound="KeyPlan")
#: The most keys, and the most workers of a key, that a printed plan has.
_SHOWN_KEYS = 20
_SHOWN_WORKERS = 6
_FORMAT, _VERSION = "skewless key plan", 1
#: A larger file is not one of ours: a plan has a bounded table.
_MOST_BYTES = 1 << 28


class PlannedKey(NamedTuple):
    """A key of the table: its hash with a sign, its load, and the parts of its records.

    `name` is the key as text; None if the keys were counted by their hashes alone.
    """

    hashed: int
    load: float
    pieces: tuple[Piece, ...]
    name: str | None = None

    @property
    def is_split(self) -> bool:
        """Whether more than one worker gets records of the key."""
        return len(self.pieces) > 1

    def __str__(self) -> str:
        return f"hash {self.hashed}" if self.name is None else self.name


class Made(NamedTuple):
    """How a plan was made: what it was asked for, and what was counted."""

    key: tuple[str, ...]  # the names of the key's columns
    types: tuple[str, ...]  # as Spark writes them
    seed: int
    tolerance: float
    untrusted: bool = False
    weight: str | None = None
    per_key: float = 0.0  # load of each key besides that of its records
    counted: str = "exact"  # or "sample"


def write_fields(path: str | Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Write plain fields with the kind of plan and the version, for this user only."""
    about = {"format": kind, "version": _VERSION, **fields}
    write_private(Path(path_text(path, "path")), json.dumps(about, allow_nan=False) + "\n")


def read_fields(path: str | Path, kind: str) -> tuple[Path, dict[str, Any]]:
    """Return the file, and the fields that `write_fields` wrote; their values are not checked."""
    place = Path(path_text(path, "path"))
    if place.stat().st_size > _MOST_BYTES:
        raise ValueError(f"path: {place} is larger than any plan")
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"path: {place} is no plan: it is not JSON") from None
    if not isinstance(found, dict) or found.pop("format", None) != kind:
        raise ValueError(f"path: {place} is no {kind}: `save` writes one")
    version = found.pop("version", None)
    if type(version) is not int or version != _VERSION:
        raise ValueError(
            f"path: {place} has version {shown(version)}, and this skewless reads version "
            f"{_VERSION}: make the plan again"
        )
    return place, found


def _require(is_right: bool, field: str, value: object) -> None:
    if not is_right:
        raise ValueError(f"{field} cannot be {shown(value)}")


def _list(field: str, value: Any, size: int | None = None) -> list[Any]:
    is_list = isinstance(value, list)
    _require(is_list and (size is None or len(value) == size), field, value)
    return list(value)


def numbers(field: str, value: Any, size: int | None = None) -> tuple[float, ...]:
    """Return the finite numbers of a list, none below 0; raise ValueError if it is no such list."""
    for one in _list(field, value, size):
        is_number = type(one) in (int, float) and math.isfinite(one) and one >= 0
        _require(is_number, field, one)
    return tuple(map(float, value))


def _planned_key(row: Any, n_workers: int) -> PlannedKey:
    hashed, load, name, pieces = _list("table", row, 4)
    _require(name is None or isinstance(name, str), "table", row)
    _require(type(hashed) is int and -(1 << 63) <= hashed < 1 << 63, "table", row)
    parts = [_list("table", piece, 2) for piece in _list("table", pieces)]
    workers = [whole(worker, "table", most=n_workers - 1) for worker, _ in parts]
    shares = numbers("table", [share for _, share in parts])
    is_whole = abs(sum(shares) - 1.0) < 1e-6 and len(set(workers)) == len(workers)
    _require(is_whole, "table", row)
    (load,) = numbers("table", [load])
    return PlannedKey(hashed, load, tuple(map(Piece, workers, shares)), name)


def _made(value: Any) -> Made:
    _require(isinstance(value, dict) and set(value) == set(Made._fields), "made", value)
    texts = {name: tuple(_list("made", value[name])) for name in ("key", "types")}
    seed = whole(value["seed"], "made", most=LARGEST_SEED)
    numbers("made", [value["tolerance"], value["per_key"]])
    weight = "" if value["weight"] is None else value["weight"]
    are_texts = all(isinstance(one, str) for one in (*texts["key"], *texts["types"], weight))
    is_right = are_texts and type(value["untrusted"]) is bool
    is_right = is_right and len(texts["key"]) == len(texts["types"]) > 0
    _require(is_right and value["counted"] in ("exact", "sample"), "made", value)
    return Made(**value | texts | {"seed": seed})


@dataclass(frozen=True)
class KeyPlan:
    """Where the keys of a batch go.

    The table has the keys that do not stay whole in the bucket of their hash. All others go by a
    seeded hash: a key to its bucket, and the bucket to its worker.
    """

    n_workers: int
    capacities: tuple[float, ...] | None  # relative speeds of the workers, if they differ
    table: tuple[PlannedKey, ...] = field(repr=False)  # listed keys, the heaviest first
    homes: tuple[int, ...] = field(repr=False)  # the worker of each bucket
    loads: tuple[float, ...] = field(repr=False)  # of each worker: records, or their weights
    n_keys: int  # that were counted; of a sample, those that were seen
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
        table = [[key.hashed, key.load, key.name, key.pieces] for key in self.table]
        write_fields(path, _FORMAT, {**vars(self), "made": self.made._asdict(), "table": table})

    @classmethod
    def load(cls: type[Plan], path: str | Path) -> Plan:
        """Read a plan that `save` wrote; raise ValueError if the file is something else."""
        place, found = read_fields(path, _FORMAT)
        fields = dict.fromkeys(field.name for field in dataclasses.fields(KeyPlan)) | found
        try:
            n = whole(fields["n_workers"], "n_workers", least=1, most=MOST_WORKERS)
            speeds = fields["capacities"]
            speeds = None if speeds is None else numbers("capacities", speeds, n)
            table = tuple(_planned_key(row, n) for row in _list("table", fields["table"]))
            hashes = {key.hashed for key in table}
            _require(len(hashes) == len(table), "table", "a key twice")
            listed = _list("homes", fields["homes"])
            homes = tuple(whole(one, "homes", most=n - 1) for one in listed)
            _require(bool(homes), "homes", [])
            loads = numbers("loads", fields["loads"], n)
            n_keys = whole(fields["n_keys"], "n_keys")
            _require(math.isfinite(sum(loads)), "loads", fields["loads"])
            is_able = speeds is None or 0 < sum(speeds) < math.inf
            _require(is_able, "capacities", fields["capacities"])
            return cls(n, speeds, table, homes, loads, n_keys, _made(fields["made"]))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"path: {place} is damaged: {error}") from None

    def __str__(self) -> str:
        is_exact = self.made.counted == "exact"
        how, least = ("all records", "") if is_exact else ("a sample", "at least ")
        unit = "records" if self.made.weight is None else f"of {printable(self.made.weight)}"
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
    hashes, loads = counts.hashes.view(np.int64).tolist(), counts.loads.tolist()
    table = [
        PlannedKey(hashes[key], loads[key], pieces, None if names is None else names[key])
        for key, pieces in packed.placed
    ]
    return {
        "n_workers": packed.loads.size,
        "capacities": None if capacities is None else tuple(map(float, capacities)),
        "table": tuple(sorted(table, key=lambda key: (-key.load, key.hashed))),
        "homes": tuple(packed.homes.tolist()),
        "loads": tuple(packed.loads.tolist()),
        "n_keys": counts.n_keys,
        "made": made,
    }
