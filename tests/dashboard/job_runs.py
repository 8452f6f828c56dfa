"""What strategies did in the main job, made by hand: what the demo's page is given."""

from __future__ import annotations

import math
from typing import Any


def job_run(
    strategy: str, loads: list[int], differences: int = 0, replication: float | None = 1.0
) -> dict[str, Any]:
    batches = [
        {
            "batch": number,
            "records": 50_000,
            "seconds": 2.0 + 0.3 * math.sin(number) + max(loads) / sum(loads),
            "imbalance": len(loads) * max(loads) / sum(loads) - 1.0,
            "replication": replication,
        }
        for number in range(8)
    ]
    return {
        "strategy": strategy,
        "loads": loads,
        "rows": 12,
        "differences": differences,
        "records_per_second": 20_000.0 * sum(loads) / (len(loads) * max(loads)),
        "batch_seconds": 2.1,
        "imbalance": 0.1,
        "batch_imbalance": 0.12,
        "batch_replication": replication,
        "batches": batches,
    }


def three_runs() -> list[dict[str, Any]]:
    return [
        job_run("hash", [90, 20, 30, 60, 40, 45, 30, 25]),
        job_run("shuffle", [40, 41, 42, 43, 44, 43, 42, 41], replication=6.4),
        job_run("cascade-ahead", [42, 42, 43, 42, 42, 43, 42, 42], replication=1.004),
    ]
