"""The task that runs this code, and the ledger and the seed that all tasks of its query share."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from itertools import count
from types import MappingProxyType
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from skewless.plumbing.arguments import LARGEST_SEED
from skewless.plumbing.garbage import spare_what_is_loaded
from skewless.spark.columns import internal
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerMismatch, ledger_of_stream
from skewless.spark.routing.planned.inputs import logical_plan
from skewless.spark.routing.seeds import draw_seed, seed_of_query
from skewless.spark.routing.worker_steps import first_workers
from skewless.state import layout
from skewless.strategy import AnyStrategy, Rescales

_SESSION_TAG = re.compile(r"spark-session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TASKS = count(1)
#: An operator with keyed state in a plan of Spark, by the first column that it reads.
_OPERATOR = re.compile(rf"MapInArrow (\w+)\({internal('hash')}#")
_OPERATORS, _THEN = "operators", ", then "


@dataclass(frozen=True)
class Task:
    """A task: its partition, and its micro-batch if the query is a stream."""

    partition: int
    batch: int | None
    query: str | None
    run: str | None = None  # changes with every restart
    attempt: int | None = None  # unique among all attempts of all tasks of this application


def this_task() -> Task:
    """Read the partition, micro-batch, query, run and attempt of the task that runs this.

    Every task of ours begins with it. After the first one of a process, all modules are loaded, and
    are spared.
    """
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs inside a Spark task only")
    if next(_TASKS) == 2:
        spare_what_is_loaded()
    partition, attempt = context.partitionId(), context.taskAttemptId()
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if batch is None:
        return Task(partition, None, query, attempt=attempt)
    return Task(partition, int(batch), query, _run_of(context), attempt)


def _run_of(context: TaskContext) -> str | None:
    """Return the name of this run of the query; no other run has it.

    Spark does not give tasks the id of the run. But each run has its own session, and Spark tags
    all jobs of the run with that session. The job group is the id of the run too, until the user's
    `foreachBatch` sets another group.
    """
    tags = (context.getLocalProperty("spark.job.tags") or "").split(",")
    sessions = [tag for tag in tags if _SESSION_TAG.fullmatch(tag)]
    return min(sessions) if sessions else context.getLocalProperty("spark.jobGroup.id")


@dataclass(frozen=True)
class QueryLedger:
    """Finds the ledger and the seed of the query that a task belongs to."""

    identity: Mapping[str, Any]  # what must not change while the ledger is used
    ledger: Ledger | None = None
    per_query: bool = False  # the ledger has a folder for each query
    keeps_seed: bool = True  # else the ledger or the id of the query gives the seed
    strategy: AnyStrategy | None = None  # if it can rescale, the number of workers may change
    built: str = ""  # drawn when the query is built, so it differs between drivers
    #: Of an operator with keyed state in a folder per query: those before it in the query, and it.
    operators: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        """The seed that was given or drawn."""
        return int(self.identity["seed"])

    def claimed(self, task: Task) -> Ledger | None:
        """Claim the ledger for the query of `task`; raise LedgerMismatch if it is another's."""
        if self.ledger is None or task.batch is None:
            return None
        ledger = self._of_operator(self.ledger, task, len(self.operators))
        identity = identity_for(self.identity, self.strategy, ledger)
        if not self.keeps_seed:  # every run proposes the same seed, whichever task is first
            identity["seed"] = seed_of_query(str(task.query))
        ledger.claim(identity, drawn=() if self.keeps_seed else ("seed",))
        ledger.bind(str(task.query))
        return ledger

    def _of_operator(self, ledger: Ledger, task: Task, place: int) -> Ledger:
        """Return the ledger of an operator; the first one has the folder of its query."""
        if not self.per_query:
            return ledger
        return ledger.below(f"{task.query}-operator-{place}" if place > 1 else str(task.query))

    def ledger_of(self, task: Task) -> Ledger | None:
        """Return the ledger of the query of `task`, claimed, as its run sees it."""
        ledger = self.claimed(task)
        return None if ledger is None else ledger.of_run(f"{self.built}-{task.run}")

    def after(self, before: DataFrame, operator: str) -> QueryLedger:
        """Return the ledger of an operator with keyed state on the stream `before`.

        Without a ledger of its own, it gets a folder by its place among the operators of the query.
        """
        if not self.per_query:
            return self
        operators = (*operators_in(before), operator)
        told = {_OPERATORS: _THEN.join(operators)} if len(operators) > 1 else {}
        return replace(self, identity={**self.identity, **told}, operators=operators)

    def require_order(self, task: Task) -> None:
        """Raise LedgerMismatch if the operator at the next place has followed other operators.

        Then one was removed or they were swapped, and states of one could be taken for another's.
        """
        if self.ledger is None or not self.operators:
            return
        following = self._of_operator(self.ledger, task, len(self.operators) + 1)
        began, own = _began(following, task.run), _THEN.join(self.operators)
        if began and not began.startswith(own + _THEN):
            raise LedgerMismatch(
                f"the query of the ledger in {following.place} began with the operators {began}, "
                f"and {own} would continue with the states of another: start the query as it was, "
                "or with another checkpoint"
            )

    def seed_of(self, task: Task, ledger: Ledger | None) -> int:
        """Return the seed that all tasks, attempts and runs of the query have."""
        kept = None if self.keeps_seed or ledger is None else kept_seed(ledger)
        if kept is not None:
            return kept
        is_own = self.keeps_seed or task.query is None
        return self.seed if is_own else seed_of_query(str(task.query))


@lru_cache(maxsize=64)
def _began(ledger: Ledger, run: str | None) -> str:
    """Return the operators up to that of a ledger, or nothing; read once in a run of the query."""
    return str((ledger.identity() or {}).get(_OPERATORS, ""))


def operators_in(df: DataFrame) -> list[str]:
    """Return the operators with keyed state that a stream has passed, the first one first."""
    return _OPERATOR.findall(logical_plan(df, "analyzed"))[::-1]


def as_operator(function: Callable[[Any], Iterator[Any]], name: str) -> Any:
    """Return a function of `mapInArrow` by which plans show an operator with keyed state."""

    def operator(batches: Iterator[Any]) -> Iterator[Any]:
        return function(batches)

    operator.__name__ = name
    return operator


def operator_name(processor: str, key: Sequence[str]) -> str:
    """Return the name of an operator with keyed state: the same for the same text of a query.

    >>> operator_name("Sessions", ["user id"])
    'Sessions_by_user_id'
    """
    return re.sub(r"\W+", "_", "_".join([processor, "by", *key]))


def query_ledger(
    df: DataFrame,
    identity: Mapping[str, Any],
    seed: int | None,
    given: Ledger | None,
    strategy: AnyStrategy | None = None,
) -> QueryLedger:
    """Return the ledger for these arguments of a verb, with a seed if none is given.

    Raises LedgerMismatch if the given ledger belongs to another query. A batch has no ledger.
    """
    whole = {**identity, "seed": draw_seed() if seed is None else seed}
    drawn = ("seed",) if seed is None else ()
    ledger, per_query = None, False
    if df.isStreaming:
        ledger, per_query = ledger_of_stream(given, df.sparkSession)
    if ledger is not None and not per_query:
        ledger.check(identity_for(whole, strategy, ledger), drawn=drawn)
        kept = kept_seed(ledger) if drawn else None
        whole["seed"] = whole["seed"] if kept is None else kept
    keeps = not (drawn and df.isStreaming)
    return QueryLedger(whole, ledger, per_query, keeps, strategy, secrets.token_hex(8))


def claim_of(
    df: DataFrame,
    given: Ledger | None,
    strategy: str,
    key: tuple[str, ...],
    state: Mapping[str, str] = MappingProxyType({}),
) -> QueryLedger | None:
    """Return the ledger of a stream that routes nothing; None for a batch or without a ledger.

    Raises LedgerMismatch if the given ledger began with another strategy, key or state.
    """
    if not df.isStreaming:
        return None
    told = {"strategy": strategy, "key": ", ".join(key), **state, "skewless": version("skewless")}
    if given is not None:
        given.check(told)
    ledger, per_query = ledger_of_stream(given, df.sparkSession)
    return None if ledger is None else QueryLedger(told, ledger, per_query)


def kept_seed(ledger: Ledger) -> int | None:
    """Return the seed that a ledger was claimed with, or None before it was claimed."""
    seed = (ledger.identity() or {}).get("seed")
    if seed is None or (type(seed) is int and 0 <= seed <= LARGEST_SEED):
        return seed
    where = f"{ledger.place}/identity.json"
    raise LedgerCorrupt(f"{where}: seed must be a whole number of at least 0, not {seed!r}")


def identity_for(
    identity: Mapping[str, Any], strategy: AnyStrategy | None, ledger: Ledger
) -> dict[str, Any]:
    """Return the identity with which to claim a ledger that may have begun with other workers.

    A strategy that can rescale continues with other workers, and the ledger keeps its first number.
    """
    if "workers" in identity and isinstance(strategy, Rescales):
        began = first_workers(ledger)
        if began is not None and began != identity["workers"]:
            return {**identity, "workers": began, **state_identity(strategy, began)}
    return dict(identity)


def state_identity(strategy: AnyStrategy, n_workers: int) -> dict[str, str]:
    """Return the version of the package, and the layout of the strategy's state.

    The layout must not change while a ledger is used. The version is only information for people.
    If the arrays of a strategy change their meaning but not their layout, its `state_version` must
    change.
    """
    shape = f"{layout(strategy.start(n_workers, 0))}-{getattr(strategy, 'state_version', 1)}"
    return {"state_layout": shape, "skewless": version("skewless")}
