"""Lists that grow are those of plain Python, whatever happens to a query and its keys."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.plumbing.broken_laws import LawBroken
from skewless.spark import Append, KeyProcessor, check_processor
from skewless.spark.state.versions import version_files
from spark.state.chains import SCHEMA, in_order, random_moves, records
from spark.state.growing.gathering import Ending, Gathering, gathered
from spark.state.operators.stepping import in_memory
from spark.state.test_generated_histories import OPTIONS, STEPS, Steps, history, rows, tables_of
from spark.state.without_spark import Query

MINUTE = 60_000_000
MERGED = st.sampled_from([0, 2_000, 1 << 26])


def held(query: Query) -> dict[Any, Any]:
    """Return the states of all keys as `gathered` has them."""
    found = {}
    for row in query.states().to_pylist():
        key, items = row.pop("k"), row["items"]
        assert all(item["text"] == f"text of {item['v']}" for item in items)
        found[key] = row | {"items": [item["v"] for item in items]}
    return found


def ran(
    steps: Steps, options: dict[str, int], merged: int, wanted: Any, processor: Any, **times: Any
) -> Iterator[Query]:
    """Yield a query after each micro-batch.

    Files are merged, or not, and rows that do not count are lifted out of them early.
    """
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_files, "_MERGED_BYTES", merged)
        patch.setattr(version_files, "_FEW_ROWS", 8)

        def query(nth: int, **given: Any) -> Query:
            return Query(Path(name), processor, SCHEMA, **given, **times)

        yield from history(Path(name), steps, tables_of(steps, options), wanted, options, query)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(steps=STEPS, options=OPTIONS, merged=MERGED)
def test_lists_are_those_of_a_dictionary(
    steps: Steps, options: dict[str, int], merged: int
) -> None:
    tables = tables_of(steps, options)
    wanted, _ = gathered(tables)
    for batch, running in enumerate(ran(steps, options, merged, wanted, Gathering())):
        assert held(running) == gathered(tables[: batch + 1])[1]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(steps=STEPS, options=OPTIONS, merged=MERGED)
def test_lists_with_ends_are_those_in_memory(
    steps: Steps, options: dict[str, int], merged: int
) -> None:
    times = {"time": "ts", "delay": MINUTE}
    wanted = in_memory(Ending(grows=False), tables_of(steps, options), **times)
    for _ in ran(steps, options, merged, wanted, Ending(), **times):
        pass


@pytest.mark.parametrize("merged", [0, 1 << 26])
@pytest.mark.parametrize("seed", range(4))
def test_lists_end_as_plain_ones_do(
    tmp_path: Path, seed: int, merged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `expires`, timers and a ttl, some of them kept, with moves and other workers."""
    monkeypatch.setattr(version_files, "_MERGED_BYTES", merged)
    monkeypatch.setattr(version_files, "_FEW_ROWS", 8)
    tables = [records(30 if batch % 5 else 0, 100 * seed + batch) for batch in range(25)]
    found: list[list[Any]] = []
    for grows in (True, False):
        folder, batches = tmp_path / str(grows), []
        for batch, table in enumerate(tables):
            if batch % 6 == 0:
                options = {"strategy": random_moves(seed), "workers": 1 + batch // 6, "most": 6}
                times = {"time": "ts", "delay": MINUTE}
                processor = Ending(grows=grows)
                running = Query(
                    folder, processor, SCHEMA, run=f"run-{batch}", kept=2, **options, **times
                )
            batches.append(rows(running.step(batch, table)))
        states = running.states().to_pylist()
        for state in states:  # a plain list is null until something is in it
            state |= {name: state[name] or [] for name in ("items", "odd", "at")}
        found.append([*batches, in_order(tuple(state.values()) for state in states)])
    assert found[0] == found[1]
    assert {row[1] for batch in found[0][:-1] for row in batch} >= {-1, -2}


def test_keys_with_the_same_hash_are_not_mixed_up(tmp_path: Path) -> None:
    def hashes(table: pa.Table) -> Any:
        lengths = [0 if key is None else len(key) for key in table.column("k").to_pylist()]
        return np.array(lengths, np.uint64) << np.uint64(61)

    tables = [records(40, seed) for seed in range(12)]
    running = Query(
        tmp_path, Gathering(), SCHEMA, hashes=hashes, strategy=random_moves(), workers=2
    )
    wanted, states = gathered(tables)
    assert [rows(running.step(batch, table)) for batch, table in enumerate(tables)] == wanted
    assert held(running) == states


class Runs(KeyProcessor):
    """Gathers values until one of them is a multiple of 7, which returns those before it."""

    state_schema = "held array<bigint>"
    result_schema = "k string, held array<bigint>"
    growing = ("held",)
    forgets = True

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        rows, new, keeps = [], [], None
        for record in records:
            if record["v"] % 7 == 0:
                before = [] if keeps == 0 or not state else state["held"]
                rows.append({"held": [*before, *new]})
                new, keeps = [], 0 if self.forgets else None
            new.append(record["v"])
        return rows, {"held": Append(new, keeps=keeps)}


def test_the_laws_of_processors_are_checked_with_growing_lists() -> None:
    sample = records(60, 3)
    assert len(check_processor(Runs(), sample, key="k")) == 3
    broken = Runs()
    broken.forgets = False  # of two runs in one micro-batch, the first one is lost
    with pytest.raises(LawBroken, match="cuts_are_invisible"):
        check_processor(broken, sample, key="k")
