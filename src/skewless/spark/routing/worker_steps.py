"""How the workers of a query have changed: their number and capacities, from the first batch on.

Some states depend on earlier workers, so each entry of the ledger lists all steps. When a state is
read, the steps that its entry does not have yet are applied to it.
"""

from __future__ import annotations

import math
from typing import Any

from skewless.plumbing.arguments import MOST_WORKERS
from skewless.spark.ledger.entry_checks import corrupt
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.state import Unsound, require_that

#: The number of workers, and their capacities if they were given.
Step = tuple[int, tuple[float, ...] | None]
Steps = tuple[Step, ...]

_NAME = "worker_steps"
_MOST_STEPS = 1_000


def steps_about(steps: Steps) -> dict[str, Any]:
    """Return the steps as an entry of the ledger keeps them."""
    return {_NAME: [[n, None if speeds is None else list(speeds)] for n, speeds in steps]}


def steps_of(entry: Entry, otherwise: Steps) -> Steps:
    """Return the steps of an entry, or `otherwise` if it says nothing; LedgerCorrupt if wrong."""
    if _NAME not in entry.about:
        return otherwise
    found = entry.about[_NAME]
    try:
        require_that(isinstance(found, list), f"{_NAME} must be a list")
        require_that(1 <= len(found) <= _MOST_STEPS, f"{_NAME} must be 1 to {_MOST_STEPS} steps")
        return tuple(_step(step) for step in found)
    except Unsound as error:
        raise corrupt(entry, error) from None


def last_workers(ledger: Ledger) -> int | None:
    """Look up the last number of workers of the query; None before it has begun."""
    began = ledger.workers()
    last = ledger.latest_plan(before=1 << 62)
    if began is None or last is None:
        return began
    return steps_of(last[1], ((began, None),))[-1][0]


def _step(step: Any) -> Step:
    text = f"{_NAME} must have a number of workers and their capacities in each row"
    require_that(isinstance(step, list) and len(step) == 2, text)
    n_workers, speeds = step
    require_that(type(n_workers) is int and 1 <= n_workers <= MOST_WORKERS, text)
    if speeds is None:
        return n_workers, None
    require_that(isinstance(speeds, list) and len(speeds) == n_workers, text)
    for speed in speeds:
        known = type(speed) in (int, float) and math.isfinite(speed) and speed >= 0
        require_that(known, f"{_NAME} must have capacities that are finite and at least 0")
    require_that(any(speeds), f"{_NAME} must have a capacity above 0")
    return n_workers, tuple(float(speed) for speed in speeds)
