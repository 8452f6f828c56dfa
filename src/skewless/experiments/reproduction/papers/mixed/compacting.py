"""Figure 11: plans over vectors of similar keys instead of single keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skewless.arrays import Floats, Workers
from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Size
from skewless.experiments.reproduction.papers.mixed import defaults
from skewless.experiments.reproduction.papers.mixed.fitting import same_head
from skewless.experiments.reproduction.papers.mixed.grid import at, curves, first, grid, last
from skewless.experiments.reproduction.papers.mixed.planning import Intervals, counted
from skewless.experiments.tables import Row
from skewless.strategies import Mixed
from skewless.strategies.rebalancing.compact_representation import compact
from skewless.workloads import FluctuatingZipf

#: R = 2^r of the paper, r = 0 … 8.
_DEGREES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: The place of "original key space" on the x axis: no discretisation.
_ORIGINAL = 0


@dataclass(frozen=True)
class Compacting:
    """Plans of Mixed over vectors, with R = `degree`; 0: over single keys."""

    degree: int
    z: float = 0.85
    n_keys: int = 100_000
    n_workers: int = 15
    state_windows: int = 5
    n_intervals: int = 10
    seed: int = 1

    def run(self) -> Row:
        """Make the plans; return what they take, and how wrong the loads are that they expect."""
        strategy = Mixed(
            compact=self.degree > 0,
            discretisation=max(self.degree, 1).bit_length() - 1,
            max_entries=defaults.table_bound(self.n_keys),
            **defaults.LITERAL,
        )
        work = counted(strategy)
        stream = FluctuatingZipf(
            z=self.z, n_keys=self.n_keys, n_records=0, n_workers=self.n_workers
        )
        intervals = Intervals(stream, self.seed, self.state_windows)
        state = strategy.start(self.n_workers, self.seed)
        n_vectors, errors, moved = [], [], []
        for _ in range(self.n_intervals):
            report = intervals.next()
            observed = strategy._observed(report, state)
            expected = report.loads
            if self.degree:
                vectors = compact(observed, self.degree, self.n_workers)
                expected = vectors.costs[vectors.of_key]
                n_vectors.append(vectors.costs.size)
            else:
                n_vectors.append(report.keys.size)
            state, moves = strategy.rebalance(report, state)
            owners: Workers = np.empty(report.keys.size, np.int32)
            strategy.route(report.keys, state, owners)
            errors.append(self._error(owners, report.loads, expected))
            moving = np.isin(report.keys, moves.keys, assume_unique=True)
            moved.append(float(report.state_sizes[moving].sum() / report.state_sizes.sum()))
        return {
            "vectors": float(np.mean(n_vectors)),
            "steps": work.steps / self.n_intervals,
            "error": float(np.mean(errors)),
            "moved": float(np.mean(moved)),
        }

    def _error(self, owners: Workers, loads: Floats, expected: Floats) -> float:
        """Return by how much the load of a worker differs from what the plan expects of it."""
        true = np.bincount(owners, loads, minlength=self.n_workers)
        seen = np.bincount(owners, expected, minlength=self.n_workers)
        return float((np.abs(seen - true) / true).mean())


def _cells(size: Size) -> Mapping[str, Cell]:
    keys = defaults.n_keys(size)

    def make(curve: str, x: float, seed: int) -> Cell:
        if curve == "cascade":
            return defaults.cascade(size, seed)
        return Compacting(
            int(x),
            z=same_head(defaults.Z, defaults.N_KEYS, keys),
            n_keys=keys,
            n_workers=min(defaults.N_WORKERS, size.workers),
            n_intervals=defaults.n_intervals(size, published=20),
            seed=seed,
        )

    return grid(size, ["mixed"], (_ORIGINAL, *_DEGREES), make) | grid(
        size, ["cascade"], (_ORIGINAL,), make
    )


FIGURE_11 = Figure(
    "mixed",
    "11",
    "Compact plans by the degree of discretisation: work and error of the loads",
    _cells,
    claims=[
        Claim(
            "With R = 8 a plan is an order of magnitude faster than over single keys (0.6 s, 6 s).",
            "section V, impact of parameters, fig. 11a (read from the text)",
            lambda r: first(r, "mixed", "steps") / at(r, "mixed", 8, "steps"),
            10.0,
            "at least",
            above=1.0,
        ),
        Claim(
            "A larger R makes plans faster.",
            "section V, impact of parameters, fig. 11a",
            lambda r: last(r, "mixed", "steps") / at(r, "mixed", 1, "steps"),
            below=1.0,
        ),
        Claim(
            "The error of the loads grows with R.",
            "section V, impact of parameters, fig. 11b",
            lambda r: last(r, "mixed", "error") / at(r, "mixed", 1, "error"),
            above=1.0,
        ),
        Claim(
            "The error is at most 1 % for every R from 1 to 256.",
            "section V, impact of parameters, fig. 11b (read from the text)",
            lambda r: max(at(r, "mixed", degree, "error") for degree in _DEGREES),
            0.01,
            "at most",
        ),
    ],
    plots=[
        Plot(
            "R (0: single keys)",
            "steps per plan",
            curves({"mixed": "steps"}),
            published={"seconds, published": [(0, 6.0), (8, 0.6)]},
            log_y=True,
        ),
        Plot("R (0: single keys)", "error of a worker's load", curves({"mixed": "error"})),
        Plot(
            "R (0: single keys)",
            "state moved / held (cascade: replicas beyond one per key)",
            curves({"mixed": "moved", "cascade": defaults.extra_replicas}),
        ),
    ],
    data=defaults.DATA + " The time of a plan is counted: vectors that it orders and passes over, "
    "and keys that LLFD places.",
)
