"""What a figure is: cells to measure, the claims of its authors about them, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from skewless.experiments.tables import Row

#: What the cells of a figure measured, by their labels.
Results = Mapping[str, Row]

#: Takes one number out of what a cell measured.
Number = Callable[[Row], float]

#: Points of one curve: what is on the x axis, and what is on the y axis.
Points = Sequence[tuple[Any, float]]

Paper = Literal["fish", "dalton", "pstream", "pd-stream", "mixed"]
PAPERS: tuple[Paper, ...] = ("fish", "dalton", "pstream", "pd-stream", "mixed")


def column(name: str) -> Number:
    """Return what reads this column of a row."""
    return lambda row: float(row[name])


class Size(NamedTuple):
    """How much is measured: a figure takes the smaller of its authors' number and this one."""

    name: str
    records: int  # of one stream
    workers: int  # at most this many
    seeds: tuple[int, ...]


#: For the tests: everything runs, and directions can be seen where they are clear.
TINY = Size("tiny", 20_000, 32, (1,))
#: All figures in some minutes on two cores.
QUICK = Size("quick", 400_000, 128, (1,))
#: What the authors did, as far as one machine can.
FULL = Size("full", 20_000_000, 1024, (1, 2, 3))
SIZES = {size.name: size for size in (TINY, QUICK, FULL)}


class Cell(Protocol):
    """One measurement: a frozen dataclass whose fields, all plain values, say what is measured.

    The same fields give the same record, in any process and on any machine.
    """

    def run(self) -> Row:
        """Measure, and return plain values by name."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper about a figure, and the same number of ours.

    Parameters
    ----------
    says
        What the authors state, in our words.
    place
        Where they state it: section, figure, table; and whether it was read from the text.
    ours
        The number that we measured, computed from the cells.
    published
        Their number; None where they state a direction without a number.
    counts
        What makes it reproduced: a `value` within 15 %, a `factor` within 2, `at most` or
        `at least` their number (within 15 %), or the `direction` alone.
    above, below
        The direction: our number must be above, or below, this one. Without both, a claim has no
        direction, so it is reproduced or not.
    """

    says: str
    place: str
    ours: Callable[[Results], float]
    published: float | None = None
    counts: Literal["value", "factor", "at most", "at least", "direction"] = "direction"
    above: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        """Refuse a claim that nothing could decide."""
        if self.counts != "direction" and self.published is None:
            raise ValueError(f"claim {self.says!r}: {self.counts!r} needs a published number")
        if self.counts == "direction" and self.above is None and self.below is None:
            raise ValueError(f"claim {self.says!r}: 'direction' needs above or below")


@dataclass(frozen=True)
class Plot:
    """A picture of a figure: our curves, and the points that the authors published."""

    x: str
    y: str
    curves: Callable[[Results], Mapping[str, Points]]
    published: Mapping[str, Points] = ()  # type: ignore[assignment]
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper.

    Parameters
    ----------
    paper, number
        Which one; the number is as the paper prints it, such as "9", "10c" or "table II".
    title
        What it shows, in our words.
    cells
        What to measure for a size, by label. Figures may share cells; each is measured once.
    claims
        What the authors state about it. There is at least one.
    plots
        Pictures for the page.
    data
        The streams: the authors' own kind, or what stands in for a data set that cannot be had.
    why
        If a claim is not reproduced: the reason as far as we know it, and which of `evidence`
        shows it.
    evidence
        Statements of ours that support the reason, computed from the same cells.
    """

    paper: Paper
    number: str
    title: str
    cells: Callable[[Size], Mapping[str, Cell]]
    claims: Sequence[Claim]
    plots: Sequence[Plot] = ()
    data: str = ""
    why: str = ""
    evidence: Sequence[Claim] = ()

    @property
    def name(self) -> str:
        """The name by which the command line knows it: paper/number.

        >>> Figure("fish", "table II", "", lambda size: {}, [], ()).name
        'fish/table-II'
        """
        return f"{self.paper}/{self.number.replace(' ', '-')}"
