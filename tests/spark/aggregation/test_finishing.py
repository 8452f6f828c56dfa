"""Workers finish keys that no source sent elsewhere: sources, workers and merge, without Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from keys.colliding_strings import colliding_strings
from skewless import aggregations as aggs
from skewless import registry
from skewless.keys import hash_keys
from skewless.spark.aggregation.combining import combined
from skewless.spark.aggregation.partials import Partials
from skewless.spark.aggregation.whole_keys import WholeKeys, can_tell_keys
from skewless.spark.routing import router
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import QueryLedger, Task
from skewless.strategies import Dalton

STRATEGIES = (
    "cascade",
    "cascade-ahead",
    "fish",
    "pd-stream",
    "dalton",
    "pstream",
    "w-choices",
    "pkg",
)
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
CHOSEN: dict[str, Any] = {"sum": aggs.sum("v"), "all": aggs.collect_set("v")}
PARTIALS = Partials(SCHEMA, ("k",), CHOSEN)


class Cluster:
    """Sources, workers and a merge; routes with what `Router` decides."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, strategy: Any, n_workers: int, speeds: Any = None
    ) -> None:
        self.patch, self.n_workers = monkeypatch, n_workers
        plans = PlanMaker(strategy, n_workers, seed=3, capacities=speeds)
        self.router = router.Router(plans, QueryLedger({"seed": 3}), tells_homes=True)
        self.whole = WholeKeys(PARTIALS, n_workers, strategy.name)
        self.n_marks = 0

    def sent(self, source: int, records: pa.Table) -> pa.Table:
        """Return the copies of a source's records with their numbers."""
        self.patch.setattr(router, "this_task", lambda: Task(source, None, None))
        hashes = hash_keys(records.column("k"))
        parts = [(pa.array(part.view(np.int64)),) for part in np.array_split(hashes, 3)]
        lists = pa.chunked_array(list(self.router.route(iter(parts)))).combine_chunks()
        copies = records.take(pc.list_parent_indices(lists))
        return copies.append_column("number", lists.flatten())

    def rows(self, sources: list[pa.Table]) -> list[pa.Table]:
        """Return what each worker hands to the merge."""
        sent = pa.concat_tables([self.sent(i, records) for i, records in enumerate(sources)])
        numbers = sent.column("number").to_numpy()
        self.n_marks = int((numbers < 0).sum())
        found = []
        for worker in range(self.n_workers):
            batches = sent.filter(pa.array(numbers % self.n_workers == worker)).to_batches(1_000)
            split: list[Any] = []
            table, _, _ = combined(self.whole.records(iter(batches), split), PARTIALS)
            found.append(self.whole.finished(table, split))
        return found

    def results(self, sources: list[pa.Table]) -> dict[Any, Any]:
        """Return the results, each key once."""
        rows = pa.concat_tables(self.rows(sources)).to_batches()
        table = pa.Table.from_batches(self.whole._merge(rows), PARTIALS.result_schema)
        return {row["k"]: (row["sum"], sorted(row["all"])) for row in table.to_pylist()}


def skewed(seed: int, n_records: int = 3_000, hot: str = "hot") -> pa.Table:
    """Return records with a hot key of this source, light keys and nulls."""
    rng = np.random.default_rng(seed)
    draws = rng.random(n_records)
    keys = [hot if r < 0.3 else None if r < 0.35 else f"k{int(600 * r)}" for r in draws]
    return pa.table({"k": keys, "v": rng.integers(0, 9, n_records)}, schema=SCHEMA)


def expected(sources: list[pa.Table]) -> dict[Any, Any]:
    found: dict[Any, tuple[int, set[int]]] = {}
    for row in pa.concat_tables(sources).to_pylist():
        total, values = found.get(row["k"], (0, set()))
        found[row["k"]] = (total + row["v"], values | {row["v"]})
    return {key: (total, sorted(values)) for key, (total, values) in found.items()}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_results_are_exact_with_any_sources_and_workers(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """A key is hot in one source alone, or in another cut of the records in none."""
    chosen: Any = registry.make(strategy)
    if strategy == "dalton":  # its windows are longer than these streams
        chosen = Dalton(stats_window=400, slide=100, n_slides=3)
    alike = [skewed(seed) for seed in range(3)]
    uneven = [skewed(4, hot="a"), skewed(5, hot="b"), skewed(6, 0), skewed(7, 1)]
    for n_workers, sources in [(6, alike), (6, uneven), (3, alike[:1]), (1, uneven)]:
        cluster = Cluster(monkeypatch, chosen, n_workers)
        assert cluster.results(sources) == expected(sources)
        assert (cluster.n_marks > 0) == (n_workers > 1)
    assert Cluster(monkeypatch, chosen, 4).results([skewed(1, 0)]) == {}


@pytest.mark.parametrize("strategy", ["cascade", "fish"])
def test_a_key_that_is_split_in_one_layout_is_whole_in_another(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    records = skewed(1)
    finished = []
    for n_sources in (1, 7):
        size = -(-records.num_rows // n_sources)
        sources = [records.slice(i * size, size) for i in range(n_sources)]
        cluster = Cluster(monkeypatch, registry.make(strategy), 6)
        rows = pa.concat_tables(cluster.rows(sources))
        finished.append(set(rows.filter(rows.column(-1)).column("k").to_pylist()))
        assert cluster.results(sources) == expected([records])
    assert finished[0] != finished[1]


def test_a_source_that_runs_again_sends_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, registry.make("cascade"), 5)
    assert cluster.sent(2, skewed(1)).equals(cluster.sent(2, skewed(1)))


def test_workers_of_other_speeds_and_workers_that_left_have_homes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = [skewed(1), skewed(2)]
    for strategy, speeds in (("cascade", (1.0, 0.0, 3.0, 1.0)), ("fish", (2.0, 1.0, 0.0, 1.0))):
        cluster = Cluster(monkeypatch, registry.make(strategy), 4, speeds)
        assert cluster.results(sources) == expected(sources)


def test_a_state_or_a_result_but_never_both(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, registry.make("cascade"), 6)
    rows = pa.concat_tables(cluster.rows([skewed(1), skewed(2)]))
    is_finished = rows.column(-1).to_numpy()
    assert 0.9 < is_finished.mean() < 1.0
    states = [name for name in PARTIALS.table_schema.names if name != "k"]
    for names, is_there in ((states, ~is_finished), (["sum", "all"], is_finished)):
        for name in names:
            assert (rows.column(name).is_valid().to_numpy() == is_there).all(), name


def test_keys_with_the_same_hash_are_all_taken_as_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is marked for all, and each may have records at home and elsewhere."""
    keys = colliding_strings(20)
    records = pa.table({"k": keys * 50, "v": np.arange(1_000)}, schema=SCHEMA)
    cluster = Cluster(monkeypatch, registry.make("cascade-ahead"), 4)
    rows = pa.concat_tables(cluster.rows([records]))
    assert cluster.n_marks == 1
    assert not rows.column(-1).to_numpy().any()
    assert cluster.results([records]) == expected([records])


def test_homes_that_differ_between_sources_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, registry.make("pkg"), 4)
    one = pa.table({"k": ["a", "b"], "v": [1, 2]}, schema=SCHEMA)

    def sent(source: int, records: pa.Table) -> pa.Table:
        numbers = pa.array([source, 3], pa.int32())  # "a" is at home, says each source
        return records.append_column("number", numbers)

    monkeypatch.setattr(cluster, "sent", sent)
    assert cluster.results([one]) == expected([one])
    with pytest.raises(RuntimeError, match=r"key a was finished .*'pkg'.*untrusted_keys=True"):
        cluster.results([one, one])


def test_keys_that_cannot_be_hashed_here_are_merged_as_before() -> None:
    times = Partials(pa.schema([("k", pa.time64("ns"))]), ("k",), {"n": aggs.count()})
    assert can_tell_keys(PARTIALS)
    assert not can_tell_keys(times)
