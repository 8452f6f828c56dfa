"""The laws of an aggregator, tested on small records; the answer is a small counter-example."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.aggregator import Aggregator, PerKey, is_reducer, reducing
from skewless.aggregations.python_values import class_name, to_arrow, to_python
from skewless.aggregations.random_records import random_records
from skewless.aggregations.types import parse_type
from skewless.aggregations.vector_aggregator import PerColumn, VectorAggregator
from skewless.plumbing.broken_laws import require_kept

_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 8, 13, 30)
_MAX_PARTS = 5
_FLOAT32 = 1e-6  # what a state of type float may lose on the trip through Arrow


class _OneKeyAtATime(Aggregator[Any]):
    """A `VectorAggregator` used for one key at a time, so that the same laws can be tested."""

    def __init__(self, vector: VectorAggregator, types: Mapping[str, pa.DataType]) -> None:
        self.wrapped, self.held = vector, PerColumn(vector)
        self.inputs, self.result, self.merges = vector.inputs, vector.result, vector.merges
        self.state = pa.struct(self.held.fields)
        self.types = [types[name] for name in vector.inputs]

    def zero(self) -> Any:
        nothing = [pa.nulls(0, kind) for kind in self.types]
        return self._value(self.held.update(nothing, np.zeros(0, np.int64), 1))

    def update(self, state: Any, records: pa.RecordBatch) -> Any:
        columns = [records[name] for name in self.inputs]
        codes = np.zeros(records.num_rows, np.int64)
        more = self._value(self.held.update(columns, codes, 1))
        return self.merge(state, more) if self.merges else more

    def merge(self, a: Any, b: Any) -> Any:
        return self._value(self.held.merge(self._rows(a, b), np.zeros(2, np.int64), 1))

    def finish(self, state: Any) -> Any:
        return to_python(self.held.finish(self._rows(state)))[0]

    def _rows(self, *states: Any) -> Any:
        return to_arrow(states, self.state, self.wrapped, "state").flatten()

    def _value(self, states: Sequence[pa.Array]) -> Any:
        (value,) = to_python(pa.StructArray.from_arrays(states, fields=self.held.fields))
        return value


@dataclass(frozen=True)
class Trial:
    """An aggregator and the parts of some records of one key, each of at least one record."""

    aggregator: Aggregator[Any]
    parts: Sequence[pa.RecordBatch]
    tolerance: float

    def state(self, *records: pa.RecordBatch) -> Any:
        """Return the state after these batches, one after the other."""
        state = self.aggregator.zero()
        for batch in records:
            state = self.aggregator.update(state, batch)
        return state

    def merge(self, a: Any, b: Any) -> Any:
        """Return the merged state; `a` and `b` can be used again."""
        return self.aggregator.merge(copy.deepcopy(a), copy.deepcopy(b))

    def finish(self, state: Any) -> Any:
        """Return the result; `state` can be used again."""
        return self.aggregator.finish(copy.deepcopy(state))

    def expect(self, what: str, got: Any, expected: Any) -> None:
        """Fail unless both states finish alike."""
        result, wanted = self.finish(got), self.finish(expected)
        if not alike(result, wanted, self.tolerance):
            raise AssertionError(
                f"{what} gives {result!r} instead of {wanted!r} (states {got!r} and {expected!r})"
            )

    def whole(self) -> list[pa.RecordBatch]:
        """Return all records as one batch, or no batch if there are none."""
        return [pa.concat_batches(self.parts)] if self.parts else []


def states_fit_their_type(trial: Trial) -> None:
    """A state comes back from Arrow as it was, and can be used as before."""
    for state in (trial.state(), *(trial.state(part) for part in trial.parts)):
        before = copy.deepcopy(state)
        back = _back_from_arrow(trial, state, "state")
        trial.expect("a state that went through Arrow", back, before)
        if not trial.aggregator.merges:
            continue
        trial.expect(
            "merging states that went through Arrow",
            trial.merge(back, back),
            trial.merge(before, before),
        )
        for part in trial.parts:
            trial.aggregator.update(copy.deepcopy(back), part)


def results_fit_their_type(trial: Trial) -> None:
    """A result comes back from Arrow as it was."""
    _back_from_arrow(trial, trial.finish(trial.state(*trial.whole())), "result")


def _back_from_arrow(trial: Trial, value: Any, what: str) -> Any:
    """Return a state or a result after a trip through its declared type, unchanged."""
    before, kind = copy.deepcopy(value), parse_type(getattr(trial.aggregator, what))
    (back,) = to_python(to_arrow([value], kind, trial.aggregator, what))
    if not alike(back, before, max(trial.tolerance, _FLOAT32)):
        raise AssertionError(f"as {kind}, the {what} {before!r} comes back as {back!r}")
    return back


def zero_is_new_each_time(trial: Trial) -> None:
    """What happens to one zero is not seen in the next."""
    before = copy.deepcopy(trial.aggregator.zero())
    state = trial.state(*trial.whole())
    if trial.aggregator.merges:
        trial.aggregator.merge(trial.aggregator.zero(), state)
    after = trial.aggregator.zero()
    if not alike(after, before, 0.0):
        raise AssertionError(f"zero() gives {before!r} first and {after!r} later")


def finish_changes_nothing(trial: Trial) -> None:
    """A state can be finished more than once."""
    state = trial.state(*trial.whole())
    before = copy.deepcopy(state)
    trial.aggregator.finish(state)
    if not alike(state, before, 0.0):
        raise AssertionError(f"finish changes the state {before!r} to {state!r}")


def merge_leaves_its_second_state_alone(trial: Trial) -> None:
    """Only the first state may be changed by a merge, now or by what comes later."""
    if not trial.parts:
        return
    a, b = trial.state(trial.parts[0]), trial.state(trial.parts[-1])
    before = copy.deepcopy(b)
    merged = trial.aggregator.merge(a, b)
    if not alike(b, before, 0.0):
        raise AssertionError(f"merge changes its second state {before!r} to {b!r}")
    trial.aggregator.update(merged, trial.parts[0])
    if not alike(b, before, 0.0):
        raise AssertionError(
            f"the merged state shares values with the second one: a later update changes "
            f"{before!r} to {b!r}"
        )


def zero_is_neutral(trial: Trial) -> None:
    """Merging with zero, on either side, changes nothing."""
    state = trial.state(*trial.parts)
    zero = trial.aggregator.zero
    trial.expect("merge(zero, state)", trial.merge(zero(), state), state)
    trial.expect("merge(state, zero)", trial.merge(state, zero()), state)


def merge_is_commutative(trial: Trial) -> None:
    """The order of two states is invisible."""
    for a in trial.parts:
        for b in trial.parts:
            x, y = trial.state(a), trial.state(b)
            trial.expect("merge(b, a)", trial.merge(y, x), trial.merge(x, y))


def merge_is_associative(trial: Trial) -> None:
    """How three states are bracketed is invisible."""
    states = [trial.state(part) for part in trial.parts]
    for a, b, c in zip(states, states[1:], states[2:], strict=False):
        left = trial.merge(trial.merge(a, b), c)
        trial.expect("merge(a, merge(b, c))", trial.merge(a, trial.merge(b, c)), left)


def cuts_are_invisible(trial: Trial) -> None:
    """The parts make what the whole makes: updated one after the other, or apart and merged."""
    whole = trial.state(*trial.whole())
    trial.expect("updating part by part", trial.state(*trial.parts), whole)
    merged = trial.aggregator.zero()
    for part in trial.parts:
        merged = trial.merge(merged, trial.state(part))
    trial.expect("merging the states of the parts", merged, whole)


def order_of_records_is_invisible(trial: Trial) -> None:
    """Records and parts may come in any order."""
    whole = trial.state(*trial.whole())
    if trial.aggregator.merges:
        trial.expect("the parts in reverse order", trial.state(*trial.parts[::-1]), whole)
    for batch in trial.whole():
        backwards = batch.take(pa.array(np.arange(batch.num_rows)[::-1]))
        trial.expect("the records in reverse order", trial.state(backwards), whole)


def keys_do_not_mix(trial: Trial) -> None:
    """Many keys at once, one of them without records, have the results that each has alone."""
    one = trial.aggregator
    if not isinstance(one, _OneKeyAtATime):
        return
    held, n_keys = one.held, len(trial.parts) + 1
    numbers = np.repeat(np.arange(n_keys - 1), [part.num_rows for part in trial.parts])
    order = np.argsort(np.arange(numbers.size) * 7 % 5, kind="stable")  # keys take turns
    columns = [pa.nulls(0, kind) for kind in one.types]
    if trial.parts:
        mixed = pa.concat_batches(trial.parts).take(pa.array(order))
        columns = [mixed[name] for name in one.inputs]
    states = held.update(columns, numbers[order].astype(np.int64), n_keys)
    alone = [*(one.update(one.zero(), part) for part in trial.parts), one.zero()]
    _expect_each(trial, "updating many keys at once", held.finish(states), alone)
    if one.merges:
        twice = [pa.concat_arrays([state, state]) for state in states]
        merged = held.merge(twice, np.tile(np.arange(n_keys), 2), n_keys)
        pairs = [one.merge(state, state) for state in alone]
        _expect_each(trial, "merging the states of many keys at once", held.finish(merged), pairs)


def _expect_each(trial: Trial, what: str, results: Any, states: Sequence[Any]) -> None:
    for number, (got, state) in enumerate(zip(to_python(results), states, strict=True)):
        wanted = trial.finish(state)
        if not alike(got, wanted, trial.tolerance):
            raise AssertionError(f"{what} gives key {number} {got!r} instead of {wanted!r}")


LAWS: tuple[Callable[[Trial], None], ...] = (
    *(states_fit_their_type, results_fit_their_type, zero_is_new_each_time),
    *(finish_changes_nothing, merge_leaves_its_second_state_alone, zero_is_neutral),
    *(merge_is_commutative, merge_is_associative, cuts_are_invisible),
    order_of_records_is_invisible,
)
#: Without merging, all records come to one update: these laws are left.
_WITHOUT_MERGING = (*LAWS[:4], order_of_records_is_invisible)


def check_aggregator(
    aggregator: Aggregator[Any] | VectorAggregator,
    records: pa.Table | pa.RecordBatch | None = None,
    *,
    types: Mapping[str, str | pa.DataType] | None = None,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> list[str]:
    """Test every law of `Aggregator`; return the names of the laws.

    A `VectorAggregator` is tested one key at a time, and with many keys at once. For an aggregator
    with `merges = False`, the laws of merging are not tested. An object with zero, reduce, merge
    and finish is tested as the aggregator that `reducing` makes of it.

    Raises `LawBroken` at the first law that is broken, with a counter-example of few records.

    Parameters
    ----------
    aggregator
        What to test.
    records
        Records to test it on, taken in small samples; without them they are made at random, nulls
        among them.
    types
        For records made at random, the type of each input as Spark's DDL text; double by default.
    tolerance
        Floats a and b count as equal when |a − b| ≤ tolerance · max(1, |a|, |b|): sums of floats
        depend on the order of the summands.
    seed
        Of the random records, samples and cuts.
    """
    if is_reducer(aggregator):
        aggregator = reducing(aggregator)
    # Both refuse an aggregator that is incomplete.
    is_vector = isinstance(aggregator, VectorAggregator)
    PerColumn(aggregator) if is_vector else PerKey(aggregator)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    if records is None:
        records = random_records(aggregator.inputs, types or {}, rng)
    elif isinstance(records, pa.RecordBatch):
        records = pa.Table.from_batches([records])
    missing = [name for name in aggregator.inputs if name not in records.column_names]
    if missing:
        raise ValueError(f"records has no column {missing[0]!r}, which {aggregator!r} reads")
    # Without a column, a table has no length.
    batch = records.select(list(aggregator.inputs) or records.column_names).combine_chunks()
    batches = batch.to_batches()
    laws = LAWS if aggregator.merges else _WITHOUT_MERGING
    tested: Any = aggregator
    if isinstance(aggregator, VectorAggregator):
        kinds = {name: batch.schema.field(name).type for name in aggregator.inputs}
        tested, laws = _OneKeyAtATime(aggregator, kinds), (*laws, keys_do_not_mix)
    for size in _SIZES:
        parts = _sample(batches[0], size, rng) if batches else []
        for law in laws:
            trial = Trial(tested, parts, tolerance)
            require_kept(law, trial, _with_one_record_less, _told)
    return [law.__name__ for law in laws]


def _sample(batch: pa.RecordBatch, size: int, rng: np.random.Generator) -> list[pa.RecordBatch]:
    """Return some records at random, cut into parts at random."""
    size = min(size, batch.num_rows)
    rows = rng.choice(batch.num_rows, size, replace=False)
    inner = rng.choice(max(0, size - 1), min(_MAX_PARTS - 1, max(0, size - 1)), replace=False) + 1
    cuts = [0, *sorted(inner.tolist()), size]
    sampled = batch.take(pa.array(rows, pa.int64()))
    return [sampled.slice(a, b - a) for a, b in itertools.pairwise(cuts) if b > a]


def _told(trial: Trial) -> tuple[str, str]:
    """Return the name of the aggregator, and what it is tried on."""
    one = trial.aggregator
    shown = [part.to_pylist() for part in trial.parts]
    n_records = sum(part.num_rows for part in trial.parts)
    return (class_name(one), f"{n_records} records in {len(shown)} parts: {shown}")


def _with_one_record_less(trial: Trial) -> Iterator[Trial]:
    parts = trial.parts
    for i, part in enumerate(parts):
        for row in range(part.num_rows):
            rest = [r for r in range(part.num_rows) if r != row]
            shorter = [part.take(pa.array(rest, pa.int64()))] if rest else []
            yield replace(trial, parts=[*parts[:i], *shorter, *parts[i + 1 :]])


def alike(a: Any, b: Any, tolerance: float) -> bool:
    """Return whether two Python values are equal, floats within the tolerance, NaN equal to NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        same_length = len(a) == len(b)
        return same_length and all(alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and alike(a.tolist(), b.tolist(), tolerance)
    if isinstance(a, float | np.floating) or isinstance(b, float | np.floating):
        kinds = int | float | Decimal | np.number
        if not all(isinstance(x, kinds) and not isinstance(x, bool) for x in (a, b)):
            return False
        x, y = float(a), float(b)
        if math.isnan(x) or math.isnan(y):
            return math.isnan(x) and math.isnan(y)
        return x == y or abs(x - y) <= tolerance * max(1.0, abs(x), abs(y)) < math.inf
    return bool(a == b)
