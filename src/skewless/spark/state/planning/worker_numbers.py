"""How many workers the next plan has, and the warning if it is not the number asked for.

Three things name a number: `workers=` of the query, a request of `scale_to`, and the plan before.
The query has no more partitions than its `max_workers`, so a larger number is cut. The log then has
a warning, and a request that was cut stays open for a later restart.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

_LOGGER = logging.getLogger("skewless")
#: The number before the first request: none has been followed yet.
NONE_TAKEN = -1


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

    Parameters
    ----------
    asked, most
        `workers=` of the query, if it was given, and how many workers it can have.
    request
        The last request of `scale_to`: its number, and the workers that it asks for.
    last_workers, last_about
        The workers of the plan before, and what else that plan says.

    >>> about = {"asked": 16, "request": -1}
    >>> decided(16, 32, (0, 24), 16, about)
    Decided(n_workers=24, taken=0, warning=None)
    >>> decided(16, 16, (0, 24), 16, about)[:2]
    (16, -1)
    """
    taken = NONE_TAKEN if request is None else request[0]
    is_open = request is not None and request[0] != last_about.get("request")
    if asked is not None and asked != last_about.get("asked"):
        if request is not None and is_open and request[1] != asked:
            return Decided(
                asked,
                taken,
                f"workers={asked} was given at the restart, so the request of scale_to for "
                f"{request[1]} workers, which the query had not followed yet, is dropped: call "
                "scale_to again if needed",
            )
        return Decided(asked, taken)
    wanted = request[1] if request is not None and is_open else last_workers
    if wanted <= most:
        return Decided(wanted, taken)
    warning = (
        f"the query continues with {most} workers instead of {wanted}, because it was started with "
        f"room for {most}: restart it with max_workers={wanted} or more"
    )
    if request is not None and request[1] == wanted:
        return Decided(most, NONE_TAKEN, f"{warning}; the request stays open until then")
    return Decided(most, taken, f"{warning} and workers={wanted}")


def warn(decision: Decided) -> None:
    """Log a warning if the number is not the one that was asked for."""
    if decision.warning is not None:
        _LOGGER.warning("process: %s", decision.warning)
