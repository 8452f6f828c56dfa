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
from skewless.spark.balance.balance import BatchBalance, batch_balance, read_hot_keys, read_reports
from skewless.spark.columns import internal
from skewless.spark.key_texts import LONGEST_TEXT
from skewless.spark.ledger import names
from skewless.spark.ledger.entry_checks import usable
from skewless.spark.ledger.files import from_json
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt
from skewless.spark.ledger.names import KINDS, PLANS, SOURCES, WORKERS
from skewless.spark.routing.worker_steps import first_workers, steps_of
from skewless.state import require_that

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
        strategy = str(identity.get("strategy", ""))
        tolerance = _tolerance_of(_from_json(identity.get("parameters")))
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
        files = self.ledger.files
        runs = [run for kind in KINDS for run in files.folders(names.batch_folder(kind, batch))]
        listed = (batch, [name for run in runs for name in files.files(run)])
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

    def _batches(self) -> list[int]:
        """Return the batches with a plan or a report, without those of an abandoned run."""
        batches = self.ledger.listed(PLANS, *KINDS)
        newest = self.ledger.newest()
        if newest is None:
            return batches
        last = newest[0]
        self._seen = {batch: seen for batch, seen in self._seen.items() if batch <= last}
        kinds, counted = (SOURCES, WORKERS), self.ledger.counted
        return [b for b in batches if b <= last or not any(counted(kind, b) for kind in kinds)]

    def _read(self, batch: int, n_workers: int, is_last: bool) -> SeenBatch | None:
        """Return a batch, or None while it runs and where it is gone."""
        ledger, keeps_state = self.ledger, "process" in (self._identity or {})
        found = read_reports(ledger, batch, n_workers, keeps_state=keeps_state)
        if found is None or not found.run:
            return None
        sources, workers, n_workers, run, plan = found
        plan_name = names.plan_name(batch) if plan is None else names.state_plan_name(batch, run)
        if plan is None and not is_last and plan_name not in ledger.files.files(PLANS):
            return None  # it is being purged: some reports may be gone
        balance = batch_balance(batch, n_workers, sources, workers)
        told = any(one.shown["keys"] is not None for one in self._seen.values())
        if is_last and balance.hot_keys is None and (told or ledger.files.folders(WORKERS)):
            return None  # workers will report; until then, sources may be missing as well
        speeds = next((steps_of(one, ((0, None),))[-1][1] for one in sources.values()), None)
        moved = _each_of(workers, "moved")
        files = (workers or sources).values()
        ended = self._written(one.where.removeprefix(f"{ledger.place}/") for one in files)
        chosen = None if plan is None else _from_json(plan.about.get("strategy"))
        strategy, parameters = chosen if isinstance(chosen, list) and len(chosen) == 2 else ("", {})
        shown = {
            **{name: getattr(balance, name) for name in _TOLD},
            "loads": [worker.records for worker in balance.workers],
            "relative_loads": _relative_loads(balance, speeds),
            # From the plan to the last report; None if the files do not show it.
            "seconds": self._seconds(plan_name, run, ended),
            # Keys whose state came from another worker, and what each worker holds: only `process`
            # reports these.
            "moves": None if moved is None else sum(moved),
            "rescaled": plan is not None and plan.about.get("whole") is True,
            "state_bytes": _each_of(workers, "bytes"),
            "state_keys": _each_of(workers, "held"),
            "hot_keys": [
                {
                    "key": printable(key.key, LONGEST_TEXT),
                    "records": key.records,
                    "share": key.share,
                    "unsure": key.unsure,
                    "workers": [list(place) for place in places],
                }
                for key, places in read_hot_keys(workers, balance.records)
            ],
        }
        return SeenBatch(shown, ended, str(strategy), _tolerance_of(parameters))

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
    files, place = root.files, root.place
    names = [name for name in files.folders("") if files.read(f"{name}/identity.json") is not None]
    if not names:
        raise ValueError(
            f"there is no ledger in {place}: give the folder that the query was given as ledger=. "
            "The first micro-batch creates it"
        )
    if len(names) > 1:
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise ValueError(f"{place} has the ledgers of {len(names)} queries ({some}): give one")
    return root.below(names[0])


def _relative_loads(balance: BatchBalance, speeds: tuple[float, ...] | None) -> list[float]:
    """Return the load of each worker, 1 = its fair share; by costs where reports have them."""
    costs = [worker.cost or 0.0 for worker in balance.workers]
    loads = costs if any(costs) else [float(worker.records) for worker in balance.workers]
    return metrics.relative_loads(loads, speeds).tolist() if sum(loads) else [0.0] * len(loads)


def _users_key(key: str) -> str:
    """Return the columns of a key without the internal one by which joins spread keys.

    >>> _users_key("item string, __skewless_part int")
    'item string'
    """
    return re.sub(rf", {internal('part')} int$", "", key)


def _tolerance_of(parameters: Any) -> float | None:
    """Return the imbalance that the strategy allows, if it has such a parameter."""
    found = parameters.get("tolerance") if isinstance(parameters, dict) else None
    return float(found) if isinstance(found, int | float) else None


def _from_json(text: Any) -> Any:
    try:
        return from_json(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _each_of(workers: Mapping[int, Entry], name: str) -> list[int] | None:
    """Return a number of each worker, or None if some workers do not report it."""
    if not workers or not all(name in one.about for one in workers.values()):
        return None
    for entry in workers.values():
        number = entry.about[name]
        text = f"{name} must be a whole number from 0 on, not {str(number)[:40]}"
        with usable(entry):
            require_that(type(number) is int and number >= 0, text)
    return [one.about[name] for one in workers.values()]
