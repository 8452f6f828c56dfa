"""Figure 10: what it costs to count keys, and to have more of them hot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.dalton import streams
from skewless.experiments.reproduction.papers.dalton.forcing import ForcedHotKeys, FoundHotKeys
from skewless.experiments.reproduction.papers.dalton.memory import Counting
from skewless.experiments.reproduction.papers.dalton.streams import label, mean
from skewless.experiments.reproduction.papers.dalton.systems import cell, split_workers

_WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
_STATISTICS = ("exact", "count-min", "hybrid", "cascade")
_TEXT = "section 5.3, read from the text"


def _windows(size: Size) -> tuple[int, ...]:
    """Return the statistics windows that a stream of this size has at least two of."""
    return tuple(window for window in _WINDOWS if window <= size.records // 2)


def _cells_counting(z: float, size: Size) -> Mapping[str, Cell]:
    return {
        label(statistics, window, seed=seed): Counting(
            statistics,  # type: ignore[arg-type]
            stats_window=window,
            z=z,
            n_records=min(size.records, 2_000_000),
            seed=seed,
        )
        for seed in size.seeds
        for window in _windows(size)
        for statistics in _STATISTICS
    }


def _both_distributions(size: Size) -> Mapping[str, Cell]:
    """Return the cells of 10b with those of 10a beside them."""
    uniform = {f"uniform {name}": one for name, one in _cells_counting(0.0, size).items()}
    return {**_cells_counting(1.5, size), **uniform}


def _measured(results: Results) -> list[int]:
    """Return the statistics windows that were measured, in order."""
    return sorted({int(n.split()[1]) for n in results if n.startswith("exact ")})


def _cost(results: Results, statistics: str, which: int, *prefix: str) -> float:
    """Return the cost with the shortest (0) or the longest (−1) statistics window."""
    return mean(results, "cost", *prefix, statistics, _measured(results)[which])


def _curves_counting(column: str, kinds: tuple[str, ...], results: Results) -> Mapping[str, Points]:
    return {
        kind: [(w, mean(results, column, kind, w)) for w in _measured(results)] for kind in kinds
    }


_PLOTS_10 = (
    Plot(
        "records of STATS_WIN",
        "accesses per record; a miss counts as ten",
        partial(_curves_counting, "cost", _STATISTICS[:3]),
    ),
    Plot(
        "records of STATS_WIN",
        "bytes of the statistics",
        partial(_curves_counting, "bytes", _STATISTICS),
        log_y=True,
    ),
)
_DATA_10 = (
    "Generated: {what} over 100,000 keys. Costs are counted, not timed: what the tables touch goes "
    "through a model of a cache of 256 KiB."
)

_HOT_KEYS = (1, 2, 4, 8, 64, 600)
_PARALLELISM = 64


def _cells_10c(size: Size) -> Mapping[str, Cell]:
    size = streams.longer(size, 4)
    slide = streams.second(size)
    n_workers, reducers = split_workers(_PARALLELISM)
    of = {"z": 1.0, "n_keys": 100_000, "n_records": streams.length(size)}
    cells: dict[str, Cell] = {}
    for seed in size.seeds:
        for n_hot in _HOT_KEYS:
            cells[label("dalton", n_hot, seed=seed)] = ForcedHotKeys(
                "dalton",
                "zipf",
                # Rows for all of them; what is hot does not depend on the statistics here.
                settings={"slide": slide, "n_slides": 60, "stats_window": 1_000, "hybrid": False},
                of=of,
                n_workers=n_workers,
                reducers=reducers,
                slide=slide,
                seed=seed,
                n_hot=n_hot,
            )
        cells[label("found", seed=seed)] = FoundHotKeys(
            z=1.0,
            n_keys=100_000,
            n_records=streams.length(size),
            stats_window=slide,
            n_workers=n_workers,
            seed=seed,
        )
        cells[label("cascade", seed=seed)] = cell(
            "cascade", "zipf", of, parallelism=_PARALLELISM, slide=slide, seed=seed
        )
    return cells


def _forced(column: str, more: int, fewer: int) -> Callable[[Results], float]:
    """Return a column with more forced hot keys over that with fewer."""
    return lambda r: mean(r, column, "dalton", more) / mean(r, column, "dalton", fewer)


def _curves_10c(column: str, results: Results) -> Mapping[str, Points]:
    curves: dict[str, Points] = {
        "dalton": [(n, mean(results, column, "dalton", n)) for n in _HOT_KEYS]
    }
    if column == "throughput":
        curves["cascade"] = [(n, mean(results, column, "cascade")) for n in _HOT_KEYS]
    return curves


FIGURES = (
    Figure(
        "dalton",
        "10a",
        "Cost of counting keys by the length of the statistics window, uniform keys",
        partial(_cells_counting, 0.0),
        (
            Claim(
                "the length of the window makes no difference to a count-min sketch",
                _TEXT,
                lambda r: _cost(r, "count-min", -1) / _cost(r, "count-min", 0),
                published=1.0,
                counts="value",
            ),
            Claim(
                "a hash table costs more with longer windows",
                _TEXT,
                lambda r: _cost(r, "exact", -1) / _cost(r, "exact", 0),
                above=1.0,
            ),
            Claim(
                "the table is cheaper with the shortest windows",
                _TEXT,
                lambda r: _cost(r, "exact", 0) / _cost(r, "count-min", 0),
                below=1.0,
            ),
            Claim(
                "the sketch is cheaper with the longest windows",
                _TEXT,
                lambda r: _cost(r, "exact", -1) / _cost(r, "count-min", -1),
                above=1.0,
            ),
            Claim(
                "the hybrid costs about what the cheaper of the two costs: the worst ratio",
                _TEXT,
                lambda r: max(
                    _cost(r, "hybrid", end)
                    / min(_cost(r, "exact", end), _cost(r, "count-min", end))
                    for end in (0, -1)
                ),
                published=1.0,
                counts="factor",
            ),
        ),
        _PLOTS_10,
        _DATA_10.format(what="a uniform stream"),
    ),
    Figure(
        "dalton",
        "10b",
        "Cost of counting keys by the length of the statistics window, Zipf 1.5",
        _both_distributions,
        (
            Claim(
                "longer windows matter less than with uniform keys: growth of a table's cost",
                _TEXT,
                lambda r: (
                    (_cost(r, "exact", -1) / _cost(r, "exact", 0))
                    / (_cost(r, "exact", -1, "uniform") / _cost(r, "exact", 0, "uniform"))
                ),
                below=1.0,
            ),
        ),
        _PLOTS_10,
        _DATA_10.format(what="Zipf 1.5"),
    ),
    Figure(
        "dalton",
        "10c",
        "Throughput and work of the partitioner by a forced number of hot keys, Zipf 1.0",
        _cells_10c,
        (
            Claim(
                "Dalton itself has 4 hot keys on this stream",
                _TEXT,
                lambda r: mean(r, "hot_keys", "found"),
                published=4.0,
                counts="value",
            ),
            Claim(
                "throughput grows up to 4 hot keys: against 1",
                _TEXT,
                _forced("throughput", 4, 1),
                above=1.0,
            ),
            Claim(
                "the partitioner takes longer with more hot keys: values compared, 600 against 4",
                _TEXT,
                _forced("values_per_record", 600, 4),
                above=1.0,
            ),
            Claim(
                "more hot keys than 4 cost throughput: 600 against 4",
                _TEXT,
                _forced("throughput", 600, 4),
                below=1.0,
            ),
        ),
        (
            Plot("hot keys", "records per second", partial(_curves_10c, "throughput")),
            Plot(
                "hot keys",
                "values compared per record",
                partial(_curves_10c, "values_per_record"),
            ),
        ),
        "Generated, as in the paper: Zipf 1.0; over 100,000 keys, with 56 combiners.",
        why=(
            "With more hot keys the partitioner does more, but combiners that take 60 updates for "
            "each record are still slower than it is, and they are balanced better."
        ),
        evidence=(
            Claim(
                "with 600 hot keys, the partitioner could still send more than combiners can take",
                "the same cells",
                lambda r: (
                    mean(r, "partitioner_limit", "dalton", 600)
                    / mean(r, "combiner_limit", "dalton", 600)
                ),
                above=1.0,
            ),
            Claim(
                "with 600 hot keys, the busiest worker has less than with 4: ratio",
                "the same cells",
                lambda r: (
                    (1 + mean(r, "imbalance", "dalton", 600))
                    / (1 + mean(r, "imbalance", "dalton", 4))
                ),
                below=1.0,
            ),
        ),
    ),
)
