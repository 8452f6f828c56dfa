"""The plans of sources: one task makes a plan while the others wait for it, for a bounded time.

The first task of a batch that finds no plan claims it by a file. Later tasks wait for the plan
instead of reading all reports as well. If the first task dies, the others make the plan themselves
after a bounded wait. That is harmless: a report does not change once its batch is done, so all
tasks read the same reports and make the same plan. If a request of `scale_to` comes while two of
them make it, the plan that is published first counts. A claim is not a lock either: if a filesystem
cannot tell which was first, two tasks may hold one. `docs/exactly-once.md` names the limits.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import PLANS, SOURCES, plan_name, turn_name

#: The longest wait for a plan that another task has claimed.
PATIENCE_S = 10.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.25


def latest_plan(ledger: Ledger, before: int) -> tuple[int, Entry] | None:
    """Return the newest plan of a batch before `before`, with its batch, or None."""
    for batch in reversed(ledger.listed(PLANS)):
        plan = ledger.read(plan_name(batch)) if batch < before else None
        if plan is not None:
            return batch, plan
    return None


def made_or_awaited(
    ledger: Ledger,
    batch: int,
    make: Callable[[], Entry],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Entry:
    """Return the plan of `batch`: made here, or by another task that has claimed it."""
    name, claim, files = plan_name(batch), turn_name(batch, ledger.run), ledger.files
    last = [before for before in ledger.listed(PLANS) if before < batch][-1:]
    if not any(len(ledger.counted(SOURCES, before)) > 1 for before in last):
        return ledger.publish(name, make())  # there is little to read
    mine = uuid.uuid4().hex.encode()
    if files.create(claim, mine) != mine:
        # The clock of this task counts too: the folder's may be that of another machine.
        patience = PATIENCE_S - max(files.seconds_since_written(claim), 0.0)
        end, pause = clock() + patience, _FIRST_PAUSE_S
        while True:
            is_claimed = files.read(claim) is not None  # before the plan: it is published first
            plan = ledger.read(name)
            if plan is not None:
                return plan
            if not is_claimed or clock() >= end:  # it does not come, or its maker gave up
                return ledger.publish(name, make())
            sleep(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE_S)
    try:
        # It may have been published, and its claim withdrawn, since this task looked.
        plan = ledger.read(name)
        return ledger.publish(name, make()) if plan is None else plan
    finally:
        files.delete(claim)
