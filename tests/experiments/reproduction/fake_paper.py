"""A small paper for tests of what surrounds the figures; other processes can import its cells."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import Claim, Figure, Plot, Size
from skewless.experiments.tables import Row

STRATEGIES = ("hash", "pkg", "cascade")


@dataclass(frozen=True)
class Counted:
    """A cell that leaves a line in a file each time that it is measured."""

    label: str
    log: str
    n_records: int = 10
    of: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Row:
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(f"{self.label}\n")
        return {"value": float(self.n_records), "series": [1.0, 2.0]}


@dataclass(frozen=True)
class Bad:
    """A cell that cannot be measured."""

    how: str = "raise"

    def run(self) -> Row:
        if self.how == "die":
            os._exit(3)
        if self.how == "row":
            return {"value": object()}
        raise ZeroDivisionError("there is\nnothing to divide by")


@dataclass(frozen=True)
class Slow:
    """A cell that takes long."""

    number: int
    seconds: float = 60.0

    def run(self) -> Row:
        time.sleep(self.seconds)
        return {"value": float(self.number)}


def value_claim(label: str, published: float | None = None, above: float = 0.0) -> Claim:
    return Claim(
        f"{label} is large",
        "section 1, read from the text",
        lambda rows: float(rows[label]["value"]),
        published,
        "direction" if published is None else "value",
        above=above,
    )


def figure(number: str, cells: dict[str, Any], claims: list[Claim], **settings: Any) -> Figure:
    return Figure("fish", number, f"what {number} shows", lambda size: cells, claims, **settings)


def simulated_cells(size: Size) -> dict[str, Simulation]:
    stream = {"z": 1.4, "n_keys": 1000, "n_records": min(5000, size.records)}
    return {name: Simulation(name, "zipf", of=stream, n_workers=8) for name in STRATEGIES}


def imbalance(rows: Any, name: str) -> float:
    return float(rows[name]["imbalance"])


SIMULATED = Figure(
    "dalton",
    "table II",
    "imbalance of three strategies",
    simulated_cells,
    [
        Claim(
            "hash is worse than pkg",
            "fig. 1",
            lambda r: imbalance(r, "hash") / imbalance(r, "pkg"),
            above=1.0,
        ),
        Claim("pkg | two choices", "fig. 1", lambda r: imbalance(r, "pkg"), 1e-9, "value"),
    ],
    [
        Plot(
            "strategy",
            "imbalance",
            lambda r: {"ours": [(name, imbalance(r, name)) for name in STRATEGIES]},
            {"ours": [("pkg", 0.5)]},
            log_y=True,
        ),
        Plot("workers", "x", lambda r: {"A": [(1, 2.0), (2, 0.0)], "B": [(1, float("nan"))]}, {}),
    ],
    data="Zipf with z = 1.4",
    why="It was invented for a test.",
    evidence=[Claim("cascade is even", "ours", lambda r: imbalance(r, "cascade"), below=0.5)],
)


def environment() -> dict[str, str]:
    """Return the environment in which another process finds the tests' modules."""
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
