"""Raw records: what a cell measured, one file each, with a path made from the parameters.

A record is used again if it is of the same cell, with the same parameters, and of the same sources:
the module of the cell's class and all modules that it imports, by their text. The version of the
package is not enough, because results also change between two releases. The text of everything
would be too much: a new sentence on the command line would throw away hours of measurements.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import numbers
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.records import Row
from experiments.reproduction.figure import Cell, Measurement
from skewless.plumbing.arguments import shown
from skewless.plumbing.compiling import sources_digest
from skewless.plumbing.private_files import PRIVATE, replace_file

_LONGEST_NAME = 80  # of the readable part


class Identity(NamedTuple):
    """Which cell it is: two cells with equal identities are one."""

    kind: str  # module:Class
    parameters: str  # canonical JSON of all fields

    @property
    def path(self) -> Path:
        """The path of its record: its texts and numbers, to be told at a glance, and a digest."""
        digest = hashlib.sha256("\n".join(self).encode()).hexdigest()[:16]
        values = [v for v in json.loads(self.parameters).values() if isinstance(v, (str, int))]
        text = re.sub(r"[^A-Za-z0-9.=_-]+", "_", "-".join(map(str, values))).strip("._-")
        return Path(self.kind.rpartition(":")[2]) / f"{text[:_LONGEST_NAME]}-{digest}.json"


def identity(cell: Cell) -> Identity:
    """Return which cell it is; refuse a cell whose fields are not all plain values."""
    cls = type(cell)
    if isinstance(cell, Measurement):
        name = cell.function.rpartition(":")[2]
        return Identity(cell.function, _canonical(plain(cell.arguments, name)))
    if not dataclasses.is_dataclass(cell):
        raise ValueError(f"a cell must be a dataclass, not {shown(cell)}")
    values = {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}
    return Identity(f"{cls.__module__}:{cls.__qualname__}", _canonical(plain(values, cls.__name__)))


def sources(known: Identity) -> str:
    """Return a digest of the source text that decides what the cell measures."""
    module = known.kind.partition(":")[0]
    return sources_digest(module, Path(str(sys.modules[module].__file__)))


def read(folder: Path, wanted: Identity, made_from: str) -> Row | None:
    """Return the stored row of a cell; None if there is none that is whole, equal and current."""
    try:
        record = json.loads((folder / wanted.path).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # no JSON, or no text at all
        return None
    if not isinstance(record, dict) or not isinstance(record.get("row"), dict):
        return None
    stored = Identity(record.get("cell", ""), _canonical(record.get("parameters")))
    return record["row"] if stored == wanted and record.get("sources") == made_from else None


def write(folder: Path, measured: Identity, made_from: str, row: Row) -> Row:
    """Store the row of a cell, whole or not at all; return it as `read` will."""
    parameters, row = json.loads(measured.parameters), plain(row, "row")
    record = {"cell": measured.kind, "parameters": parameters, "sources": made_from, "row": row}
    path = folder / measured.path
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(record, indent=1) + "\n", PRIVATE)
    return row


def plain(value: Any, where: str) -> Any:
    """Return a value made of what JSON has; `where` names it if it cannot be.

    >>> plain({"a": (1, 2.5), "b": None}, "row")
    {'a': [1, 2.5], 'b': None}
    >>> plain({"a": {3: "x"}}, "row")
    Traceback (most recent call last):
        ...
    ValueError: row.a must have texts as names, not 3
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ValueError(f"{where} must have texts as names, not {shown(name)}")
        return {name: plain(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [plain(part, where) for part in value]
    raise ValueError(f"{where} must be a plain value, not {shown(value)}")


def _canonical(values: Any) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))
