"""`check_processor` accepts sound processors, and finds every kind of unsound one."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from skewless.aggregations import LawBroken
from skewless.spark import KeyProcessor, Processor, Update, check_processor
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.state.checking import Trial, _sent_columns, cuts_are_invisible
from skewless.spark.state.operators.deduplicate import Deduplicate
from skewless.spark.state.schemas import shape_of
from spark.state.counting import SCHEMA, of_keys
from spark.state.without_spark import Query

_RNG = np.random.default_rng(0)
RECORDS = pa.table(
    {"key": _RNG.choice(["a", "b", "c", "d"], 60), "v": _RNG.integers(0, 99, 60), "ts": [None] * 60}
)


class Running(KeyProcessor):
    state_schema = "n bigint"
    result_schema = "key string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        n = state["n"] if state else 0
        return [{"n": n + i + 1} for i in range(len(records))], {"n": n + len(records)}


class Sessions(KeyProcessor):
    """A session ends 20 seconds after its last record."""

    state_schema = "n bigint, expires timestamp"
    result_schema = "key string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        rows = []
        for record in records:
            if record["ts"] is None:
                continue
            if state and record["ts"] >= state["expires"]:
                rows.append({"n": state["n"]})
                state = None
            ends = record["ts"] + timedelta(seconds=20)
            last = state["expires"] if state else ends
            state = {"n": 1 + (state["n"] if state else 0), "expires": max(ends, last)}
        return rows, state

    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        return [{"n": state["n"]}], None


class Remembers(Running):
    def __init__(self) -> None:
        self.n_calls = 0

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        self.n_calls += 1
        return [{"n": self.n_calls}], {"n": self.n_calls}


class Gambles(Running):
    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [], {"n": random.getrandbits(60)}


class MixesKeys(Processor):
    state_schema = "n bigint"
    result_schema = "n bigint"

    def update(self, keyed: Any) -> Update:
        total = pa.array(np.full(len(keyed), len(keyed)), pa.int64())
        return Update(None, pa.StructArray.from_arrays([total], ["n"]))


class CountsBatches(Running):
    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [], {"n": 1 + (state["n"] if state else 0)}


class WrongType(Running):
    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [], {"n": "many"}


def in_order_of_time() -> pa.Table:
    rng = np.random.default_rng(1)
    micros = 1_700_000_000_000_000 + np.sort(rng.integers(0, 300, 60)) * 1_000_000
    kind = pa.timestamp("us", "UTC")
    return pa.table({"key": rng.choice(["a", "b"], 60), "ts": pa.array(micros, kind)})


def test_sound_processors_pass() -> None:
    assert len(check_processor(Running(), RECORDS)) == 3
    check_processor(Sessions(), in_order_of_time(), time="ts")
    check_processor(CountsPerBatch(), RECORDS, answers="batch")


def test_what_is_forgotten_by_the_watermark_may_be_forgotten_late() -> None:
    """One micro-batch has no watermark, and several have some: the last one is the same."""
    kind = pa.timestamp("us", "UTC")
    seconds = [0, 100, 200]
    times = pa.array([1_700_000_000_000_000 + second * 1_000_000 for second in seconds], kind)
    records = pa.table({"key": ["a"] * 3, "ts": times})
    deduplicate = Deduplicate(from_arrow_schema(records.schema), "ts", 5_000_000)
    check_processor(deduplicate, records, time="ts")
    trial = Trial(
        shape_of(deduplicate), _sent_columns(records, ["key"], "ts"), records, [1, 2], True, 0
    )
    cuts_are_invisible(trial)
    (*_, last, end), states = trial.run(records, [1, 2])
    assert (last, end) == ([], [])
    assert [len(row["state"]["times"]) for row in states] == [1]


class ForgetsByBatches(Sessions):
    """Counts how often it was called: that is not the same for other micro-batches."""

    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        return [], {"n": state["n"] + 1, "expires": at + timedelta(seconds=1)}


def test_expiry_that_depends_on_micro_batches_is_found() -> None:
    with pytest.raises(LawBroken):
        check_processor(ForgetsByBatches(), in_order_of_time(), time="ts")


class CountsPerBatch(Running):
    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        n = len(records) + (state["n"] if state else 0)
        return [{"n": n}], {"n": n}


@pytest.mark.parametrize(
    ("processor", "law"),
    [
        (Remembers(), "calls_are_repeatable"),
        (Gambles(), "calls_are_repeatable"),
        (MixesKeys(), "workers_and_moves_are_invisible"),
        (CountsBatches(), "cuts_are_invisible"),
        (CountsPerBatch(), "cuts_are_invisible"),
        (WrongType(), "calls_are_repeatable"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_unsound_processors_are_found_by_a_small_example(processor: Any, law: str) -> None:
    with pytest.raises(LawBroken, match=f"{type(processor).__name__} breaks {law}") as caught:
        check_processor(processor, RECORDS)
    assert caught.value.law == law
    assert int(str(caught.value).split("\non ")[1].split()[0]) <= 2


class Misspells(Running):
    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [{"m": 1}], {"n": 1}


class MisspellsState(Running):
    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [{"key": key["key"], "n": 1}], {"N": 1}


class LeavesOut(Running):
    result_schema = T.StructType(
        [T.StructField("key", T.StringType()), T.StructField("n", T.LongType(), nullable=False)]
    )

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return [{}], {"n": 1}


PAIR = "must return two things, a list of result rows and the new state"
#: Nothing, the state alone, a row alone, rows alone, one row instead of a list, no state, no rows.
NO_PAIRS: list[Any] = [
    None,
    {"n": 1},
    {"n": 1, "m": 2},
    [{"n": 1}],
    [{"n": 1}, {"n": 2}],
    ({"n": 1}, {"n": 1}),
    ([{"n": 1}], 5),
    (None, {"n": 1}),
    ("no", {"n": 1}),
    ([], {"n": 1}, 3),
]


class Returns(Running):
    def __init__(self, given: Any) -> None:
        self.given = given

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        return self.given


class Expires(Sessions):
    def __init__(self, given: Any) -> None:
        self.given = given

    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        return self.given


class Vectors(Processor):
    state_schema = "n bigint"
    result_schema = "n bigint"

    def __init__(self, results: Any, states: Any) -> None:
        self.results, self.states = results, states

    def update(self, keyed: Any) -> Update:
        return Update(self.results, self.states)


class ReturnsVectors(Vectors):
    def __init__(self, given: Any) -> None:
        self.given = given

    def update(self, keyed: Any) -> Any:
        return self.given


class ExpiresVectors(ReturnsVectors):
    state_schema = "expires timestamp"

    def update(self, keyed: Any) -> Any:
        ends = pa.array([0] * len(keyed), pa.timestamp("us", "UTC"))
        return Update(None, pa.StructArray.from_arrays([ends], ["expires"]))

    def on_expiry(self, keyed: Any) -> Any:
        return self.given


def structs(*names: str, n: int = 1) -> pa.StructArray:
    arrays = [pa.array([1] * n, pa.int64()) for _ in names]
    return pa.StructArray.from_arrays(arrays, list(names))


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (Misspells(), "a result row has an unknown field 'm'"),
        (MisspellsState(), "a state has an unknown field 'N'; did you mean 'n'"),
        (Returns(([{2: 1, "n": 1}], None)), "a result row has an unknown field 2, which is"),
        (Returns(([], {"m": 1, 2: 1})), "Returns: a state has an unknown field"),
        (LeavesOut(), "results have a null in 'n', which must not be null"),
        (Vectors(pa.table([[1], [2]], ["n", "n"]), structs("n")), "have the column 'n' twice"),
        (Vectors(None, structs("n", "n")), "Vectors: states have the column 'n' twice"),
        (Vectors(None, [1]), r"states must be a pyarrow StructArray, not \[1\]"),
        (Vectors(None, structs("n", n=2)), "states must be one for each of the 1 keys, not 2"),
        (Vectors(None, structs("m")), "states lack the column 'n'"),
        (Vectors(None, structs("n", "m")), "states have the column 'm'"),
        (Vectors([{}], structs("n")), "results must be a pyarrow Table"),
        (Vectors(pa.table({"n": ["x"]}), structs("n")), "results are not of the declared types"),
        *((Returns(given), f"Returns: update_key {PAIR}.* It returned") for given in NO_PAIRS),
        *((Expires(given), f"Expires: expire_key {PAIR}.* It returned") for given in NO_PAIRS),
        (Returns(([{"n": 1}, 5], {"n": 1})), r"Returns: update_key .* whose row 5 is no dict"),
        (ReturnsVectors(None), r"ReturnsVectors: update must return Update\(.*\), not None"),
        (ExpiresVectors((None, 1)), r"ExpiresVectors: on_expiry must return Update\(.*, 1\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_the_schemas_is_named(processor: Any, message: str) -> None:
    with pytest.raises(LawBroken, match=message):
        check_processor(processor, in_order_of_time(), time="ts")


@pytest.mark.parametrize("costs", ["much", [[1.0]], [1.0, 1.0], [-1.0], [None], [np.inf]])
def test_costs_that_are_not_one_number_per_key_are_named(tmp_path: Path, costs: Any) -> None:
    processor = ReturnsVectors(Update(None, structs("n"), costs))
    query = Query(tmp_path, processor, SCHEMA, workers=1, cost="seconds")
    with pytest.raises(ValueError, match="ReturnsVectors: costs must be one number of at least 0"):
        query.step(0, of_keys(["a"]))
