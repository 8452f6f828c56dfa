"""The table of keyed state that moves, and the simulator's part of it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark import keyed_state_mixed as keyed_state
from benchmarks.on_spark.keyed_state_mixed import SCENARIOS, Size
from benchmarks.records import Row

SIZE = Size(n_workers=4, n_keys=500, n_records=2_000, n_batches=9)


def made_up() -> list[Row]:
    """Return records of all scenarios: hash has twice the load on one worker, Mixed is even."""
    records = []
    for scenario in SCENARIOS:
        for batch in range(SIZE.n_batches):
            disturbed = batch == SIZE.event and scenario.name != "fluctuation"
            uneven = scenario.strategy == "hash" or disturbed
            loads = [200.0, 100.0, 100.0, 0.0] if uneven else [100.0] * 4
            records.append(
                keyed_state.record(
                    scenario,
                    batch,
                    SIZE.event,
                    loads=loads,
                    seconds=[load / 100 for load in loads],
                    wall=1 + max(loads) / 100,
                    moved=0.25 if batch == 4 else 0.0,
                    planned=0.01,
                )
            )
    return records


def test_the_table_has_ratios_and_recoveries() -> None:
    lines = keyed_state.table(made_up()).splitlines()
    assert lines[-1].startswith("Records in a micro-batch: ")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[:-2]]
    cells = {row[0]: row[1:] for row in rows}
    # Three of eight micro-batches of Mixed differ from hash only where nothing disturbs them.
    assert cells["fluctuation, mixed"] == [
        "0.000", "0.000", "0.010", "1.50 (work alone 2.00 of at most 2.00)", "1.00", "3.12 %", "",
    ]  # fmt: skip
    assert cells["fluctuation, hash"][1] == "1.000"
    assert cells["slow worker, mixed"][-1] == "1 micro-batch"
    assert cells["slow worker, hash"][-1] == "0 micro-batches"  # as uneven as before
    assert cells["new workers, mixed"][3] == ""


def test_the_simulator_moves_some_state_and_mends_what_changes() -> None:
    records = list(keyed_state.measure_simulated(SIZE))
    assert [record["batch"] for record in records] == list(range(SIZE.n_batches))
    assert 0 < max(record["moved"] for record in records) < 0.5
    changed = [r["imbalance"] for r in records[1:] if r["batch"] % keyed_state.CHANGES_EVERY == 0]
    others = [r["imbalance"] for r in records[1:] if r["batch"] % keyed_state.CHANGES_EVERY]
    assert np.mean(changed) > np.mean(others)
    assert "simulator, mixed" in keyed_state.table(records)


def test_load_shifts_between_the_given_workers() -> None:
    first = np.arange(SIZE.n_keys, dtype=np.int32) % SIZE.n_workers
    batches = list(keyed_state.stream(SIZE, 1.0, first).ranks(0, SIZE.n_records))
    shares = [
        np.bincount(first[keys - 1], minlength=SIZE.n_workers) / keys.size for keys in batches
    ]
    change = keyed_state.CHANGES_EVERY
    heaviest = int(np.mean(shares[:change], axis=0).argmax())
    # f = 1 halves it; the rest is chance among 2,000 records.
    assert np.mean(shares[change : 2 * change], axis=0)[heaviest] == pytest.approx(
        np.mean(shares[:change], axis=0)[heaviest] / 2, rel=0.2
    )
