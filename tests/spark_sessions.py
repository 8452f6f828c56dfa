"""Settings of small Spark sessions on this machine, and a processor that several suites use."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def local_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a quiet session whose files are in `folder`."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def totals() -> Any:
    """Return a processor as a user writes it; Spark gets its class with the query."""
    from skewless.spark import KeyProcessor

    class Totals(KeyProcessor):
        """How many records of a key there were; one row per key and micro-batch."""

        state_schema = "n bigint"
        result_schema = "key string, new bigint, n bigint"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            n = (state["n"] if state else 0) + len(records)
            return [{"new": len(records), "n": n}], {"n": n}

    return Totals()
