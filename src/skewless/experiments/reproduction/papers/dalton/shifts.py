"""Figures 1 and 9: distributions that change while the stream runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

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
from skewless.experiments.reproduction.papers.dalton.pipeline import service
from skewless.experiments.reproduction.papers.dalton.streams import label, mean, series
from skewless.experiments.reproduction.papers.dalton.systems import (
    BATCH_SYSTEMS,
    SYSTEMS,
    cell,
    existing,
)

_PARALLELISM = 64  # the paper does not say; these are the most that it has
_FEWER_WORKERS = 16  # how far a claim depends on that
_PERIODS = 4
_SLIDES_PER_PERIOD = 200
_RECENT = 10  # seconds that queues even out
_TEXT = "section 5.2, read from the text"
_ALTERNATING = {"z": 1.5}
_COMPARED = ("shuffle", "dalton")
_DATA = (
    "Generated, as in the paper: {what} over 100,000 keys; in smaller sizes, the keys and the "
    "records of a second shrink together. The paper does not say how many workers there are; here "
    "there are 64."
)


def _slide(size: Size, per_period: int) -> int:
    return min(streams.RECORDS_PER_SECOND, size.records // (_PERIODS * per_period))


def _cells(
    workload: str,
    systems: tuple[str, ...],
    extra: Mapping[str, Any],
    times: Mapping[str, Any],
    size: Size,
    *,
    batches: bool = False,
    n_slides: int = streams.WINDOW_SECONDS,
    per_period: int = _SLIDES_PER_PERIOD,
    parallelism: int = _PARALLELISM,
) -> Mapping[str, Cell]:
    """Return the cells of streams that change four times."""
    slide = _slide(streams.longer(size, 6), per_period)
    window = streams.RECORDS_PER_SECOND * streams.WINDOW_SECONDS
    n_keys = max(1_000, 100_000 * slide * n_slides // window)
    of = {
        **extra,
        "n_keys": n_keys,
        "n_records": _PERIODS * per_period * slide,
        "period": per_period * slide,
    }
    return {
        label(system, seed=seed): cell(
            system,
            workload,
            of,
            parallelism=parallelism,
            slide=slide,
            n_slides=n_slides,
            recent=min(_RECENT, n_slides),
            seed=seed,
            batches=batches,
            **times,
        )
        for seed in size.seeds
        for system in systems
    }


def _cells_9a(size: Size) -> Mapping[str, Cell]:
    """Return the cells of all systems, and of two of them with fewer workers."""
    times = {"service": service(60)}
    fewer = _cells("alternating", _COMPARED, _ALTERNATING, times, size, parallelism=_FEWER_WORKERS)
    return {
        **_cells("alternating", SYSTEMS, _ALTERNATING, times, size),
        **{f"fewer workers: {name}": one for name, one in fewer.items()},
    }


def _while_skewed(results: Results, system: str) -> float:
    """Return the mean throughput in the Zipf periods: the second, the fourth."""
    throughput = np.array(series(results, "slide_throughput", system))
    return float(throughput.reshape(_PERIODS, -1)[1::2].mean())


def _while_uniform(results: Results, system: str) -> float:
    """Return the mean throughput in the second halves of the uniform periods."""
    throughput = np.array(series(results, "slide_throughput", system)).reshape(_PERIODS, -1)
    return float(throughput[0::2, throughput.shape[1] // 2 :].mean())


def _always(results: Results, system: str) -> float:
    return float(np.mean(series(results, "slide_throughput", system)))


def _against(
    others: list[str], which: Callable[..., float], when: Callable[[Results, str], float]
) -> Callable[[Results], float]:
    """Return Dalton's throughput over that of the best or the worst of others."""
    return lambda r: when(r, "dalton") / which(when(r, other) for other in others)


def _range(low: float, high: float, others: list[str], when: Any, place: str) -> tuple[Claim, ...]:
    """Return the two claims of `low` to `high` times the throughput of others."""
    return (
        Claim(
            f"Dalton is at least {low} times as fast as any existing approach",
            place,
            _against(others, max, when),
            published=low,
            counts="factor",
            above=1.0,
        ),
        Claim(
            f"Dalton is up to {high} times as fast as existing approaches",
            place,
            _against(others, min, when),
            published=high,
            counts="factor",
            above=1.0,
        ),
    )


def _drop(systems: tuple[str, ...]) -> Claim:
    return Claim(
        "all algorithms are slower while the stream is skewed: the share of them that is",
        _TEXT,
        lambda r: float(
            np.mean(
                [_while_skewed(r, s) < _while_uniform(r, s) for s in [*existing(systems), "dalton"]]
            )
        ),
        published=1.0,
        counts="at least",
    )


_LIKE_HASH = Claim(
    "Dalton has the throughput of hashing while the stream is uniform",
    "section 5.2, takeaway, read from the text",
    _against(["hash"], max, _while_uniform),
    published=1.0,
    counts="value",
)


def _curves(systems: tuple[str, ...], results: Results) -> Mapping[str, Points]:
    return {
        system: list(enumerate(series(results, "slide_throughput", system))) for system in systems
    }


def _plots(systems: tuple[str, ...]) -> tuple[Plot, ...]:
    return (Plot("slides", "records per second", partial(_curves, systems)),)


#: Seconds of one comparison of two records (correlation clustering).
_COMPARISON = 1e-7

FIGURES = (
    Figure(
        "dalton",
        "9a",
        "Throughput while the stream alternates between uniform and Zipf",
        _cells_9a,
        (
            _drop(SYSTEMS),
            *_range(1.3, 6.0, existing(SYSTEMS), _while_skewed, _TEXT),
            _LIKE_HASH,
        ),
        _plots(SYSTEMS),
        _DATA.format(what="uniform and Zipf 1.5 in turn"),
        why=(
            "How far Dalton is ahead of shuffling depends on the number of workers, which the "
            "paper does not give: fewer workers mean fewer partial results of a shuffled key."
        ),
        evidence=(
            Claim(
                f"with {_FEWER_WORKERS} workers, Dalton is behind shuffling while it is skewed",
                "further cells",
                lambda r: (
                    _while_skewed(r, "fewer workers: dalton")
                    / _while_skewed(r, "fewer workers: shuffle")
                ),
                below=1.0,
            ),
        ),
    ),
    Figure(
        "dalton",
        "9b",
        "Micro-batches: throughput while the stream alternates between uniform and Zipf",
        partial(
            _cells,
            "alternating",
            BATCH_SYSTEMS,
            _ALTERNATING,
            {"service": service(1)},
            batches=True,
        ),
        (
            _drop(BATCH_SYSTEMS),
            *_range(1.1, 1.8, existing(BATCH_SYSTEMS), _while_skewed, _TEXT),
        ),
        _plots(BATCH_SYSTEMS),
        _DATA.format(what="uniform and Zipf 1.5 in turn"),
        why=(
            "All partial results of a batch are merged. A uniform batch has nearly as many keys as "
            "records, so that the reducers limit every algorithm then, and most are faster while "
            "the stream is skewed. Prompt sees the whole batch, as in figure 8c."
        ),
        evidence=(
            Claim(
                "while the stream is uniform, the reducers make all alike: hashing against Prompt",
                "the same cells",
                lambda r: _while_uniform(r, "hash") / _while_uniform(r, "prompt"),
                published=1.0,
                counts="value",
            ),
            Claim(
                "Prompt's busiest worker has less than Dalton's: ratio of the largest loads",
                "the same cells",
                lambda r: (
                    (1 + mean(r, "imbalance", "prompt")) / (1 + mean(r, "imbalance", "dalton"))
                ),
                below=1.0,
            ),
        ),
    ),
    Figure(
        "dalton",
        "9c",
        "Correlation clustering while the stream alternates between uniform and Zipf",
        partial(
            _cells,
            "alternating",
            SYSTEMS,
            _ALTERNATING,
            {"service": _COMPARISON, "quadratic": True},
            n_slides=3,
            per_period=50,
        ),
        (
            _drop(SYSTEMS),
            *_range(1.1, 1.8, existing(SYSTEMS), _while_skewed, _TEXT),
        ),
        _plots(SYSTEMS),
        _DATA.format(what="uniform and Zipf 1.5 in turn (for Voters)"),
    ),
    Figure(
        "dalton",
        "9d",
        "Throughput while the exponent and the hot keys change at random",
        partial(
            _cells,
            "shifting-zipf",
            SYSTEMS,
            {"z_min": 0.5, "z_max": 1.5},
            {"service": service(60)},
        ),
        _range(1.1, 1.3, existing(SYSTEMS), _always, _TEXT),
        _plots(SYSTEMS),
        _DATA.format(what="Zipf with an exponent from 0.5 to 1.5 that changes"),
    ),
)
