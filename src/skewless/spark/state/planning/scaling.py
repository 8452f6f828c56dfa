"""`scale_to`: asks a query of `route`, `aggregate` or `process` for another number of workers."""

from __future__ import annotations

from typing import Any

from skewless.plumbing.arguments import MOST_WORKERS, shown, whole
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.routing import requests
from skewless.spark.routing.plan_turns import latest_plan
from skewless.spark.routing.worker_steps import MOST_STEPS
from skewless.spark.state.planning.state_plan import more_of
from skewless.spark.state.versions import bases


def scale_to(ledger: str, n: int) -> None:
    """Ask a running query to use `n` workers from the next micro-batch on.

    It may be a query of `process`, or one of `route` or `aggregate` that sends records to workers.
    With `process`, only keys that must move do so: new workers take their share from the others,
    and the keys of workers that leave are spread over the rest. Returns at once. A query that does
    not run follows the request when it is restarted.

    Parameters
    ----------
    ledger
        The ledger of the query: what was given as `ledger=`, or the query's folder below
        `spark.skewless.ledger`.
    n
        The number of workers, at most the query's `max_workers`.

    Examples
    --------
    >>> scale_to(ledger, 3)
    """
    if isinstance(n, str):
        raise ValueError(f"n must be a whole number, not {shown(n)}")
    wanted = whole(n, "n", least=1, most=MOST_WORKERS)
    opened = Ledger(ledger)
    about = _last_plan(opened)
    most = about.get("most")
    if type(most) is int and wanted > most:
        raise ValueError(
            f"n must be at most {most}, which is max_workers of the query, not {wanted}: restart "
            f"the query with max_workers={wanted} or more"
        )
    steps = about.get("worker_steps")
    speeds = about.get("speeds")
    if speeds is None and isinstance(steps, list) and steps:  # those of the ledger are kept
        speeds = steps[-1][1]
    if isinstance(speeds, list) and not any(speeds[:wanted]):
        raise ValueError(f"n must leave a worker whose capacity is above 0, not {wanted}")
    if about.get("rescales") is False:
        raise ValueError(
            f"n: the strategy of the query in {opened.place} cannot change the number of workers"
        )
    if isinstance(steps, list) and len(steps) >= MOST_STEPS:
        raise ValueError(
            f"n: the workers of the query in {opened.place} have changed {MOST_STEPS:,} times, "
            "which is the most: restart it with another ledger and checkpoint"
        )
    requests.ask(opened, wanted)


def _last_plan(ledger: Ledger) -> dict[str, Any]:
    found = bases.newest(ledger)
    entry = None if found is None else ledger.read(state_plan_name(found.batch, found.run))
    if entry is not None:
        return more_of(entry)
    last = latest_plan(ledger, before=1 << 62)
    if last is None:
        raise ValueError(
            f"ledger: {ledger.place} holds no plan yet: scale_to needs a query that sends records "
            "to workers and has begun a micro-batch; give workers= instead"
        )
    return last[1].about
