"""Reports of records that differ in what they cost, and the plans made from them."""

from pathlib import Path

import numpy as np
import pytest

from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt
from skewless.spark.routing.bounded_counts import add, cost_units
from skewless.spark.routing.plans import PlanMaker
from skewless.state import MOST_COUNTED
from skewless.strategies import Mixed
from skewless.strategies.mixed import routing_table
from spark.ledger.entries import write_report

N_WORKERS = 4
KEYS = np.arange(400, dtype=np.uint64)


def owners_after(ledger: Ledger, weights, n_sources: int = 2):
    """Return where keys live in batch 1, after each source saw every key once in batch 0."""
    routing = PlanMaker(Mixed(), N_WORKERS, 3)
    for source in range(n_sources):
        state = routing.begin(ledger, 0, source)[1]
        out = np.full(KEYS.size, -1, np.int32)
        seen = routing.seen()
        loads = np.zeros(N_WORKERS, np.int64)
        spent = None
        routing.strategy.route(KEYS, state, out)
        loads += np.bincount(out, minlength=N_WORKERS)
        if weights is None:
            add(seen, KEYS)
        else:
            units = cost_units(weights)
            add(seen, KEYS, units)
            spent = np.bincount(out, units, N_WORKERS).astype(np.int64)
        write_report(ledger, 0, source, routing.report(state, loads, seen, {}, spent))
    return routing_table.owners(KEYS, routing.begin(ledger, 1, 0)[1])


def test_a_plan_evens_out_what_records_cost_and_not_how_many_they_are(ledger: Ledger) -> None:
    weights = np.where(KEYS % 10 == 0, 5.0, 0.01)
    owners = owners_after(ledger, weights, n_sources=20)  # with few records it might be chance
    spent = np.bincount(owners, weights, minlength=N_WORKERS)
    # The heaviest key is a tenth of a fair share, so the tolerance is met nearly exactly.
    assert spent.max() <= 1.08 * spent.mean() + 5.0
    assert spent.min() >= 0.92 * spent.mean() - 5.0


def test_equal_weights_make_the_plan_that_counts_make(tmp_path: Path) -> None:
    plain = owners_after(Ledger(str(tmp_path / "counts")), None)
    weighed = owners_after(Ledger(str(tmp_path / "weights")), np.full(KEYS.size, 1.0))
    np.testing.assert_array_equal(plain, weighed)


def test_units_keep_order_and_end_where_a_ledger_ends() -> None:
    weights = np.array([0.0, 1e-12, 1e-3, 1.0, 1e6, 1e300])
    units = cost_units(weights)
    assert (np.diff(units) >= 0).all()
    assert units[0] == 0 < units[1]
    routing = PlanMaker(Mixed(), N_WORKERS, 3)
    seen = routing.seen()
    for _ in range(3):
        add(seen, np.zeros(100_000, np.uint64), np.full(100_000, units[-1]))
    assert seen.counts.max() == MOST_COUNTED


@pytest.mark.parametrize("bad", [np.array([1, 2, 3]), np.array([1, -1, 0, 0])])
def test_costs_that_cannot_be_are_refused(ledger: Ledger, bad) -> None:
    routing = PlanMaker(Mixed(), N_WORKERS, 3)
    state = routing.begin(ledger, 0, 0)[1]
    told = routing.report(state, np.zeros(N_WORKERS, np.int64), routing.seen(), {}, bad)
    write_report(ledger, 0, 0, told)
    with pytest.raises(LedgerCorrupt, match="spent"):
        routing.begin(ledger, 1, 0)
