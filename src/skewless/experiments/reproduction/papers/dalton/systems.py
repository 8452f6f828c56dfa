"""The systems that Dalton is compared with, as the cells of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skewless.experiments.reproduction.papers.dalton.pipeline import EMIT, SCORE, Merging, Pipeline
from skewless.parameters import MOST_PLACES

#: What the paper compares, for records one by one, and Cascade.
SYSTEMS = ("hash", "cam", "shuffle", "pkg", "cm", "dagreedy", "dalton", "cascade")
#: For micro-batches.
BATCH_SYSTEMS = ("hash", "cam", "shuffle", "pkg", "cm", "prompt", "dalton", "cascade-ahead")
#: What the paper calls existing approaches: neither Dalton nor ours.
_OURS = ("dalton", "cascade", "cascade-ahead")
#: Algorithms that give a key to one worker: no final aggregation.
_ONE_WORKER = ("hash", "cam")
#: Algorithms that split a few keys and hash the others: the others are forwarded.
_FORWARDING = ("dagreedy", "dalton", "cascade", "cascade-ahead")


def existing(systems: tuple[str, ...]) -> list[str]:
    """Return those that the paper compares Dalton with."""
    return [system for system in systems if system not in _OURS]


def merging_of(system: str, *, n_sources: int = 1) -> Merging:
    """Return which partial results are merged by key.

    With several partitioners without exchange, a key that one of them hashes may be split by
    another, so DAGreedy cannot forward (section 4.2). Dalton exchanges its table in every slide;
    Cascade's sources tell the first worker of a key when they use another one.
    """
    if system in _ONE_WORKER:
        return "none"
    if system == "dagreedy" and n_sources > 1:
        return "all"
    return "split" if system in _FORWARDING else "all"


def settings_of(
    system: str, *, slide: int, n_slides: int, n_records: int, batches: bool = False
) -> Mapping[str, Any]:
    """Return the parameters of a strategy for these windows.

    STATS_WIN is one slide (section 5). DAGreedy and CM count over the window. cAM gives a key one
    worker for good, because windows that slide have no beginning; or for as many records as it can.
    """
    window = slide * n_slides
    if system == "dalton":
        return {
            "slide": slide,
            "n_slides": n_slides,
            "stats_window": slide,
            "by_batch": batches,
        }
    if system == "dagreedy":
        return {"interval": window}
    if system == "cm":
        return {"window": window}
    if system == "cam":
        return {"window": min(n_records, MOST_PLACES)}
    return {}


def split_workers(parallelism: int) -> tuple[int, int]:
    """Return the combiners and reducers of a system that merges (section 5.1).

    >>> [split_workers(p) for p in (8, 64)]
    [(7, 1), (56, 8)]
    """
    reducers = max(1, parallelism // 8)
    return parallelism - reducers, reducers


def cell(
    system: str,
    workload: str,
    of: Mapping[str, Any],
    *,
    parallelism: int,
    slide: int,
    n_slides: int = 60,
    seed: int = 1,
    n_sources: int = 1,
    sync: int = 0,
    batches: bool = False,
    **times: Any,
) -> Pipeline:
    """Return the cell of a system on a stream, with this many workers for both stages."""
    merging = "all" if batches else merging_of(system, n_sources=n_sources)
    if system == "dalton" and n_sources > 1 and not 0 < sync <= slide:
        merging = "all"  # forwarding needs an exchange in every slide (section 4.2)
    n_workers, reducers = (parallelism, 1) if merging == "none" else split_workers(parallelism)
    # DAGreedy scores every combiner for each record (section 2).
    emit = EMIT + n_workers * SCORE if system == "dagreedy" else EMIT
    return Pipeline(
        strategy=system,
        workload=workload,
        settings=settings_of(
            system, slide=slide, n_slides=n_slides, n_records=int(of["n_records"]), batches=batches
        ),
        of=of,
        n_workers=n_workers,
        n_sources=n_sources,
        seed=seed,
        slide=slide,
        n_slides=n_slides,
        sync=sync,
        merging=merging,
        reducers=reducers,
        batches=batches,
        emit=emit,
        **times,
    )
