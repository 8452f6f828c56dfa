"""What a worker does with the records of a batch: expires states, updates them, makes results."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import bitmap_of, plain
from skewless.arrays import Floats, Ints, Keys
from skewless.plumbing.arguments import shown
from skewless.spark.state.endings import ended, until
from skewless.spark.state.grouping import Grouped, SentColumns, grouped, only_records
from skewless.spark.state.outcomes import (
    Part,
    Worked,
    error_structs,
    error_type,
    failing,
    late_structs,
    late_type,
    rows_with_sides,
    some_keys,
)
from skewless.spark.state.planning.spread_keys import part_hashes
from skewless.spark.state.processor import KeyedRecords, Update, moment
from skewless.spark.state.row_step import rows_worked
from skewless.spark.state.schemas import Shape
from skewless.spark.state.versions import state_tables
from skewless.spark.state.versions.column_room import FEWER_RECORDS, ColumnTooLarge, is_too_large
from skewless.spark.state.versions.growing_lists import Appending, HeldLists
from skewless.spark.state.versions.held_state import Found, HeldState, n_rows, weight
from skewless.spark.state.versions.state_tables import (
    LIVE,
    NO_TIME,
    TIME,
    Flags,
    hashes_of,
    later,
    micros_of,
    values_of,
    with_column,
)
from skewless.state import MOST_WEIGHT

#: How the cost of a key is measured: its records, or the seconds that they took.
Cost = Literal["records", "seconds"]
#: How often in a row a state may end while the watermark does not change.
_MOST_EXPIRIES = 1_000
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Work:
    """How records become results and states; independent of where states are kept."""

    shape: Shape
    sent: SentColumns
    cost: Cost = "records"
    batch_column: str | None = None  # has the number of the micro-batch
    late_column: str | None = None  # has the late records
    errors_column: str | None = None  # has the errors of keys; None: an error ends the query
    lists: Appending | None = None  # in a micro-batch, if states have growing lists

    @cached_property
    def layout(self) -> state_tables.StateLayout:
        """What states look like in files."""
        shape = self.shape
        return state_tables.StateLayout(
            self.sent.key_schema,
            shape.state_arrow,
            shape.renamed,
            shape.span is not None,
            shape.growing,
        )

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The columns of `Worked.results`."""
        schema, error = self.shape.result_arrow, error_type(self.sent.key_schema)
        sides = [(self.late_column, late_type(self.sent)), (self.errors_column, error)]
        named = [pa.field(name, kind) for name, kind in sides if name is not None]
        if not named:
            return schema
        # The row of a late record, or of an error, has no results.
        return pa.schema([*(pa.field(one.name, one.type) for one in schema), *named])

    def rows(self, results: pa.Table, batch: int) -> list[pa.RecordBatch]:
        """Return results as Spark gets them, with the number of their micro-batch if asked for."""
        if self.batch_column is not None:
            numbers = pa.array(np.full(results.num_rows, batch, np.int64))
            results = results.append_column(self.batch_column, numbers)
        found: list[pa.RecordBatch] = results.combine_chunks().to_batches(_ROWS_AT_ONCE)
        return found

    def do(
        self,
        records: pa.Table,
        held: HeldState,
        before: int | None,
        now: int | None,
        *,
        batch: int = 0,
        expiries: int = _MOST_EXPIRIES,
    ) -> Worked:
        """Return the outcome for these records; `before` and `now` are watermarks.

        Expired states are processed first, because the records are all later. `expiries` is how
        often in a row a state may end. `batch` is another number in each micro-batch.
        """
        times, latest, second, late = None, None, None, records.slice(0, 0)
        if self.sent.time is not None:
            times = micros_of(records.column(self.sent.time))
        if times is not None and times.size:
            latest, second = self._latest(records, times)
            stays = (times > (NO_TIME if now is None else now)) | (times == NO_TIME)
            if not stays.all():
                late = records.filter(pa.array(~stays))
                records, times = records.filter(pa.array(stays)), times[stays]
        if self.shape.follows_clock:
            times = None if now is None else np.full(records.num_rows, now)
        due = held.ended(before, now)
        if self.layout.rows:
            worked = rows_worked(self, grouped(records, times, self.sent), held, due, now, batch)
        else:
            lists = Appending(self.layout, held.tables, batch)
            step = replace(self, lists=lists) if self.layout.growing else self
            expiry = ended(step, due, now, expiries)
            worked = step._joined(held, expiry, *step._updated(records, times, held, expiry, now))
            worked = replace(worked, changed=self.layout.with_items(worked.changed, lists.new))
        worked = replace(worked, latest=latest, latest_second=second, n_late=late.num_rows)
        sides = {}
        if self.late_column is not None:
            sides[self.late_column] = late_structs(late, self.sent)
        if self.errors_column is not None and worked.failed is not None:
            sides[self.errors_column] = worked.failed
        return replace(worked, results=rows_with_sides(worked.results, sides, self.result_schema))

    def _latest(self, records: pa.Table, times: Ints) -> tuple[int | None, int | None]:
        """Return the latest time of the records, and that of a second stream among them."""
        flags = self.are_second(only_records(records, self.sent))
        first, second = (int(t.max(initial=NO_TIME)) for t in (times[~flags], times[flags]))
        return (None if first == NO_TIME else first), (None if second == NO_TIME else second)

    def without_records(
        self, hashes: Keys, keys: list[Any], states: Any, now: int | None
    ) -> KeyedRecords:
        """Return keys with their states, for methods that get no records."""
        nothing = only_records(self.sent.schema.empty_table(), self.sent)
        starts = np.zeros(len(states) + 1, np.int64)
        return self.keyed(Grouped(hashes, keys, starts, nothing, None), states, now)

    def keyed(self, group: Grouped, states: Any, now: int | None) -> KeyedRecords:
        """Return records with the states of their keys, as `update` gets them."""
        lists: dict[str, HeldLists] = {}
        if self.lists is not None:
            states, lists = self.lists.given(states, group.hashes, group.keys)
        keys = pa.table(group.keys, schema=self.layout.key)
        return KeyedRecords(keys, group.records, group.starts, states, moment(now), lists=lists)

    def _updated(
        self, records: pa.Table, times: Ints | None, held: HeldState, expiry: Part, now: Any
    ) -> tuple[Part, Found]:
        """Return the outcome for the records after states have expired, and what was held."""
        group, ended = grouped(records, times, self.sent), expiry.changed
        found = held.find(group.hashes, group.keys)
        states, seen = found.states, found.seen
        heads = self.layout.heads
        rows = heads.find(ended, group.hashes, group.keys)
        if (rows >= 0).any():
            both = pa.concat_arrays([states, heads.states(ended)])
            own = np.arange(rows.size)
            states = both.take(pa.array(np.where(rows >= 0, rows + rows.size, own)))
            seen = np.where(rows >= 0, state_tables.values_of(ended, state_tables.SEEN)[rows], seen)
        keyed, update = self.keyed(group, states, now), self.shape.processor.update
        latest = np.maximum(seen, group.latest())
        try:
            return self.called(keyed, group.hashes, latest, update), found
        except (MemoryError, ColumnTooLarge):
            raise
        except Exception as error:
            if self.errors_column is None:
                raise
            failed = failing(keyed, lambda some: self.call(some, update), error)
            return self._without_failing(keyed, group.hashes, seen, latest, failed), found

    def _without_failing(
        self,
        keyed: KeyedRecords,
        hashes: Keys,
        seen: Ints,
        latest: Ints,
        failed: dict[int, Exception],
    ) -> Part:
        """Return the outcome if some keys fail: their states stay as they were."""
        bad = np.array(sorted(failed), np.int64)
        good = np.setdiff1d(np.arange(len(keyed)), bad)
        update = self.shape.processor.update
        part = self.called(some_keys(keyed, good), hashes[good], latest[good], update)
        rest = some_keys(keyed, bad)
        keys = [column.combine_chunks() for column in rest.keys.columns]
        ends, states = until(self.shape, rest.states, seen[bad]), self._stored(rest, rest.states)
        kept = self.layout.heads.table(hashes[bad], keys, states, ends, seen[bad])
        order = pa.array(np.argsort(np.concatenate([good, bad])))
        counts = np.diff(keyed.starts)
        work, costs = counts.copy(), counts * float(self.cost == "records")
        work[good], costs[good] = part.work, part.costs
        return replace(
            part,
            changed=pa.concat_tables([part.changed, kept]).combine_chunks().take(order),
            counts=counts,
            work=work,
            costs=costs,
            failed=error_structs(keyed.keys, failed),
        )

    def are_second(self, records: pa.Table) -> Flags:
        """Return which records are of the second stream."""
        name = self.shape.processor.second_stream
        if name is None:
            return np.zeros(records.num_rows, np.bool_)
        flags: Flags = plain(records.column(name)).fill_null(False).to_numpy(zero_copy_only=False)
        return flags

    def copies(self, rows: pa.Table, number: int, second: bool) -> pa.Table:
        """Return the first rows of a new part of keys, which are spread now.

        `rows` are those of the keys' parts 0. The new part gets what they hold of the second
        stream, or of the first one.
        """
        layout = self.layout
        mine = state_tables.values_of(rows, state_tables.LIST) == int(second)
        rows = rows.filter(pa.array((layout.keys(rows)[-1].to_numpy() == 0) & mine))
        parts = np.full(rows.num_rows, number, np.int32)
        rows = with_column(rows, state_tables.HASH, part_hashes(hashes_of(rows), parts))
        return layout.sorted(with_column(rows, layout.key_names[-1], parts))

    def called(
        self, keyed: KeyedRecords, hashes: Keys, seen: Ints, method: Callable[[Any], Update]
    ) -> Part:
        """Call the processor for some keys and build the outcome; without keys, do not call it."""
        layout, counts = self.layout.heads, np.diff(keyed.starts)
        if not len(keyed):
            none = self.shape.result_arrow.empty_table()
            return Part(none, layout.empty(), counts, counts, np.empty(0))
        results, states, update, seconds = self.call(keyed, method)
        ends = until(self.shape, states, seen)
        keys = [column.combine_chunks() for column in keyed.keys.columns]
        states = self._stored(keyed, states, update.keeps)
        changed = layout.table(hashes, keys, states, ends, seen)
        work = counts if update.work is None else np.maximum(counts, update.work)
        costs = self.costs(update, work, seconds)
        return Part(results, changed, counts, work, costs, seconds)

    def _stored(
        self, keyed: KeyedRecords, states: Any, keeps: Mapping[str, Ints] = MappingProxyType({})
    ) -> Any:
        """Return states as they are stored: of growing lists, the new items are rows instead."""
        return states if self.lists is None else self.lists.taken(states, keyed.lists, keeps)

    def call(
        self, keyed: KeyedRecords, method: Callable[[Any], Update]
    ) -> tuple[pa.Table, Any, Update, float]:
        """Call the processor for some keys; return results and states, all of it, and seconds."""
        begin = time.perf_counter()
        try:
            update = method(keyed)
            if not isinstance(update, Update):
                told = f"must return Update(results, states), not {shown(update)}"
                raise ValueError(f"{self.shape.name}: {method.__name__} {told}")
            results = self.shape.results_of(update)
            states = self.shape.states_of(update, keyed)
            update = update._replace(keeps=self.shape.keeps_of(update, keyed))
        except pa.ArrowException as error:
            if not is_too_large(error):
                raise
            raise ColumnTooLarge(
                f"{self.shape.name}: a column of results or states of a worker would hold more "
                f"than Arrow's 2 GiB: {FEWER_RECORDS}"
            ) from error
        return results, states, update, time.perf_counter() - begin

    def costs(self, update: Update, counts: Ints, seconds: float) -> Floats:
        """Return the cost of each key; seconds of the whole call are divided by what was done."""
        if self.cost == "records":
            return counts.astype(np.float64)
        if update.costs is not None:
            costs: Floats = np.empty(0)
            with contextlib.suppress(TypeError, ValueError):
                costs = np.asarray(update.costs, np.float64)
            fits = costs.shape == counts.shape and np.all(costs >= 0)
            if fits and costs.sum() <= MOST_WEIGHT:
                return costs
            raise ValueError(
                f"{self.shape.name}: costs must be one number of at least 0 "
                f"for each of the {counts.size} keys, and at most {MOST_WEIGHT:g} together"
            )
        shares = counts if counts.any() else np.ones(counts.size)
        parts: Floats = seconds * shares / shares.sum()
        return parts

    def renewed(self, table: pa.Table) -> pa.Table:
        """Return states that may have been written with another ttl, with the ends of this one."""
        if self.shape.span is not None:
            ends = later(state_tables.values_of(table, TIME), self.shape.span)
        else:
            states = self.layout.heads.states(table)
            ends = until(self.shape, states, state_tables.values_of(table, state_tables.SEEN))
        return with_column(table, state_tables.UNTIL, ends)

    def expired(self, states: pa.Table, now: int) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield results and the states that are left, until no state expires by `now`.

        States that `on_expiry` keeps may end by `now` as well. Raises RuntimeError if that does not
        stop.
        """
        nothing = self.sent.schema.empty_table()
        most = _MOST_EXPIRIES
        while (state_tables.values_of(states, state_tables.UNTIL) <= now).any():
            if most <= 0:
                raise RuntimeError(
                    f"{self.shape.name}: on_expiry was called {_MOST_EXPIRIES:,} times, and still "
                    "keeps states whose `expires` has passed, or on_timer those with a timer that "
                    "has: return a null state for them, or leave out the time"
                )
            held = HeldState(self.layout, arrived=states)
            worked = self.do(nothing, held, None, now, expiries=most)
            most -= max(worked.n_rounds, 1)
            states = self.layout.newest([states, worked.changed])
            states = self.layout.live(states).combine_chunks()
            yield worked.results, states

    def _joined(self, held: HeldState, expiry: Part, update: Part, found: Found) -> Worked:
        """Return both parts as one; a key that is in both counts by its update."""
        layout = self.layout.heads
        changed = layout.newest([expiry.changed, update.changed])
        hashes, keys = hashes_of(changed), layout.keys(changed)
        kinds = (np.int64, np.int64, np.float64)
        sums: list[Any] = [np.zeros(changed.num_rows, kind) for kind in kinds]
        for part in (expiry, update):
            own = [part.counts, part.work, part.costs]
            if part.changed is changed:
                sums = own
                break
            at = layout.find(changed, hashes_of(part.changed), layout.keys(part.changed))
            for total, numbers in zip(sums, own, strict=True):
                total[at] += numbers
        # Without expiry, the rows are those that the update has looked up.
        before = held.find(hashes, keys) if expiry.changed.num_rows else found
        sizes = weight(layout, changed)
        counts, work, costs = sums
        return Worked(
            pa.concat_tables([expiry.results, update.results]),
            # Only keys that had a state before or have one now leave a trace.
            changed.filter(pa.array(bitmap_of(before.states) | values_of(changed, LIVE))),
            counts,
            work,
            costs,
            expiry.seconds + update.seconds,
            expiry.n_rounds,
            update.failed,
            n_held=n_rows(layout, layout.states(changed)) - n_rows(layout, before.states),
            n_bytes=int(sizes.sum()) - int(before.bytes.sum()),
            hashes=hashes,
            keys=keys,
            sizes=sizes,
        )
