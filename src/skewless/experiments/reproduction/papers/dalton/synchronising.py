"""Figure 14: how often partitioners exchange what they learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from skewless import registry, workloads
from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.dalton.partitioners import pipeline, slide_of
from skewless.experiments.reproduction.papers.dalton.pipeline import SCORE
from skewless.experiments.reproduction.papers.dalton.streams import label, mean, series
from skewless.experiments.tables import Row
from skewless.simulator.cooperation import cooperate

_TEXT = "section 5.4, figure 14, read from the text"
_SLIDE_SECONDS = 20
#: Seconds from one exchange to the next; 0: never.
_INTERVALS = (0.0, 40.0, 20.0, 10.0, 5.0)
_SETUPS = {"different": (0.0, 1.5), "same": (0.0, 0.0, 1.5, 1.5)}


def _cells_14a(size: Size) -> Mapping[str, Cell]:
    """Return the cells of two partitioners with streams of their own, or with the same mixture.

    With four distributions in turn, each of two partitioners gets a uniform and a Zipf one.
    """
    second = slide_of(size) / _SLIDE_SECONDS
    cells: dict[str, Cell] = {}
    for seed in size.seeds:
        for setup, exponents in _SETUPS.items():
            for interval in _INTERVALS:
                cells[label("dalton", setup, interval, seed=seed)] = pipeline(
                    "dalton",
                    exponents,
                    size,
                    n_sources=2,
                    seed=seed,
                    heavy_hitters="same",
                    sync=max(2, int(interval * second)) if interval else 0,
                    exchange=_MESSAGE,
                )
            cells[label("cascade", setup, 0.0, seed=seed)] = pipeline(
                "cascade", exponents, size, n_sources=2, seed=seed, heavy_hitters="same"
            )
    return cells


#: Seconds of a partitioner to send and to take over a table: 56 hot keys, 56 values each.
_MESSAGE = 2 * 56 * 56 * SCORE


def _throughput(results: Results, setup: str, interval: float) -> float:
    return mean(results, "throughput", "dalton", setup, interval)


def _best(results: Results, setup: str) -> float:
    return max(_throughput(results, setup, interval) for interval in _INTERVALS if interval)


def _curves_14a(results: Results) -> Mapping[str, Points]:
    return {
        f"dalton, {setup} streams": [
            (interval or "never", _throughput(results, setup, interval)) for interval in _INTERVALS
        ]
        for setup in _SETUPS
    } | {
        f"cascade, {setup} streams": [("never", mean(results, "throughput", "cascade", setup, 0.0))]
        for setup in _SETUPS
    }


@dataclass(frozen=True)
class Adapting:
    """Two partitioners whose interval adapts while their reducer becomes slower and faster.

    Times are in seconds of `rounds` records of each partitioner. The reducer takes `work` seconds,
    twice as long in the second phase, four times as long in the third, and `work` in the last.
    """

    strategy: str
    n_workers: int = 56
    seed: int = 1
    rounds: int = 10
    phase: int = 5_000
    interval: int = 20
    adaptive: bool = True
    work: float = 6.0
    n_keys: int = 10_000

    def run(self) -> Row:
        """Return the interval at the end of each phase, and all exchanges."""
        factors = (1.0, 2.0, 4.0, 1.0)
        rounds_per_phase = self.phase * self.rounds

        def work(begin: int) -> int:
            phase = min(begin // rounds_per_phase, len(factors) - 1)
            return round(self.work * factors[phase] * self.rounds)

        result = cooperate(
            registry.make(self.strategy),
            workloads.make(
                "per-source",
                exponents=(0.0, 1.5),
                n_keys=self.n_keys,
                n_records=2 * len(factors) * rounds_per_phase,
            ),
            n_workers=self.n_workers,
            n_sources=2,
            seed=self.seed,
            window=2 * 60 * self.rounds,
            interval=self.interval * self.rounds,
            work=work,
            adaptive=self.adaptive,
        )
        times = [sync.received / self.rounds for sync in result.syncs]
        intervals = [sync.interval / self.rounds for sync in result.syncs]
        last = [
            [i for t, i in zip(times, intervals, strict=True) if t < (phase + 1) * self.phase][-1]
            for phase in range(len(factors))
        ]
        peaks = result.windows.peaks * self.n_workers / result.windows.records
        return {
            "intervals": last,
            "sync_seconds": times,
            "sync_intervals": intervals,
            "late": sum(sync.n_late for sync in result.syncs),
            "window_max_load_ratio": peaks.tolist(),
        }


def _cells_14b(size: Size) -> Mapping[str, Cell]:
    phase = max(200, min(5_000, size.records // 800))
    cells: dict[str, Cell] = {}
    for seed in size.seeds:
        for name, interval, adaptive in (
            ("adaptive", 20, True),
            ("fixed 20", 20, False),
            ("fixed 10", 10, False),
        ):
            cells[label("dalton", name, seed=seed)] = Adapting(
                "dalton", seed=seed, phase=phase, interval=interval, adaptive=adaptive
            )
        cells[label("cascade", "adaptive", seed=seed)] = Adapting("cascade", seed=seed, phase=phase)
    return cells


def _interval(phase: int, results: Results) -> float:
    return series(results, "intervals", "dalton", "adaptive")[phase]


def _throughput_14b(name: str, results: Results) -> float:
    """Return throughput in units of what balance would give: 1 / (max / mean load)."""
    ratios = series(results, "window_max_load_ratio", "dalton", name)
    return float(1 / np.mean(ratios[len(ratios) // 4 :]))


def _curves_14b(results: Results) -> Mapping[str, Points]:
    curves: dict[str, Points] = {}
    for system in ("dalton", "cascade"):
        rows = [row for name, row in results.items() if name.startswith(f"{system} adaptive #")]
        curves[system] = list(zip(rows[0]["sync_seconds"], rows[0]["sync_intervals"], strict=True))
    return curves


_DSYNC = "seconds between two exchanges"


FIGURES = (
    Figure(
        "dalton",
        "14a",
        "Throughput by the interval between exchanges of two partitioners",
        _cells_14a,
        (
            Claim(
                "partitioners that never exchange are slower: different streams",
                _TEXT,
                lambda r: _throughput(r, "different", 0.0) / _best(r, "different"),
                below=1.0,
            ),
            Claim(
                "partitioners that never exchange are slower: the same streams",
                _TEXT,
                lambda r: _throughput(r, "same", 0.0) / _best(r, "same"),
                below=1.0,
            ),
            Claim(
                "exchanging more often helps: every 10 seconds against every 40",
                _TEXT,
                lambda r: _throughput(r, "different", 10.0) / _throughput(r, "different", 40.0),
                above=1.0,
            ),
            Claim(
                "exchanging more often than every 10 seconds costs throughput: every 5 against it",
                _TEXT,
                lambda r: _throughput(r, "different", 5.0) / _throughput(r, "different", 10.0),
                below=1.0,
            ),
        ),
        (Plot(_DSYNC, "records per second", _curves_14a),),
        "Generated, as in the paper: a uniform stream and Zipf 1.5, or both in turn for each.",
        why=(
            "After an exchange, a key that is hot at one partitioner only is hashed, as section 4.1"
            " of the paper wants it. Without any, such keys are split, and that is better for the "
            "balance of these streams. Where both streams are the same, each partitioner balances "
            "its own half. How often they exchange makes no difference once all is learned: the "
            "busiest worker is then the one with most cold keys, and a message is small."
        ),
        evidence=(
            Claim(
                "without exchanges, keys are on more workers: replicas per key against 10 seconds",
                "the same cells",
                lambda r: (
                    mean(r, "replication", "dalton", "different", 0.0)
                    / mean(r, "replication", "dalton", "different", 10.0)
                ),
                above=1.0,
            ),
            Claim(
                "a message takes little of a partitioner's time: its limit every 5 seconds to none",
                "the same cells",
                lambda r: (
                    mean(r, "partitioner_limit", "dalton", "different", 5.0)
                    / mean(r, "partitioner_limit", "dalton", "different", 0.0)
                ),
                published=1.0,
                counts="value",
            ),
            Claim(
                "without exchanges, the busiest worker has less: against 10 seconds",
                "the same cells",
                lambda r: (
                    (1 + mean(r, "imbalance", "dalton", "different", 0.0))
                    / (1 + mean(r, "imbalance", "dalton", "different", 10.0))
                ),
                below=1.0,
            ),
        ),
    ),
    Figure(
        "dalton",
        "14b",
        "The interval between exchanges while the reducer becomes slower and faster",
        _cells_14b,
        (
            *(
                Claim(
                    f"the interval settles at {seconds} seconds {when}",
                    _TEXT,
                    partial(_interval, phase),
                    published=float(seconds),
                    counts="value",
                )
                for phase, (seconds, when) in enumerate(
                    (
                        (10, "at first"),
                        (20, "when the reducer takes twice as long"),
                        (40, "when it takes four times as long"),
                        (10, "when the delays are gone"),
                    )
                )
            ),
            Claim(
                "the adaptive interval costs no throughput: against a fixed one of 10 seconds",
                _TEXT,
                lambda r: _throughput_14b("adaptive", r) / _throughput_14b("fixed 10", r),
                published=1.0,
                counts="at least",
            ),
        ),
        (Plot("seconds", _DSYNC, _curves_14b),),
        (
            "Generated: a uniform stream and Zipf 1.5. The paper does not say how long its reducer "
            "takes; here it is 6 seconds, and the protocol must find the interval."
        ),
    ),
)
