"""Histories of queries as plain data, made by hand: what the live page is given."""

from __future__ import annotations

import math
from typing import Any

from skewless import make, simulate
from skewless.simulator import Measuring
from skewless.workloads import EvolvingZipf

AWKWARD = '<img src=x onerror="alert(1)">'


def batch(number: int, loads: list[int], **told: Any) -> dict[str, Any]:
    total = sum(loads)
    relative = [len(loads) * load / total if total else 0.0 for load in loads]
    return {
        "batch": number,
        "records": total,
        "loads": loads,
        "relative_loads": relative,
        "imbalance": max(relative) - 1.0 if total else 0.0,
        "seconds_imbalance": None,
        "cost_imbalance": None,
        "keys": None,
        "replication": None,
        "replication_exact": None,
        "keys_split": None,
        "seconds": None,
        "moves": None,
        "rescaled": False,
        "state_bytes": None,
        "state_keys": None,
        "hot_keys": [],
        **told,
    }


def history(batches: list[dict[str, Any]], **told: Any) -> dict[str, Any]:
    return {
        "known": True,
        "query": "7d0c9a52-1f6e-4f0b-9b0e-0e6f9c1f7a11",
        "place": "checkpoints/orders.ledger",
        "strategy": "cascade-ahead",
        "key": "customer",
        "workers": len(batches[-1]["loads"]) if batches else 4,
        "tolerance": 0.03,
        "keeps_state": False,
        "routes": True,
        "running": None,
        "ended": 90_000.0,
        "problem": None,
        "batches": batches,
        **told,
    }


def hot(key: str, records: int, of: int, workers: list[list[int]]) -> dict[str, Any]:
    return {"key": key, "records": records, "share": records / of, "unsure": 0, "workers": workers}


def splitting(n_batches: int = 24, n_workers: int = 16) -> dict[str, Any]:
    """Return a query that aggregates: it becomes balanced after a few batches."""
    found = []
    for number in range(n_batches):
        swing = 1.6 * math.exp(-number / 4) + (0.9 if number == 15 else 0.02)
        loads = [
            round(5_000 * max(0.1, 1 + swing * math.sin(1.7 * worker + number)))
            for worker in range(n_workers)
        ]
        total = sum(loads)
        keys = [
            hot("blue shoes", total // 7, total, [[3, 4_000], [9, 3_000], [1, 2_000]]),
            hot(AWKWARD, total // 11, total, [[2, 4_000], [5, 1_000]]),
            hot("кроссовки", total // 19, total, [[w, 99] for w in range(9)]),
            hot("a key with a rather long text of many words in it", total // 40, total, [[0, 7]]),
        ]
        found.append(
            batch(
                number,
                loads,
                seconds_imbalance=0.1 + 0.7 * swing,
                keys=20_000,
                replication=1.0 + 0.004 * math.exp(-number / 9),
                replication_exact=True,
                keys_split=80 - 2 * number,
                seconds=1.4 + 0.4 * math.sin(number) + swing,
                hot_keys=keys,
            )
        )
    return history(found)


def simulated(strategy: str, n_workers: int = 16, window: int = 10_000) -> dict[str, Any]:
    """Return a query whose micro-batches are the windows of a simulated stream that drifts.

    The loads and the replicas are real; times, which a simulation of loads has not, are missing.
    """
    stream = EvolvingZipf(z=1.4, n_keys=10_000, n_records=24 * window, period=8 * window)
    measuring = Measuring(keep_loads=True)
    run = simulate(
        make(strategy), stream, n_workers=n_workers, seed=1, window=window, measuring=measuring
    )
    windows = run.windows
    assert windows.loads is not None
    found = [
        batch(
            number,
            loads.astype(int).tolist(),
            keys=keys,
            replication=pairs / keys,
            replication_exact=run.exact,
        )
        for number, (loads, keys, pairs) in enumerate(
            zip(windows.loads, windows.keys.tolist(), windows.pairs.tolist(), strict=True)
        )
    ]
    return history(found, strategy=strategy, tolerance=0.05, query="simulated", key="word")


def keeping(n_batches: int = 24, n_workers: int = 6) -> dict[str, Any]:
    """Return a query of `process`: state grows, keys move, and two workers join."""
    found = []
    for number in range(n_batches):
        workers = n_workers + 2 * (number >= 14)
        swing = 0.5 * math.exp(-number / 5) + (0.4 if number == 14 else 0.05)
        loads = [
            round(3_000 * max(0.2, 1 + swing * math.cos(2.3 * worker + number / 2)))
            for worker in range(workers)
        ]
        held = [round(1_200 * (number + 2) * load / 3_000) for load in loads]
        total = sum(loads)
        found.append(
            batch(
                number,
                loads,
                seconds=0.9 + 0.2 * math.cos(number),
                keys=9_000,
                replication=1.0,
                replication_exact=True,
                keys_split=0,
                moves=0 if number == 0 else 2_400 if number == 14 else 3 + number % 5,
                rescaled=number == 14,
                state_bytes=[96 * n for n in held],
                state_keys=held,
                hot_keys=[hot("DAX", total // 9, total, [[4, total // 9]])],
            )
        )
    return history(found, keeps_state=True, strategy="mixed", tolerance=0.08, key="symbol string")
