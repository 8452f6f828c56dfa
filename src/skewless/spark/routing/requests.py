"""How many workers there are: requests of `scale_to`, and what the next plan makes of them.

Three things name a number: `workers=` of the query, a request of `scale_to`, and the plan before.
The query has no more partitions than its `max_workers`, so a larger number is cut. The log then has
a warning, and a request that was cut stays open for a later restart.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from skewless.plumbing.arguments import MOST_WORKERS
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, read_statement, statement
from skewless.spark.ledger.names import REQUEST, REQUESTS, request_name

_LOGGER = logging.getLogger("skewless")
#: The number before the first request: none has been followed yet.
NONE_TAKEN = -1
#: How often the last request is read again if it is missing, and the pause between: listings may be
#: out of date.
_TRIES, _PAUSE_S = 5, 0.1


def ask(ledger: Ledger, n_workers: int) -> None:
    """Write a request for this many workers."""
    first = 1 + max(_numbers(ledger), default=-1)
    for number in itertools.count(first):  # another request may come at the same moment
        content = statement("scale", {"workers": n_workers, "number": number})
        if ledger.files.create(request_name(number), content) == content:
            return


def latest_request(ledger: Ledger) -> tuple[int, int] | None:
    """Return the number of the last request and the workers that it asks for, or None."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        numbers = _numbers(ledger)
        if not numbers:
            return None
        number = max(numbers)
        name = request_name(number)
        where = f"{ledger.place}/{name}"
        data = ledger.files.read(name)
        if data is not None:
            break
        # It was purged after it was listed: then there is a newer one.
    else:
        raise LedgerCorrupt(f"{where} is listed, but there is no such file to read")
    workers = read_statement(data, "scale", where, dict).get("workers")
    if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
        raise LedgerCorrupt(f"{where}: workers must be from 1 to {MOST_WORKERS}, not {workers!r}")
    return number, workers


def purge_requests(ledger: Ledger) -> None:
    """Delete all requests but the last one, which plans and later requests need."""
    for number in sorted(_numbers(ledger))[:-1]:
        ledger.files.delete(request_name(number))


def _numbers(ledger: Ledger) -> list[int]:
    matches = (REQUEST.fullmatch(name) for name in ledger.files.files(REQUESTS))
    return [int(match[1]) for match in matches if match]


class Decided(NamedTuple):
    """The number of workers, the last request that was followed, and a warning for the user."""

    n_workers: int
    taken: int
    warning: str | None = None


def decided(
    asked: int | None,
    most: int,
    request: tuple[int, int] | None,
    last_workers: int,
    last_about: dict[str, Any],
) -> Decided:
    """Return the workers of the next plan: as before, unless another number is asked for.

    `request` is the last one of `scale_to`: its number, and the workers that it asks for.

    >>> about = {"asked": 16, "request": -1}
    >>> decided(16, 32, (0, 24), 16, about)
    Decided(n_workers=24, taken=0, warning=None)
    >>> decided(16, 16, (0, 24), 16, about)[:2]
    (16, -1)
    """
    taken = NONE_TAKEN if request is None else request[0]
    is_open = request is not None and request[0] != last_about.get("request")
    wanted = request[1] if request is not None and is_open else last_workers
    if asked is not None and asked != last_about.get("asked"):
        warning = (
            f"workers={asked} was given at the restart, so the request of scale_to for {wanted} "
            "workers, which the query had not followed yet, is dropped: call scale_to again if "
            "needed"
        )
        return Decided(asked, taken, warning if is_open and wanted != asked else None)
    if wanted <= most:
        return Decided(wanted, taken)
    warning = (
        f"the query continues with {most} workers instead of {wanted}, because it was started with "
        f"room for {most}: restart it with max_workers={wanted} or more"
    )
    if request is not None and request[1] == wanted:
        return Decided(most, NONE_TAKEN, f"{warning}; the request stays open until then")
    return Decided(most, taken, f"{warning} and workers={wanted}")


def others_able(
    numbers: Decided, others: Sequence[int], most: int, speeds: Sequence[float]
) -> Decided:
    """Return the first of other numbers that leaves a worker with a capacity, with a warning.

    >>> others_able(Decided(2, 0), (4, 5), 4, (0.0, 0.0, 1.0, 1.0))[:2]
    (4, 0)
    """
    able = next(min(n, most) for n in others if any(speeds[: min(n, most)]))
    warning = (
        f"the query continues with {able} workers instead of {numbers.n_workers}, because the "
        f"capacities of the first {numbers.n_workers} are 0"
    )
    return Decided(able, numbers.taken, warning)


def warn(warning: str) -> None:
    """Log that the number is not the one that was asked for."""
    _LOGGER.warning("workers: %s", warning)
