"""What a figure is: cells to measure, and the claims of its authors about them."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, Protocol

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest and mypy bring the same under this name
    import tomli as tomllib

from benchmarks.records import Row
from experiments.reproduction.numbers import WORDS, Call, Number, Numbers, check_number
from experiments.reproduction.table import CASE, SEED, Column, Entry, Table

P = ParamSpec("P")


class Size(NamedTuple):
    """How much is measured: a figure takes the smaller of its authors' number and this one."""

    name: str
    records: int  # of one stream
    workers: int  # at most this many
    seeds: tuple[int, ...]
    of: Mapping[str, int] = {}  # records by paper, where these differ

    def for_paper(self, paper: str) -> Size:
        """Return the size with the records of a paper."""
        return self._replace(records=self.of.get(paper, self.records))

    def longer(self, times: int, paper: str) -> Size:
        """Return it with streams this many times as long, but not above the published length."""
        most = max(self.records, SIZES["published"].for_paper(paper).records)
        return self._replace(records=min(times * self.records, most))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an error names the file."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return found
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from None


#: All sizes, the smallest first.
SIZES = {
    name: Size(name, one["records"], one["workers"], tuple(one["seeds"]), one.get("of", {}))
    for name, one in read_toml(Path(__file__).parent / "sizes.toml").items()
}


class Cell(Protocol):
    """One measurement: a frozen dataclass whose fields, all plain values, say what is measured.

    The same fields give the same record, in any process and on any machine.
    """

    def run(self) -> Row:
        """Measure, and return plain values by name."""


@dataclass(frozen=True)
class Measurement:
    """A cell that is a call of a function: its place, and its arguments, all plain values."""

    function: str  # module:name
    arguments: Mapping[str, Any]

    def run(self) -> Row:
        """Call the function."""
        module, _, name = self.function.partition(":")
        row: Row = getattr(import_module(module), name).__wrapped__(**self.arguments)
        return row


def cell(function: Callable[P, Row]) -> Callable[P, Measurement]:
    """Let a function return the cell of its call, which another process may run."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> Measurement:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return Measurement(f"{function.__module__}:{function.__name__}", bound.arguments)

    return made


class Placed(NamedTuple):
    """A cell, and its place in the table of the figure."""

    axes: Mapping[str, Any]
    cell: Cell

    @property
    def label(self) -> str:
        """The cell as a message calls it."""
        return " ".join(f"{axis}={value}" for axis, value in self.axes.items())


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions by their names, without the underscore of a private one."""
    return {function.__name__.lstrip("_"): function for function in functions}


@dataclass(frozen=True)
class Paper:
    """What the data files of a paper may name."""

    name: str
    title: str
    # Make the cell of a place: of the size, the axes, and what a grid gives `with` them.
    cells: Mapping[str, Callable[..., Cell]]
    columns: Mapping[str, Column] = field(default_factory=dict)  # of an entry
    calls: Mapping[str, Call] = field(default_factory=dict)  # numbers in a way of their own


#: What makes a claim reproduced: a value within 15 %, a stated range, or a bound without slack.
RULES = ("value", "between", "at_most", "at_least")
#: Where nothing has an effect: a factor of 1, a difference of 0.
NO_EFFECT = (0.0, 1.0)


@dataclass(frozen=True)
class Claim:
    """One statement of a paper about a figure, and the same number of ours."""

    says: str  # what the authors state, in our words
    place: str  # where they state it, and whether it was read from the text
    ours: Number  # that we measured
    # Their number, by one of `RULES`, where they state one; `above` or `below` is then the number
    # without an effect, and without both a claim is reproduced or not. Where they state none,
    # `above` or `below` is the least effect that counts.
    expects: Mapping[str, Any]
    because: str = ""  # why a range in place of their words is fair

    def __post_init__(self) -> None:
        unknown = set(self.expects) - {*RULES, "above", "below"}
        rules = [rule for rule in RULES if rule in self.expects]
        if left := re.findall(r"\{\w+\}", f"{self.says} {self.ours} {self.expects}"):
            raise ValueError(f"claim {self.says!r}: its each has no {', '.join(left)}")
        if unknown or len(rules) > 1 or not self.expects:
            raise ValueError(
                f"claim {self.says!r}: expects must have one of {', '.join(RULES)}, above, below, "
                f"not {dict(self.expects)}"
            )
        if not rules and set(self.expects.values()) & set(NO_EFFECT):
            raise ValueError(
                f"claim {self.says!r}: a direction needs the least effect that counts, and "
                f"{dict(self.expects)} has none"
            )
        if (self.rule == "between") != bool(self.because):
            raise ValueError(f"claim {self.says!r}: between needs a because, and no other rule")

    @property
    def rule(self) -> str:
        """Which of `RULES` decides, or the direction alone."""
        return next((rule for rule in RULES if rule in self.expects), "direction")

    @property
    def published(self) -> float | None:
        """Their number; None where they state words without a number."""
        return None if self.rule == "between" else self.expects.get(self.rule)

    def nearest_to(self, no_effect: float) -> float:
        """Say what would reproduce the claim with the smallest effect."""
        ends: list[float] = self.expects.get("between", [self.published])
        return min(ends, key=lambda end: abs(end - no_effect))


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper."""

    paper: Paper
    number: str  # as the paper prints it, such as "9", "10c" or "table II"
    title: str  # what it shows, in our words
    grids: Sequence[Mapping[str, Any]]  # the values of each axis, and what makes a cell of them
    claims: Sequence[Claim]
    data: str = ""  # the streams: the authors' own, or what stands in for those
    # If a claim is not reproduced: the reason as far as we know it, and statements of ours that
    # show it, computed from the same cells.
    why: str = ""
    evidence: Sequence[Claim] = ()
    fitted: str = ""  # a setting that was chosen so that a claim of this figure holds
    order: float | None = None  # among the figures of the paper, if the number does not tell

    @property
    def name(self) -> str:
        """The name by which the command line knows it: paper/number."""
        return f"{self.paper.name}/{self.number.replace(' ', '-')}"

    def cells(self, size: Size) -> list[Placed]:
        """Build the figure's cells for a size. Figures may share cells; each is measured once."""
        size = size.for_paper(self.paper.name)
        placed = [one for grid in self.grids for one in _placed(self.paper, grid, size)]
        known: set[str] = set()
        for one in placed:
            if one.label in known:
                raise ValueError(f"{self.name}: two cells are {one.label}")
            known.add(one.label)
        return placed

    def numbers(self, rows: Sequence[Row], size: Size) -> Numbers:
        """Build the `Numbers` of the figure from the rows of `cells`, in their order."""
        entries = [
            Entry(placed.axes, row) for placed, row in zip(self.cells(size), rows, strict=True)
        ]
        return Numbers(Table(entries, self.paper.columns), self.paper.calls)


_NO_AXES = {"make", "with"}


def _placed(paper: Paper, grid: Mapping[str, Any], size: Size) -> Iterator[Placed]:
    """Yield the cells of all combinations of a grid's values."""
    make = paper.cells[grid["make"]]
    axes = {axis: _values(value, size) for axis, value in grid.items() if axis not in _NO_AXES}
    axes.setdefault(SEED, list(size.seeds))
    for combination in itertools.product(*axes.values()):
        place = dict(zip(axes, combination, strict=True))
        given = {axis: value for axis, value in place.items() if axis != CASE}
        yield Placed(place, make(size, **given, **grid.get("with", {})))


def _values(value: Any, size: Size) -> list[Any]:
    """Return the values of an axis: the same for all sizes, or by the name of the size."""
    if isinstance(value, Mapping):
        value = value[size.name if size.name in value else "else"]
    return value if isinstance(value, list) else [value]


def read_figures(paper: Paper, folder: Path) -> list[Figure]:
    """Return the figures of a paper, in its order: those of all data files in its folder.

    `texts.toml` has texts that others name in braces.
    """
    texts: dict[str, str] = {}
    for name, text in read_toml(folder / "texts.toml").items():
        texts[name] = text.format_map(texts)
    found: dict[str, Figure] = {}
    for path in sorted(folder.glob("*.toml")):
        for one in read_toml(path).get("figure", ()):
            figure = read_figure(paper, one, texts, found)
            if figure.number in found:
                raise ValueError(f"two figures have the same name: {figure.name}")
            found[figure.number] = figure

    def place(figure: Figure) -> tuple[float, str]:
        digits = "".join(filter(str.isdigit, figure.number))
        return float(digits) if figure.order is None else figure.order, figure.number

    return sorted(found.values(), key=place)


def read_figure(
    paper: Paper,
    raw: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    others: Mapping[str, Figure] | None = None,
) -> Figure:
    """Return a figure from its table of TOML.

    `cells_of` takes over the cells of a figure before it. A figure's `place` is that
    of its claims, unless they state another one. `each` repeats a part: see `repeated`.
    """
    where = f"{paper.name}/{raw['number']}"
    several = ("cells", "claims", "evidence")
    parts = {**raw, **{name: repeated(raw.get(name, ()), where) for name in several}}
    try:
        grids = [*(others or {})[parts.pop("cells_of")].grids] if "cells_of" in raw else []
        for name in ("data", "why"):
            parts[name] = parts.get(name, "").format_map(texts or {})
    except KeyError as error:
        raise ValueError(f"{where}: nothing is called {error}") from None
    grids += parts.pop("cells")
    place = parts.pop("place", "")
    for name, default in (("claims", place), ("evidence", "ours")):
        parts[name] = [_made(Claim, {"place": default, **claim}, where) for claim in parts[name]]
    figure: Figure = _made(Figure, {**parts, "paper": paper, "grids": grids}, where)
    _check(figure, where)
    return figure


def repeated(tables: Sequence[Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    """Return tables, those with `each` once for each of its rows.

    The values of a row replace their names in braces.

    >>> repeated([{"each": [{"z": 1.0}, {"z": 2.0}], "says": "z = {z}", "ours": {"z": "{z}"}}], "")
    [{'says': 'z = 1.0', 'ours': {'z': 1.0}}, {'says': 'z = 2.0', 'ours': {'z': 2.0}}]
    """
    found = []
    for table in tables:
        whole = {name: value for name, value in table.items() if name != "each"}
        rows = table.get("each", [{}])
        if not rows or any(row.keys() != rows[0].keys() for row in rows):
            raise ValueError(f"{where}: the rows of each must have the same names, not {rows}")
        for name in rows[0]:
            if f"{{{name}}}" not in str(whole):
                raise ValueError(f"{where}: nothing is called {{{name}}}, which each has")
        found += [_filled(whole, row) for row in rows]
    return found


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _filled(one, row) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, row) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith("{") and value[1:-1] in row:
        return row[value[1:-1]]
    # A claim refuses what is left.
    return re.sub(r"\{(\w+)\}", lambda name: str(row.get(name[1], name[0])), value)


def _made(cls: Any, values: Mapping[str, Any], where: str) -> Any:
    unknown = set(values) - {one.name for one in fields(cls)}
    if unknown:
        raise ValueError(f"{where}: a {cls.__name__.lower()} has no {', '.join(sorted(unknown))}")
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from None


def _check(figure: Figure, where: str) -> None:
    """Refuse a figure that names what is not there."""
    for grid in figure.grids:
        if grid.get("make") not in figure.paper.cells:
            known = ", ".join(figure.paper.cells)
            raise ValueError(f"{where}: unknown make {grid.get('make')!r}; known: {known}")
    if not figure.claims:
        raise ValueError(f"{where}: a figure has at least one claim")
    axes = {SEED, CASE, *(axis for grid in figure.grids for axis in grid)} - _NO_AXES
    if axes & WORDS:
        raise ValueError(f"{where}: an axis cannot be called {', '.join(axes & WORDS)}")
    for claim in (*figure.claims, *figure.evidence):
        check_number(claim.ours, axes, figure.paper.calls, f"{where}, {claim.says!r}")
