"""The history of a query, batch by batch, read from its ledger while it runs. Only reads.

Files that cannot change any more are read once. So a look every second costs a few listings of
folders, and the files of new batches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from skewless import metrics
from skewless.plumbing.text_tables import printable
from skewless.spark.balance.balance import (
    BatchBalance,
    batch_balance,
    plan_of,
    planned_workers,
    read_hot_keys,
    run_of,
)
from skewless.spark.columns import internal
from skewless.spark.key_texts import LONGEST_TEXT
from skewless.spark.ledger import names
from skewless.spark.ledger.entry_checks import corrupt
from skewless.spark.ledger.files import from_json
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt
from skewless.spark.ledger.names import KINDS, PLANS, SOURCES, WORKERS
from skewless.spark.routing.worker_steps import first_workers, steps_of

#: Batches that are remembered; a stream has no end.
REMEMBERED = 500
#: What the page shows of the balance of a batch.
_TOLD = (
    *("batch", "records", "imbalance", "seconds_imbalance", "cost_imbalance"),
    *("keys", "replication", "replication_exact", "keys_split"),
)


class SeenBatch(NamedTuple):
    """One micro-batch, as its files show it."""

    shown: dict[str, Any]  # by the live page, as plain data
    ended: float  # in seconds since 1970
    strategy: str  # that made the plan, and its tolerance, where the plan says so
    tolerance: float | None


class History:
    """The batches of a query as its ledger shows them, updated by each `look`.

    Parameters
    ----------
    ledger
        The ledger of one query. It need not exist yet, and nothing is written to it.

    Examples
    --------
    >>> history = History(Ledger("no such folder"))
    >>> history.look()
    False
    >>> history.as_dict()["batches"]
    []
    """

    def __init__(self, ledger: Ledger) -> None:
        """Look at nothing yet."""
        self.ledger = ledger
        #: What cannot be read, in one line; None if all can.
        self.problem: str | None = None
        self._identity: dict[str, Any] | None = None
        self._query = ""
        self._forget()

    def _forget(self) -> None:
        self._runs: dict[str, int] = {}
        self._seen: dict[int, SeenBatch] = {}
        self._settled: set[int] = set()
        self._last: tuple[int, list[str]] | None = None  # the last batch, and its files
        self._open: int | None = None  # a batch that is not complete

    def look(self) -> bool:
        """Read new files; return whether there is a ledger.

        A file that cannot be read is reported in `problem`, and the others are still read.
        """
        self.problem = None
        try:
            return self._look()
        except (ValueError, OSError) as error:
            self.problem = " ".join(str(error).split())
            return self._identity is not None

    def as_dict(self) -> dict[str, Any]:
        """Return the query, and its batches in order, as plain data."""
        identity = self._identity or {}
        seen = [self._seen[batch] for batch in sorted(self._seen)]
        strategy, tolerance = str(identity.get("strategy", "")), _tolerance_of(identity)
        if seen and not strategy:  # `process` may change it at a restart
            strategy, tolerance = seen[-1].strategy, seen[-1].tolerance
        return {
            "known": self._identity is not None,
            "query": printable(self._query),
            "place": self.ledger.place,
            "strategy": printable(strategy),
            "key": printable(_users_key(str(identity.get("key", "")))),
            "workers": len(seen[-1].shown["loads"]) if seen else identity.get("workers"),
            "tolerance": tolerance,
            "keeps_state": "process" in identity,
            "routes": not identity or "process" in identity or "workers" in identity,
            "running": self._open,
            "ended": max((one.ended for one in seen), default=None),
            "problem": self.problem,
            "batches": [one.shown for one in seen],
        }

    def _look(self) -> bool:
        identity = self.ledger.identity()
        if identity is None:
            if self._identity is not None:
                raise LedgerCorrupt(f"{self.ledger.place} has lost its identity.json")
            return False
        if identity != self._identity:  # another query has taken the folder
            self._forget()
        began = first_workers(self.ledger) if "process" not in identity else 1
        self._identity, self._query = identity, self.ledger.owner() or ""
        if began is None:  # nothing is routed
            return True
        runs = self.ledger.runs()
        if runs != self._runs:  # another run may do batches again
            self._runs, self._last = runs, None
            self._settled.clear()
        batches = self._batches()
        self._settled.intersection_update(batches)  # those that were purged do not come back
        problems = []
        for batch in batches[-REMEMBERED:]:
            if batch in self._settled:
                continue
            try:
                self._take(batch, began, batch == batches[-1])
            except (ValueError, OSError) as error:
                problems.append(error)
        for batch in sorted(self._seen)[:-REMEMBERED]:
            del self._seen[batch]
        if problems:
            raise problems[0]
        return True

    def _take(self, batch: int, n_workers: int, is_last: bool) -> None:
        """Read a batch, unless it is the last one and has no other files than before."""
        listed = (batch, self._listed(batch))
        if is_last and listed == self._last:
            return
        seen = self._read(batch, n_workers, is_last)
        if seen is not None:
            self._seen[batch] = seen
        elif is_last:  # an earlier run may have finished it
            self._seen.pop(batch, None)
        if is_last:
            self._last, self._open = listed, batch if seen is None else None
        else:
            self._settled.add(batch)

    def _listed(self, batch: int) -> list[str]:
        """Return the names of all reports of a batch."""
        files = self.ledger.files
        runs = [run for kind in KINDS for run in files.folders(names.batch_folder(kind, batch))]
        return [name for run in runs for name in files.files(run)]

    def _batches(self) -> list[int]:
        """Return the batches with a plan or a report, without those of an abandoned run."""
        batches = self.ledger.listed(PLANS, *KINDS)
        newest = self.ledger.newest()
        if newest is None:
            return batches
        for batch in [batch for batch in self._seen if batch > newest[0]]:
            del self._seen[batch]

        def is_reported(batch: int) -> bool:
            return any(self.ledger.counted(kind, batch) for kind in (SOURCES, WORKERS))

        return [one for one in batches if one <= newest[0] or not is_reported(one)]

    def _read(self, batch: int, n_workers: int, is_last: bool) -> SeenBatch | None:
        """Return a batch, or None while it runs and where it is gone."""
        ledger = self.ledger
        sources, workers = (dict(ledger.reports(kind, batch)) for kind in (SOURCES, WORKERS))
        if not sources and not workers:
            return None
        files = list(workers.values()) or list(sources.values())
        rescaled, strategy, tolerance = False, "", None
        run = run_of(self.ledger, files[0])
        if "process" in (self._identity or {}):
            plan_file_name = names.state_plan_name(batch, run)
            plan = plan_of(self.ledger, batch, files[0])
            if plan is None or len(workers) < planned_workers(plan):
                return None  # still running, or about to be purged
            n_workers, rescaled = len(workers), plan.about.get("whole") is True
            strategy, tolerance = _strategy_of(plan)
        else:
            plan_file_name = names.plan_name(batch)
            if not is_last and plan_file_name not in self.ledger.files.files("plans"):
                return None  # it is being purged: some reports may be gone
        balance = batch_balance(batch, n_workers, sources, workers)
        told = any(one.shown["keys"] is not None for one in self._seen.values())
        if is_last and balance.hot_keys is None and (told or ledger.files.folders("workers")):
            return None  # workers will report; until then, sources may be missing as well
        steps = (steps_of(one, ((n_workers, None),)) for one in sources.values())
        speeds = next((step[-1][1] for step in steps), None)
        moved = _each_of(workers, "moved")
        ended = self._written(one.where.removeprefix(f"{ledger.place}/") for one in files)
        shown = {
            **{name: getattr(balance, name) for name in _TOLD},
            "loads": [worker.records for worker in balance.workers],
            "relative_loads": _relative_loads(balance, speeds),
            # From the plan to the last report; None if the files do not show it.
            "seconds": self._seconds(plan_file_name, run, ended),
            # Keys whose state came from another worker, and what each worker holds: only `process`
            # reports these.
            "moves": None if moved is None else sum(moved),
            "rescaled": rescaled,
            "state_bytes": _each_of(workers, "bytes"),
            "state_keys": _each_of(workers, "held"),
            "hot_keys": _shown_hot_keys(workers, balance.records),
        }
        return SeenBatch(shown, ended, strategy, tolerance)

    def _written(self, names: Iterable[str]) -> float:
        """Find the time, in seconds since 1970, at which the last of these files was written."""
        return time.time() - min(map(self.ledger.files.seconds_since_written, names))

    def _seconds(self, plan: str, run: str, ended: float) -> float | None:
        """Return the time from the plan, or from the start of the run if later, to the end."""
        start = [f"runs/{self._runs[run]:08}.{run}.json"] if run in self._runs else []
        seconds = ended - self._written([plan, *start])
        return seconds if seconds > 0 else None  # copied files have the time of the copy


def find_history(folder: str) -> History:
    """Return the history of the query whose ledger is in `folder`, after the first look.

    Raises ValueError or OSError, with one line that says what is wrong, if there is no ledger, if
    there are several, or if a file is damaged.
    """
    history = History(Ledger(folder))
    if not history.look():
        if history.problem is not None:
            raise ValueError(history.problem)
        history = History(_only_query(history.ledger))
        history.look()
    if history.problem is not None:
        raise ValueError(history.problem)
    return history


def _only_query(root: Ledger) -> Ledger:
    """Return the one ledger below the folder of `spark.skewless.ledger`."""
    files = root.files
    names = [name for name in files.folders("") if files.read(f"{name}/identity.json") is not None]
    place = root.place
    if len(names) > 1:
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise ValueError(f"{place} has the ledgers of {len(names)} queries ({some}): give one")
    if not names:
        raise ValueError(
            f"there is no ledger in {place}: give the folder that the query was given as ledger=. "
            "The first micro-batch creates it"
        )
    return root.below(names[0])


def _relative_loads(balance: BatchBalance, speeds: tuple[float, ...] | None) -> list[float]:
    """Return the load of each worker, 1 = its fair share; by costs where reports have them."""
    costs = [worker.cost for worker in balance.workers]
    records = [float(worker.records) for worker in balance.workers]
    loads = [cost if cost is not None else 0.0 for cost in costs] if any(costs) else records
    if not sum(loads):
        return [0.0] * len(loads)
    relative: list[float] = metrics.relative_loads(loads, speeds).tolist()
    return relative


def _users_key(key: str) -> str:
    """Return the columns of a key without the internal one by which joins spread keys.

    >>> _users_key("item string, __skewless_part int")
    'item string'
    """
    return re.sub(rf", {internal('part')}(_[0-9a-f]{{8}})? int$", "", key)


def _tolerance_of(identity: Mapping[str, Any]) -> float | None:
    """Return the imbalance that the strategy allows, if it has such a parameter."""
    return _allowed(_from_json(identity.get("parameters")))


def _strategy_of(plan: Entry) -> tuple[str, float | None]:
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


def _shown_hot_keys(workers: Mapping[int, Entry], n_records: int) -> list[dict[str, Any]]:
    """Return the heaviest keys as plain data, each with its workers."""
    return [
        {
            "key": printable(key.key, LONGEST_TEXT),
            "records": key.records,
            "share": key.share,
            "unsure": key.unsure,
            "workers": [list(place) for place in places],
        }
        for key, places in read_hot_keys(workers, n_records)
    ]


def _each_of(workers: Mapping[int, Entry], name: str) -> list[int] | None:
    """Return a number of each worker, or None if some workers do not report it."""
    if not workers or not all(name in one.about for one in workers.values()):
        return None
    for entry in workers.values():
        number = entry.about[name]
        if type(number) is not int or number < 0:
            text = f"{name} must be a whole number from 0 on, not {str(number)[:40]}"
            raise corrupt(entry, ValueError(text))
    return [one.about[name] for one in workers.values()]
