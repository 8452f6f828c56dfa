"""Measures the cells of figures, each once; a run can be resumed, and several can share a folder.

Raw records are what a cell measured, one file each, with a path made from the parameters.
A record is used again if it is of the same cell, with the same parameters, and of the same sources:
the module of the cell's class and all modules that it imports, by their text. The version of the
package is not enough, because results also change between two releases. The text of everything
would be too much: a new sentence on the command line would throw away hours of measurements.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.records import Row
from experiments.reproduction.figure import Cell, Figure, Measurement, Placed, Size
from skewless.plumbing.arguments import shown
from skewless.plumbing.compiling import sources_digest
from skewless.plumbing.private_files import write_private

#: Called with the number of cells that are done, and the number of all.
Progress = Callable[[int, int], None]

_LONGEST_NAME = 80  # of the readable part of a path


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
    kind = f"{type(cell).__module__}:{type(cell).__qualname__}"
    values: Mapping[str, Any] = vars(cell)
    if isinstance(cell, Measurement):
        kind, values = cell.function, cell.arguments
    return Identity(kind, _canonical(plain(values, kind.rpartition(":")[2])))


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
    write_private(path, json.dumps(record, indent=1) + "\n")
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


class Failure(NamedTuple):
    """Why there is no row, in one line."""

    error: str


#: The rows of a figure, in the order of its cells, or why there are none.
Outcome = list[Row] | Failure


def measure(
    figures: Sequence[Figure],
    size: Size,
    out: Path,
    progress: Progress = lambda done, total: None,
) -> list[Outcome]:
    """Measure all cells of some figures; return what each figure got, in their order.

    Records go to `out`/raw/SIZE. What is there already, measured from the same sources, is not
    measured again, so a run that was stopped can be resumed. If a cell raises, the figures
    that need it get the error instead of rows, and all others are measured.
    """
    folder = out / "raw" / size.name
    wanted = [_identified(figure, size) for figure in figures]
    cells: dict[Identity, Cell] = {}
    for identified in wanted:
        if not isinstance(identified, Failure):
            cells |= {known: placed.cell for known, placed in identified if known not in cells}
    digests = {kind: sources(known) for kind, known in {one.kind: one for one in cells}.items()}
    done: dict[Identity, Row | Failure] = {}
    for known in cells:
        stored = read(folder, known, digests[known.kind])
        if stored is not None:
            done[known] = stored
    progress(len(done), len(cells))
    for known in [known for known in cells if known not in done]:
        try:
            done[known] = write(folder, known, digests[known.kind], cells[known].run())
        except OSError:  # a full disk stops all
            raise
        except Exception as error:  # one bad cell must not cost the others' results
            done[known] = failure(error)
        progress(len(done), len(cells))
    return [_outcome(identified, done) for identified in wanted]


Identified = list[tuple[Identity, Placed]]


def _identified(figure: Figure, size: Size) -> Identified | Failure:
    try:
        return [(identity(placed.cell), placed) for placed in figure.cells(size)]
    except Exception as error:  # a mistake in one figure must not stop the others
        return failure(error)


def _outcome(identified: Identified | Failure, done: Mapping[Identity, Row | Failure]) -> Outcome:
    if isinstance(identified, Failure):
        return identified
    rows: list[Row] = []
    for known, placed in identified:
        measured = done[known]
        if isinstance(measured, Failure):
            return Failure(f"cell {placed.label!r}: {measured.error}")
        rows.append(measured)
    return rows


def failure(error: BaseException) -> Failure:
    """Build a failure from an error: its type and its message in one line."""
    return Failure(" ".join(f"{type(error).__name__}: {error}".split()))
