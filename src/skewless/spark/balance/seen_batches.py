"""One micro-batch as the live page shows it, and how it is read from a ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skewless import metrics
from skewless.plumbing.text_tables import printable
from skewless.spark.balance.balance import BatchBalance, read_hot_keys
from skewless.spark.columns import internal
from skewless.spark.key_texts import LONGEST_TEXT
from skewless.spark.ledger.entry_checks import corrupt
from skewless.spark.ledger.files import from_json
from skewless.spark.ledger.ledger import Entry

#: What a page shows of the balance of a batch, and of the batch itself.
_TOLD = (
    *("batch", "records", "imbalance", "seconds_imbalance", "cost_imbalance"),
    *("keys", "replication", "replication_exact", "keys_split"),
)
_OWN = ("seconds", "moves", "rescaled", "state_bytes", "state_keys", "hot_keys")


@dataclass(frozen=True)
class SeenBatch:
    """One micro-batch, as its files show it.

    `seconds` is the time from the plan to the last report; None if the files do not show it.
    `moves` counts the keys whose state came from another worker, and `state_bytes` and `state_keys`
    are what each worker holds: only `process` reports these three. `hot_keys` has the workers of
    each key.
    """

    balance: BatchBalance
    relative: tuple[float, ...]  # load per worker, 1 = fair share
    ended: float  # in seconds since 1970
    seconds: float | None
    moves: int | None
    rescaled: bool
    state_bytes: tuple[int, ...] | None
    state_keys: tuple[int, ...] | None
    hot_keys: tuple[dict[str, Any], ...]
    strategy: str = ""  # that made the plan, and its tolerance, where the plan says so
    tolerance: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything that a page shows, as plain data."""
        told = {name: getattr(self.balance, name) for name in _TOLD}
        loads = [worker.records for worker in self.balance.workers]
        own = {name: getattr(self, name) for name in _OWN}
        return {
            **told,
            "loads": loads,
            "relative_loads": list(self.relative),
            **{name: list(v) if isinstance(v, tuple) else v for name, v in own.items()},
        }


def relative_loads(balance: BatchBalance, speeds: tuple[float, ...] | None) -> tuple[float, ...]:
    """Return the load of each worker, 1 = its fair share; by costs where reports have them."""
    costs = [worker.cost for worker in balance.workers]
    records = [float(worker.records) for worker in balance.workers]
    loads = [cost if cost is not None else 0.0 for cost in costs] if any(costs) else records
    if not sum(loads):
        return tuple(0.0 for _ in loads)
    relative: list[float] = metrics.relative_loads(loads, speeds).tolist()
    return tuple(relative)


def users_key(key: str) -> str:
    """Return the columns of a key without the internal one by which joins spread keys.

    >>> users_key("item string, __skewless_part int")
    'item string'
    """
    return re.sub(rf", {internal('part')}(_[0-9a-f]{{8}})? int$", "", key)


def tolerance_of(identity: Mapping[str, Any]) -> float | None:
    """Return the imbalance that the strategy allows, if it has such a parameter."""
    return _allowed(_from_json(identity.get("parameters")))


def strategy_of(plan: Entry) -> tuple[str, float | None]:
    """Return the name of the strategy that made a plan of `process`, and its tolerance."""
    found = _from_json(plan.about.get("strategy"))
    if not isinstance(found, list) or len(found) != 2:
        return "", None
    return str(found[0]), _allowed(found[1])


def _allowed(parameters: Any) -> float | None:
    found = parameters.get("tolerance") if isinstance(parameters, dict) else None
    return float(found) if isinstance(found, int | float) else None


def _from_json(text: Any) -> Any:
    try:
        return from_json(text) if isinstance(text, str) else None
    except ValueError:
        return None


def shown_hot_keys(workers: Mapping[int, Entry], n_records: int) -> tuple[dict[str, Any], ...]:
    """Return the heaviest keys as plain data, each with its workers."""
    found = read_hot_keys(workers, n_records)
    return tuple(
        {
            "key": printable(key.key, LONGEST_TEXT),
            "records": key.records,
            "share": key.share,
            "unsure": key.unsure,
            "workers": [list(place) for place in places],
        }
        for key, places in found
    )


def _count(entry: Entry, name: str) -> int:
    number = entry.about.get(name)
    if type(number) is int and number >= 0:
        return number
    text = f"{name} must be a whole number from 0 on, not {str(number)[:40]}"
    raise corrupt(entry, ValueError(text))


def each_of(workers: Mapping[int, Entry], name: str) -> tuple[int, ...] | None:
    """Return a number of each worker, or None if some workers do not report it."""
    if not workers or not all(name in one.about for one in workers.values()):
        return None
    return tuple(_count(one, name) for one in workers.values())
