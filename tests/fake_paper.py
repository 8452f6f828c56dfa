"""A small paper for tests of what surrounds the figures; other processes can import its cells."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.records import Row
from experiments.reproduction import results
from experiments.reproduction.cells import Simulation
from experiments.reproduction.figure import Cell, Figure, Paper, Size, read_figure
from experiments.reproduction.runner import Outcome


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


def simulated(size: Size, *, strategy: str, seed: int) -> Simulation:
    of = {"z": 1.4, "n_keys": 1000, "n_records": min(5000, size.records)}
    return Simulation(strategy, "zipf", of=of, n_workers=8, seed=seed)


def large(label: str, **expects: Any) -> dict[str, Any]:
    """Return the claim that the value of a cell is large."""
    return {
        "says": f"{label} is large",
        "place": "section 1, read from the text",
        "ours": {"column": "value", "label": label},
        "expects": expects or {"above": 0.5},
    }


def figure(
    number: str,
    cells: dict[str, Cell] | Callable[[str], Cell],
    claims: list[dict[str, Any]],
    **more: Any,
) -> Figure:
    """Return a figure of FISH with these cells, one for each label."""
    labels = list(cells) if isinstance(cells, dict) else ["a"]

    def make(size: Size, *, label: str, seed: int) -> Cell:
        return cells[label] if isinstance(cells, dict) else cells(label)

    raw = {
        "number": number,
        "title": f"what {number} shows",
        "cells": [{"make": "made", "label": labels, "seed": 1}],
        "claims": claims,
        **more,
    }
    return read_figure(Paper("fish", "FISH", {"made": make}), raw)


DALTON = Paper("dalton", "Dalton", {"simulated": simulated})
#: As a data file has it.
RAW: dict[str, Any] = {
    "number": "table II",
    "title": "imbalance of three strategies",
    "place": "fig. 1",
    "data": "Zipf with z = 1.4",
    "why": "It was invented for a test.",
    "cells": [{"make": "simulated", "strategy": ["hash", "pkg", "cascade"]}],
    "claims": [
        {
            "says": "hash is worse than pkg",
            "ours": {"ratio": [{"strategy": "hash"}, {"strategy": "pkg"}], "column": "imbalance"},
            "expects": {"above": 1.05},
        },
        {
            "says": "pkg | two choices",
            "ours": {"column": "imbalance", "strategy": "pkg"},
            "expects": {"value": 1e-9},
        },
    ],
    "evidence": [
        {
            "says": "cascade is even",
            "ours": {"column": "imbalance", "strategy": "cascade"},
            "expects": {"below": 0.5},
        }
    ],
}
SIMULATED = read_figure(DALTON, RAW)


def result(figure: Figure, size: Size, outcome: Outcome) -> results.Result:
    """Return the result of what was measured just now."""
    return results.result(figure, results.recorded(figure, size, outcome))


def environment() -> dict[str, str]:
    """Return the environment in which another process finds the modules of tests and project."""
    tests = Path(__file__).parent
    paths = [str(tests), str(tests.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
