"""How the workers of a query have changed: their number and capacities, from the first batch on.

Some states depend on earlier workers, so each entry of the ledger lists all steps. When a state is
read, the steps that its entry does not have yet are applied to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from skewless.plumbing.arguments import MOST_WORKERS
from skewless.spark.ledger.entry_checks import usable
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt
from skewless.spark.ledger.names import WORKERS
from skewless.spark.routing.plan_turns import latest_plan
from skewless.state import require_that

#: The number of workers, and their capacities if they were given.
Step = tuple[int, tuple[float, ...] | None]
Steps = tuple[Step, ...]


class Wishes(NamedTuple):
    """What a run of a query asks for; the ledger says what its workers are."""

    asked: int | None  # the number that the user gave; None: that of the ledger
    most: int  # workers that the query has room for: its partitions
    speeds: tuple[float, ...] | None = None  # one for each of them; None: those of the ledger


_NAME = "worker_steps"
#: A source begins with all of them in turn, so their number is bounded.
MOST_STEPS = 1_000
#: The strategy that routes nothing: its ledger has no workers.
_WITHOUT_WORKERS = "local"


def steps_about(steps: Steps) -> dict[str, Any]:
    """Return the steps as an entry of the ledger keeps them."""
    return {_NAME: [[n, None if speeds is None else list(speeds)] for n, speeds in steps]}


def steps_of(entry: Entry, otherwise: Steps) -> Steps:
    """Return the steps of an entry, or `otherwise` if it says nothing; LedgerCorrupt if wrong."""
    if _NAME not in entry.about:
        return otherwise
    found = entry.about[_NAME]
    with usable(entry):
        require_that(isinstance(found, list), f"{_NAME} must be a list")
        require_that(1 <= len(found) <= MOST_STEPS, f"{_NAME} must be 1 to {MOST_STEPS} steps")
        return tuple(_step(step) for step in found)


def kept_speeds(steps: Steps, n_workers: int) -> tuple[float, ...] | None:
    """Return the last capacities for another number of workers; None: they are all alike.

    A worker that comes back has the capacity that it had; a new one has the mean of those there.

    >>> kept_speeds(((4, (1.0, 0.0, 3.0, 0.0)), (3, (1.0, 0.0, 3.0))), 5)
    (1.0, 0.0, 3.0, 0.0, 2.0)
    """
    last = steps[-1][1]
    if last is None:
        return None
    there = [speed for speed in last if speed > 0]
    kept = [sum(there) / len(there)] * n_workers
    for speeds in [speeds for _, speeds in steps if speeds is not None]:
        kept[: len(speeds)] = speeds[:n_workers]
    return tuple(kept) if any(kept) else None


def first_workers(ledger: Ledger) -> int | None:
    """Return the number of workers that the ledger was made for; of keyed state, the last number.

    None before the ledger was claimed, and for a query that routes nothing.
    """
    identity = ledger.identity()
    if identity is None:
        return None
    if "process" in identity:  # its number of workers changes
        newest = ledger.newest()
        return len(ledger.counted(WORKERS, newest[0]) if newest else ()) or 1
    n_workers = identity.get("workers")
    routes_nothing = n_workers is None and identity.get("strategy") == _WITHOUT_WORKERS
    if routes_nothing or (type(n_workers) is int and 1 <= n_workers <= MOST_WORKERS):
        return n_workers
    raise LedgerCorrupt(
        f"{ledger.place}/identity.json cannot be used: workers must be from 1 to {MOST_WORKERS}, "
        f"not {str(n_workers)[:40]}"
    )


def last_workers(ledger: Ledger) -> int | None:
    """Look up the last number of workers of the query; None before it has begun."""
    began = first_workers(ledger)
    last = latest_plan(ledger, before=1 << 62)
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
    are_numbers = all(type(speed) in (int, float) and 0 <= speed < math.inf for speed in speeds)
    require_that(are_numbers, f"{_NAME} must have capacities that are finite and at least 0")
    require_that(any(speeds), f"{_NAME} must have a capacity above 0")
    return n_workers, tuple(map(float, speeds))
