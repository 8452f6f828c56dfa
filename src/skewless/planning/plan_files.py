"""Plans as JSON files with a version; what is read is checked before it is used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skewless.planning.packing import Piece
from skewless.plumbing.arguments import LARGEST_SEED, MOST_WORKERS, path_text, shown
from skewless.plumbing.private_files import write_private


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
        """Return the name, or else the hash."""
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


_FORMAT, _VERSION = "skewless key plan", 1
#: A larger file is not one of ours: a plan has a bounded table.
_MOST_BYTES = 1 << 28
_MOST_LISTED = 1 << 26


def save(path: str | Path, fields: Mapping[str, Any]) -> None:
    """Write the fields of a plan."""
    table = [[key.hashed, key.load, key.name, key.pieces] for key in fields["table"]]
    plain = {**fields, "made": fields["made"]._asdict(), "table": table}
    write_fields(path, _FORMAT, plain)


def write_fields(path: str | Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Write plain fields with the kind of plan and the version, for this user only."""
    about = {"format": kind, "version": _VERSION, **fields}
    write_private(Path(path_text(path, "path")), json.dumps(about, allow_nan=False) + "\n")


def read_fields(path: str | Path, kind: str) -> tuple[Path, dict[str, Any]]:
    """Return the file, and the fields that `write_fields` wrote; their values are not checked."""
    place = Path(path_text(path, "path"))
    found = _json(place)
    if not isinstance(found, dict) or found.pop("format", None) != kind:
        raise ValueError(f"path: {place} is no {kind}: `save` writes one")
    version = found.pop("version", None)
    if version != _VERSION:
        raise ValueError(
            f"path: {place} has version {shown(version)}, and this skewless reads version "
            f"{_VERSION}: make the plan again"
        )
    return place, found


def read(path: str | Path) -> dict[str, Any]:
    """Return the fields of the plan in a file."""
    place, found = read_fields(path, _FORMAT)
    reader = _Reader(place)
    n = reader.whole("n_workers", found.get("n_workers"), 1, MOST_WORKERS)
    capacities = found.get("capacities")
    if capacities is not None:
        capacities = reader.numbers("capacities", capacities, n)
    keys = []
    for row in reader.list("table", found.get("table")):
        hashed, load, name, pieces = reader.list("table", row, 4)
        reader.require(name is None or isinstance(name, str), "table", row)
        reader.require(type(hashed) is int and -(1 << 63) <= hashed < 1 << 63, "table", row)
        parts = [reader.list("table", piece, 2) for piece in reader.list("table", pieces)]
        workers = [reader.whole("table", worker, 0, n - 1) for worker, _ in parts]
        shares = reader.numbers("table", [share for _, share in parts])
        reader.require(abs(sum(shares) - 1.0) < 1e-6, "table", row)
        reader.require(len(set(workers)) == len(workers), "table", row)
        placed = tuple(map(Piece, workers, shares))
        keys.append(PlannedKey(hashed, reader.numbers("table", [load])[0], placed, name))
    reader.require(len({key.hashed for key in keys}) == len(keys), "table", "a key twice")
    homes = reader.list("homes", found.get("homes"))
    reader.require(len(homes) >= 1, "homes", homes)
    return {
        "n_workers": n,
        "capacities": capacities,
        "table": tuple(keys),
        "homes": tuple(reader.whole("homes", home, 0, n - 1) for home in homes),
        "loads": reader.numbers("loads", found.get("loads"), n),
        "n_keys": reader.whole("n_keys", found.get("n_keys"), 0, 1 << 62),
        "made": reader.made(found.get("made")),
    }


def _json(place: Path) -> Any:
    if place.stat().st_size > _MOST_BYTES:
        raise ValueError(f"path: {place} is larger than any plan")
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"path: {place} is no plan: it is not JSON") from None


class _Reader:
    """Checks the values of one file; an error names the file and the field."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def require(self, is_right: bool, field: str, value: object) -> None:
        if not is_right:
            raise ValueError(f"path: {self.place} is damaged: {field} cannot be {shown(value)}")

    def whole(self, field: str, value: Any, least: int, most: int) -> int:
        self.require(type(value) is int and least <= value <= most, field, value)
        return int(value)

    def list(self, field: str, value: Any, size: int | None = None) -> list[Any]:
        is_list = isinstance(value, list) and len(value) <= _MOST_LISTED
        self.require(is_list and (size is None or len(value) == size), field, value)
        return list(value)

    def numbers(self, field: str, value: Any, size: int | None = None) -> tuple[float, ...]:
        for one in self.list(field, value, size):
            is_number = type(one) in (int, float) and math.isfinite(one) and one >= 0
            self.require(is_number, field, one)
        return tuple(map(float, value))

    def made(self, value: Any) -> Any:
        self.require(isinstance(value, dict) and set(value) == set(Made._fields), "made", value)
        texts = {}
        for field in ("key", "types"):
            texts[field] = tuple(self.list("made", value[field]))
            self.require(all(isinstance(one, str) for one in texts[field]), "made", value)
        self.whole("made", value["seed"], 0, LARGEST_SEED)
        self.numbers("made", [value["tolerance"], value["per_key"]])
        self.require(type(value["untrusted"]) is bool, "made", value)
        self.require(value["weight"] is None or isinstance(value["weight"], str), "made", value)
        self.require(value["counted"] in ("exact", "sample"), "made", value)
        return Made(**value | texts)
