"""One task makes a plan while the others wait for it, for a bounded time.

The first task of a batch that finds no plan claims it by a file. Later tasks wait for the plan
instead of reading all reports as well. If the first task dies, the others make the plan themselves
after a bounded wait. That is harmless: a report does not change once its batch is done, so all
tasks read the same reports and make the same plan. `docs/exactly-once.md` names the limits of this.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from skewless.spark.ledger.ledger import Entry, Ledger

#: The longest wait for a plan that another task has claimed.
PATIENCE_S = 10.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.25


def made_or_awaited(
    ledger: Ledger,
    batch: int,
    make: Callable[[], Entry],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Entry:
    """Return the plan of `batch`: made here, or by another task that has claimed it."""
    if not ledger.is_worth_a_claim(batch):
        return ledger.publish_plan(batch, make())
    age = ledger.claim_plan(batch)
    if age is not None:
        # The clock of this task counts too: the folder's may be that of another machine.
        plan = _awaited(ledger, batch, PATIENCE_S - max(age, 0.0), sleep, clock)
        return ledger.publish_plan(batch, make()) if plan is None else plan
    try:
        # It may have been published, and its claim withdrawn, since this task looked.
        plan = ledger.read_plan(batch)
        return ledger.publish_plan(batch, make()) if plan is None else plan
    finally:
        ledger.withdraw_claim(batch)


def _awaited(
    ledger: Ledger,
    batch: int,
    patience: float,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Entry | None:
    """Return the plan as soon as it is there; None if it does not come, or its maker gave up."""
    end = clock() + patience
    pause = _FIRST_PAUSE_S
    while True:
        is_claimed = ledger.is_claimed(batch)  # before the plan: it is published first
        plan = ledger.read_plan(batch)
        if plan is not None or not is_claimed or clock() >= end:
            return plan
        sleep(pause)
        pause = min(2.0 * pause, _LONGEST_PAUSE_S)
