"""The laws of an aggregator, tested on small records; the answer is a small counter-example.

Aggregators are tested as they are run: states and results go through Arrow columns of the declared
types, so a value that does not fit its type, or that several keys share, breaks a law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.aggregator import Aggregator, PerKey, is_reducer, reducing
from skewless.aggregations.python_values import class_name, to_arrow, to_python
from skewless.aggregations.random_records import random_records
from skewless.aggregations.vector_aggregator import PerColumn, VectorAggregator
from skewless.plumbing.broken_laws import require_kept

_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 8, 13, 30)
_MAX_PARTS = 5
_FLOAT32 = 1e-6  # what a state of type float loses on the trip through Arrow

#: State columns, with one row per key.
States = Sequence[Any]


@dataclass(frozen=True)
class Trial:
    """An aggregator and the parts of some records of one key, each of at least one record."""

    held: PerColumn
    nothing: pa.RecordBatch  # the columns, without a record
    parts: Sequence[pa.RecordBatch]
    tolerance: float

    def states(self, parts: Sequence[pa.RecordBatch], codes: Any, n_keys: int) -> States:
        """Return the states of keys; `codes` has the key of each record, in ascending order."""
        records = pa.concat_batches([self.nothing, *parts])
        # The records of a key stay in order, but keys take turns.
        order = np.lexsort((codes, np.arange(codes.size) - np.searchsorted(codes, codes)))
        columns = [records[name].take(pa.array(order)) for name in self.held.inputs]
        return self.held.update(columns, codes[order], n_keys)

    def state(self, *parts: pa.RecordBatch) -> States:
        """Return the state of one key with all these records."""
        return self.states(parts, np.zeros(sum(part.num_rows for part in parts), np.int64), 1)

    def merge(self, *states: States) -> States:
        """Return the state of one key that has all of these."""
        return self.held.merge(_rows(states), np.zeros(len(states), np.int64), 1)

    def expect(self, what: str, got: States, wanted: States) -> None:
        """Fail unless the states of each key finish alike."""
        found, expected = (to_python(self.held.finish(states)) for states in (got, wanted))
        for key, pair in enumerate(zip(found, expected, strict=True)):
            if not alike(*pair, self.tolerance):
                of_key = f" for key {key}" if len(found) > 1 else ""
                raise AssertionError(f"{what} gives {pair[0]!r} instead of {pair[1]!r}{of_key}")


def states_and_results_fit_their_types(trial: Trial) -> None:
    """Arrow can hold each state and each result as the declared type, without a change."""
    for parts in ((), *((part,) for part in trial.parts), trial.parts):
        trial.held.finish(trial.state(*parts))
    if isinstance(one := trial.held.aggregator, Aggregator):
        state = one.zero()
        for part in trial.parts:
            state = one.update(state, part)
        (back,) = to_python(to_arrow([state], trial.held.fields[0].type, one, "state"))
        result, again = one.finish(state), one.finish(back)
        (told,) = to_python(to_arrow([result], trial.held.result_type([]), one, "result"))
        for what, got in (("its state", again), ("it", told)):
            if not alike(got, result, trial.tolerance):
                raise AssertionError(f"{result!r} is {got!r} after {what} went through Arrow")


def zero_is_neutral(trial: Trial) -> None:
    """Merging with zero, on either side, changes nothing."""
    state, zero = trial.state(*trial.parts), trial.state()
    trial.expect("merge(zero, state)", trial.merge(zero, state), state)
    trial.expect("merge(state, zero)", trial.merge(state, zero), state)


def merge_is_commutative(trial: Trial) -> None:
    """The order of two states is invisible."""
    states = [trial.state(part) for part in trial.parts]
    for a, b in itertools.combinations(states, 2):
        trial.expect("merge(b, a)", trial.merge(b, a), trial.merge(a, b))


def merge_is_associative(trial: Trial) -> None:
    """How three states are bracketed is invisible."""
    states = [trial.state(part) for part in trial.parts]
    for a, b, c in zip(states, states[1:], states[2:], strict=False):
        left = trial.merge(trial.merge(a, b), c)
        trial.expect("merge(a, merge(b, c))", trial.merge(a, trial.merge(b, c)), left)


def cuts_are_invisible(trial: Trial) -> None:
    """The states of the parts, merged, make what the whole makes."""
    merged = trial.merge(trial.state(), *(trial.state(part) for part in trial.parts))
    trial.expect("merging the states of the parts", merged, trial.state(*trial.parts))


def order_of_records_is_invisible(trial: Trial) -> None:
    """Records may come in any order."""
    backwards = [part.take(pa.array(np.arange(part.num_rows)[::-1])) for part in trial.parts[::-1]]
    got, wanted = trial.state(*backwards), trial.state(*trial.parts)
    trial.expect("the records in reverse order", got, wanted)


def keys_do_not_mix(trial: Trial) -> None:
    """Many keys at once, one of them without records, have the results that each has alone."""
    n_keys = len(trial.parts) + 1
    codes = np.repeat(np.arange(n_keys - 1), [part.num_rows for part in trial.parts])
    many = trial.states(trial.parts, codes.astype(np.int64), n_keys)
    alone = [*(trial.state(part) for part in trial.parts), trial.state()]
    trial.expect("updating many keys at once", many, _rows(alone))
    if trial.held.merges:
        merged = trial.held.merge(_rows([many, many]), np.tile(np.arange(n_keys), 2), n_keys)
        pairs = _rows([trial.merge(state, state) for state in alone])
        trial.expect("merging the states of many keys at once", merged, pairs)


def _rows(states: Sequence[States]) -> States:
    """Return the rows of all these states."""
    return [pa.concat_arrays(columns) for columns in zip(*states, strict=True)]


LAWS: tuple[Callable[[Trial], None], ...] = (
    *(states_and_results_fit_their_types, zero_is_neutral, merge_is_commutative),
    *(merge_is_associative, cuts_are_invisible, order_of_records_is_invisible, keys_do_not_mix),
)
#: Without merging, all records come to one update: these laws are left.
_WITHOUT_MERGING = (LAWS[0], *LAWS[-2:])


def check_aggregator(
    aggregator: Aggregator[Any] | VectorAggregator | Any,
    records: pa.Table | pa.RecordBatch | None = None,
    *,
    types: Mapping[str, str | pa.DataType] | None = None,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> list[str]:
    """Test every law of `Aggregator`; return the names of the laws.

    For an aggregator with `merges = False`, the laws of merging are not tested.

    Raises `LawBroken` at the first law that is broken, with a counter-example of few records.

    Parameters
    ----------
    aggregator
        What to test; an object that `reducing` takes is tested as the aggregator that it makes.
    records
        Records to test it on, taken in small samples; without them they are made at random, nulls
        among them.
    types
        For records made at random, the type of each input as Spark's DDL text; double by default.
    tolerance
        Floats a and b count as equal when |a − b| ≤ tolerance · max(1, |a|, |b|): sums of floats
        depend on the order of the summands. With a state of type float it is at least 1e-6.
    seed
        Of the random records, samples and cuts.
    """
    if is_reducer(aggregator):
        aggregator = reducing(aggregator)
    # Both refuse an aggregator that is incomplete.
    is_vector = isinstance(aggregator, VectorAggregator)
    held: Any = PerColumn(aggregator) if is_vector else PerKey(aggregator)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    if records is None:
        records = random_records(aggregator.inputs, types or {}, rng)
    elif isinstance(records, pa.RecordBatch):
        records = pa.Table.from_batches([records])
    missing = [name for name in aggregator.inputs if name not in records.column_names]
    if missing:
        raise ValueError(f"records has no column {missing[0]!r}, which {aggregator!r} reads")
    # Without a column, a table has no length.
    table = records.select(list(aggregator.inputs) or records.column_names).combine_chunks()
    nothing = pa.RecordBatch.from_pylist([], schema=table.schema)
    batch = next(iter(table.to_batches()), nothing)
    if "float" in str(held.state_types([])):
        tolerance = max(tolerance, _FLOAT32)
    laws = LAWS if aggregator.merges else _WITHOUT_MERGING
    for size in _SIZES:
        trial = Trial(held, nothing, _sample(batch, size, rng), tolerance)
        for law in laws:
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
    shown = [part.to_pylist() for part in trial.parts]
    n_records = sum(part.num_rows for part in trial.parts)
    name = class_name(trial.held.aggregator)
    return name, f"{n_records} records in {len(shown)} parts: {shown}"


def _with_one_record_less(trial: Trial) -> Iterator[Trial]:
    parts = trial.parts
    for i, part in enumerate(parts):
        for row in range(part.num_rows):
            rest = [r for r in range(part.num_rows) if r != row]
            shorter = [part.take(pa.array(rest, pa.int64()))] if rest else []
            yield replace(trial, parts=[*parts[:i], *shorter, *parts[i + 1 :]])


def alike(a: Any, b: Any, tolerance: float) -> bool:
    """Return whether two results are equal, floats within the tolerance, NaN equal to NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(alike(x, y, tolerance) for x, y in pairs)
    if not (isinstance(a, float) and isinstance(b, float)):
        return bool(a == b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= tolerance * max(1.0, abs(a), abs(b)) < math.inf
