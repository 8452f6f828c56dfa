"""The plan of one batch: where keys live, which version is read, what moves, and the watermark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless import parameters
from skewless.arrays import Keys, Workers
from skewless.plumbing.arguments import MOST_WORKERS
from skewless.spark.ledger.entry_checks import corrupt, restored_from, rows_of, usable
from skewless.spark.ledger.files import Entry
from skewless.spark.ledger.state_changes import changes, fingerprint, with_changes
from skewless.spark.state.planning.placing import Placing
from skewless.spark.state.planning.spread_keys import ARRAYS, SpreadKeys, spread_from
from skewless.spark.state.versions.bases import Base
from skewless.state import Unsound, require_that, require_within
from skewless.strategy import AnyStrategy

_PLACED = "placed."
_MOVING = {"hashes": np.uint64, "origins": np.int32, "targets": np.int32}
#: Fields of a plan that its entry keeps as they are: times, or none.
_TIMES = ("watermark", "watermark_before", "latest", "latest_second", "stamp")
_EARLIEST = -(1 << 63)


@dataclass(frozen=True, eq=False)
class Moving:
    """Hashes of keys that change their worker, ascending; with `whole`, any key may change it."""

    hashes: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    origins: Workers = field(default_factory=lambda: np.empty(0, np.int32))
    targets: Workers = field(default_factory=lambda: np.empty(0, np.int32))
    whole: bool = False  # the ring changed: all files are read


@dataclass(frozen=True, eq=False)
class StatePlan:
    """What all tasks of a batch use to route, to read states and to end them.

    `about` is what later plans need: the `schema` of the states, their `ttl` in microseconds and
    their `meaning`; the field of their `timers`, if any; `renewed`, whether schema, ttl or that
    field differ from the version that is read; `asked` and `request`, the numbers of workers that
    were asked for; and `most`, the largest number that the query can have.
    """

    placing: Placing
    base: Base | None = None  # the version that is read; None: there is no state yet
    moving: Moving = field(default_factory=Moving)  # compared with that version
    watermark: int | None = None  # in microseconds
    watermark_before: int | None = None
    latest: int | None = None  # time of a record before this batch, in microseconds
    latest_second: int | None = None  # the same for the second stream, if there is one
    about: dict[str, Any] = field(default_factory=dict)
    spread: SpreadKeys = field(default_factory=SpreadKeys)
    stamp: int | None = None  # when Spark planned the batch, in milliseconds, by its offset log
    checksum: str = ""  # of the file; workers put it into their reports
    is_alike: bool = True  # made by a strategy with the same ring, so that its table counts

    @property
    def n_workers(self) -> int:
        """The workers of this batch."""
        return self.placing.n_workers


def strategy_text(strategy: AnyStrategy) -> str:
    """Return a strategy with its parameters as text."""
    return json.dumps([strategy.name, parameters.as_dict(strategy)], sort_keys=True, default=str)


def to_entry(plan: StatePlan, seed: int) -> Entry:
    """Build the ledger's entry of a plan."""
    placing = plan.placing
    fresh = placing.strategy.start(placing.n_workers, seed)
    arrays = {_PLACED + name: a for name, a in changes(placing.state, fresh).items()}
    arrays |= {f"moving.{name}": getattr(plan.moving, name) for name in _MOVING}
    if plan.spread.hashes.size:
        arrays |= {f"spread.{name}": getattr(plan.spread, name) for name in ARRAYS}
    about = {
        "strategy": strategy_text(placing.strategy),
        "workers": placing.n_workers,
        "fresh": fingerprint(fresh),
        "base": None if plan.base is None else list(plan.base),
        "whole": plan.moving.whole,
        "more": plan.about,
    }
    return Entry(arrays, about | {name: getattr(plan, name) for name in _TIMES})


def from_entry(entry: Entry, strategy: AnyStrategy, seed: int) -> StatePlan:
    """Return the plan that an entry holds, or raise LedgerCorrupt.

    If the strategy starts with another state than the one that made the plan, the placing has
    learned nothing. Strategies with the same ring can replace each other: parameters may differ.
    """
    with usable(entry):
        about = entry.about
        n_workers: Any = about.get("workers")
        is_number = type(n_workers) is int and 1 <= n_workers <= MOST_WORKERS
        require_that(is_number, "workers must be a number")
        fresh = strategy.start(n_workers, seed)
        state, is_alike = fresh, about.get("fresh") == fingerprint(fresh)
        if is_alike:
            found = {
                name.removeprefix(_PLACED): array
                for name, array in entry.arrays.items()
                if name.startswith(_PLACED)
            }
            state = restored_from(entry, fresh, with_changes(fresh, found))
        base = about.get("base")
        return StatePlan(
            Placing(strategy, state, n_workers),
            None if base is None else Base.of(base),
            _moving(entry, n_workers, base),
            is_alike=is_alike,
            about=more_of(entry),
            spread=spread_from(entry),
            checksum=entry.checksum,
            **{name: _time(about.get(name)) for name in _TIMES},
        )


def _moving(entry: Entry, n_workers: int, base: Any) -> Moving:
    hashes, *ends = rows_of(entry, {f"moving.{name}": _MOVING[name] for name in _MOVING})
    require_that(base is not None or not hashes.size, "moves must have an origin")
    whole = entry.about.get("whole")
    require_that(isinstance(whole, bool), "whole must be true or false")
    for end in ends:
        require_within("moving.origins and moving.targets", end, 0, n_workers - 1)
    return Moving(hashes, ends[0], ends[1], bool(whole))


def _time(value: Any) -> int | None:
    good = value is None or (type(value) is int and _EARLIEST <= value < -_EARLIEST)
    require_that(good, "times must be microseconds, or none")
    return None if value is None else int(value)


def more_of(entry: Entry) -> dict[str, Any]:
    """Return the fields that a plan keeps for later plans, or raise LedgerCorrupt."""
    more: Any = entry.about.get("more")
    try:
        pairs = [*more.get("meaning", {}).items(), *json.loads(more.get("schema") or "[]")]
        are_texts = all(type(one) is type(other) is str for one, other in pairs)
    except (AttributeError, TypeError, ValueError):
        are_texts = False
    if not are_texts:
        raise corrupt(entry, Unsound("more must have texts as meaning and schema"))
    return dict(more)
