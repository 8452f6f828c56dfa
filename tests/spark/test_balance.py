"""The balance of micro-batches: counted from the ledger, told in five ways."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import aggregations as aggs
from skewless import metrics
from skewless.spark.aggregation import combining
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.aggregation.combining import RECORDS, _report
from skewless.spark.aggregation.partials import Partials
from skewless.spark.balance.balance import batch_balance
from skewless.spark.balance.explaining import Balance, explain_balance
from skewless.spark.balance.listener import BalanceListener
from skewless.spark.balance.prometheus import Gauge, exposition
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt
from skewless.spark.routing.route import route

N_WORKERS = 4
IDENTITY = {"strategy": "pkg", "parameters": "{}", "workers": 3, "seed": 0, "key": "k"}


# Made of what tasks report


def source(*loads: int) -> Entry:
    return Entry({"loads": np.array(loads, np.int64)}, {"records": sum(loads), "seconds": 0.1})


def worker(keys: list[str | None], seconds: float = 1.0) -> Entry:
    """Return what a worker that got these records really reports."""
    return report_of(pa.array(keys, pa.string()), seconds)


def report_of(keys: Any, seconds: float = 1.0) -> Entry:
    schema = pa.schema([pa.field("k", keys.type)])
    partials = Partials(schema, ("k",), {RECORDS: aggs.count()})
    table = partials.update(pa.table({"k": keys}))
    return _report(partials, table, len(keys), seconds)


@given(
    st.lists(st.tuples(st.sampled_from([*"abcdefghijkl", None]), st.integers(0, 2)), max_size=60)
)
def test_the_balance_is_what_counting_by_hand_gives(
    records: list[tuple[str | None, int]],
) -> None:
    by_worker = [[key for key, at in records if at == number] for number in range(3)]
    loads = [len(keys) for keys in by_worker]
    entries = {number: worker(keys, number + 1.0) for number, keys in enumerate(by_worker)}
    balance = batch_balance(7, 3, {0: source(*loads)}, entries)

    places = {key: {at for k, at in records if k == key} for key, _ in records}
    n_pairs = sum(len(at) for at in places.values())
    assert (balance.batch, balance.records) == (7, len(records))
    assert [row.records for row in balance.workers] == loads
    assert [row.seconds for row in balance.workers] == [1.0, 2.0, 3.0]
    assert [row.pairs for row in balance.workers] == [len(set(keys)) for keys in by_worker]
    assert balance.imbalance == metrics.imbalance(loads)
    assert balance.seconds_imbalance == metrics.imbalance([1, 2, 3])
    assert balance.keys == len(places)
    assert balance.replication == (n_pairs / len(places) if places else 1.0)
    assert balance.keys_split == sum(len(at) > 1 for at in places.values())
    assert balance.replication_exact is True

    # A worker tells its five heaviest: a key counts where it is one of them.
    told: Counter[str] = Counter()
    for entry in entries.values():
        told.update({text: count for text, count, _ in entry.about["top"]})
    heaviest = balance.hot_keys or ()
    assert [key.records for key in heaviest] == sorted(told.values(), reverse=True)[:10]
    counts = Counter("null" if key is None else key for key, _ in records)
    for hot in heaviest:
        assert hot.records == told[hot.key] <= counts[hot.key]
        assert hot.share == hot.records / len(records)
        assert hot.workers is not None
        assert 1 <= hot.workers <= len(places[None if hot.key == "null" else hot.key])


def test_without_reports_of_workers_the_loads_of_the_sources_tell_what_they_can() -> None:
    balance = batch_balance(0, 3, {0: source(1, 2, 0), 5: source(5, 0, 1)}, {})
    assert [(row.records, row.seconds, row.pairs) for row in balance.workers] == [
        (6, None, None),
        (2, None, None),
        (1, None, None),
    ]
    assert (balance.records, balance.imbalance) == (9, 1.0)
    assert balance.seconds_imbalance is balance.replication is balance.keys is None
    assert balance.keys_split is balance.replication_exact is balance.hot_keys is None


def test_a_batch_whose_workers_still_run_is_not_told_by_those_that_are_done() -> None:
    running = batch_balance(0, 3, {0: source(2, 2, 0)}, {0: worker(["a", "a"])})
    assert [row.records for row in running.workers] == [2, 2, 0]
    assert running.replication is None
    # The third worker has no records, so nobody waits for it.
    done = batch_balance(0, 3, {0: source(2, 2, 0)}, {0: worker(["a", "a"]), 1: worker(["a", "b"])})
    assert [row.records for row in done.workers] == [2, 2, 0]
    assert (done.keys, done.replication, done.keys_split) == (2, 1.5, 1)


def test_a_sample_of_the_keys_gives_an_estimate_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    # 20,000 keys, each on one worker, and 10,000 of them on the next as well; sizes differ, so
    # the workers sample by different rates.
    keys = np.array([f"key {number}" for number in range(20_000)])
    first = rng.choice(3, keys.size, p=[0.6, 0.3, 0.1])
    by_worker = [
        [*keys[first == number], *keys[:10_000][first[:10_000] == (number + 1) % 3]]
        for number in range(3)
    ]
    monkeypatch.setattr(combining, "_REPORTED_KEYS", 2_000)
    entries = {number: worker(keys_there) for number, keys_there in enumerate(by_worker)}
    assert len({entry.about["sampled_by"] for entry in entries.values()}) > 1
    balance = batch_balance(0, 3, {0: source(*map(len, by_worker))}, entries)

    assert balance.replication_exact is False
    assert [row.pairs for row in balance.workers] == [len(keys) for keys in by_worker]
    # The sample has 20,000 / 8 keys or more, of which half are split: a binomial share with
    # standard deviation 0.01; five of them.
    assert balance.replication == pytest.approx(1.5, abs=0.05)
    assert balance.keys == pytest.approx(20_000, rel=0.05 / 1.5)
    assert balance.keys_split == pytest.approx(10_000, rel=0.1)


def test_a_batch_without_records_is_in_balance() -> None:
    balance = batch_balance(3, 2, {}, {0: worker([]), 1: worker([])})
    assert (balance.records, balance.imbalance, balance.replication) == (0, 0.0, 1.0)
    assert balance.hot_keys == ()
    assert batch_balance(3, 2, {}, {}).imbalance == 0.0


def test_times_beyond_the_dates_of_python_are_told_as_text() -> None:
    far = 410_000_000_000_000_000  # in microseconds
    times = pa.array([far, far, far, 0, 0, None]).cast(pa.timestamp("us", "UTC"))
    dates = pa.array([5_000_000, None, 0], pa.int32()).cast(pa.date32())
    structs = pa.StructArray.from_arrays([times[:1]], ["at"])
    assert [text for text, _, _ in report_of(times).about["top"]] == [
        "14962-05-20 08:53:20.000000Z",
        "1970-01-01 00:00:00+00:00",
        "null",
    ]
    assert {text for text, _, _ in report_of(dates).about["top"]} == {
        "15659-07-15",
        "1970-01-01",
        "null",
    }
    ((text, _, _),) = report_of(structs).about["top"]
    assert "cannot hold" in text


# Told


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger of two batches; the second has workers, and keys that are awkward."""
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY)
    made.bind("query-1")
    made.publish_plan(0, Entry({}, {}))
    made.write_report(0, 0, source(3, 2, 1))
    made.write_report(1, 0, source(2, 2, 0))
    made.write_worker(1, 0, worker(['two\nlines "quoted" \\', None]))
    made.write_worker(1, 1, worker(["ключ \x1b[31m", None]))
    made.write_worker(1, 2, worker([]))
    return made


def test_json_lines_hold_all_batches(ledger: Ledger, tmp_path: Path) -> None:
    balance = explain_balance(ledger.folder)
    balance.write_json_lines(tmp_path / "balance.jsonl")
    lines = (tmp_path / "balance.jsonl").read_text(encoding="utf-8").splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["query"] == "query-1"
    assert (first["batch"], first["records"], first["replication"]) == (0, 6, None)
    assert second["workers"][1] == {"worker": 1, "records": 2, "seconds": 1.0, "pairs": 2}
    assert second["hot_keys"][0] == {"key": "null", "records": 2, "share": 0.5, "workers": 2}
    assert second["hot_keys"][1]["key"] == 'two\nlines "quoted" \\'


def test_the_table_is_plain_text_that_no_key_can_break(ledger: Ledger) -> None:
    text = str(explain_balance(Path(ledger.folder)))
    title, headings, *rows = text.splitlines()
    assert title == "Balance of query-1: strategy pkg, workers 3, key k"
    assert " ".join(headings.split()) == (
        "batch records busiest worker imbalance time imbalance keys replicas per key keys split "
        "heaviest key its share"
    )
    assert [" ".join(row.split()) for row in rows] == [
        "0 6 0 50.0 % – – – – – –",
        "1 4 0 50.0 % 0.0 % 3 1.333 1 null 50.0 %",
    ]
    assert text.isprintable() is False  # it has line ends,
    assert all(line.isprintable() for line in text.splitlines())  # and nothing else of the kind
    assert explain_balance(ledger)._repr_html_().startswith("<pre>")


#: Prometheus' text format 0.0.4: name, labels, value.
_SAMPLE = re.compile(
    r'([a-zA-Z_:][\w:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)', re.ASCII
)


def parsed(text: str) -> dict[str, float]:
    """Return the samples; every one must follow the HELP and TYPE of its name."""
    samples = {}
    told: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            kind, name = line.split()[1:3]
            assert kind in ("HELP", "TYPE")
            told.append(f"{kind} {name}")
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        assert told[-2:] == [f"HELP {match[1]}", f"TYPE {match[1]}"]
        assert f"{match[1]}{{{match[2]}}}" not in samples
        samples[f"{match[1]}{{{match[2]}}}"] = float(match[3])
    assert len(told) == len(set(told))
    return samples


def test_prometheus_gets_the_last_batch(ledger: Ledger) -> None:
    told = explain_balance(ledger)
    samples = parsed(told.to_prometheus())
    assert samples['skewless_batch{query="query-1"}'] == 1
    assert samples['skewless_records{query="query-1",worker="1"}'] == 2
    assert samples['skewless_replication{query="query-1"}'] == 4 / 3
    assert samples['skewless_hot_key_share{query="query-1",rank="1"}'] == 0.5
    # Of a batch that only sources told of, what is not known is left out.
    first = parsed(Balance(told.batches[:1], "q").to_prometheus())
    assert not any("replication" in name or "seconds" in name for name in first)
    assert Balance([]).to_prometheus() == ""


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_label_survives_the_text_format(label: str) -> None:
    text = exposition([Gauge("g", "Help\nof \\two lines.", (({"query": label}, 0.5),))])
    lines = text.removesuffix("\n").split("\n")
    assert lines[:2] == ["# HELP g Help\\nof \\\\two lines.", "# TYPE g gauge"]
    match = _SAMPLE.fullmatch("\n".join(lines[2:]))
    assert match
    inside = match[2].removeprefix('query="').removesuffix('"')
    found = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
    assert re.sub(r'\\[\\"n]', lambda escape: found[escape[0]], inside) == label


def test_numbers_that_are_none_are_told_as_prometheus_spells_them() -> None:
    values = [float("nan"), float("inf"), -float("inf"), 3.0, 0.1, None]
    gauge = Gauge("g", "G.", tuple(({"at": str(at)}, value) for at, value in enumerate(values)))
    told = [line.rpartition(" ")[2] for line in exposition([gauge]).splitlines()[2:]]
    assert told == ["NaN", "+Inf", "-Inf", "3", "0.1"]


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no ledger in .*nowhere.*by its id"):
        explain_balance(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="must be a StreamingQuery or a ledger folder, not 3"):
        explain_balance(3)
    with pytest.raises(ValueError, match="ledger goes with a query"):
        explain_balance("folder", ledger="folder")


# The listener, without Spark


def event(query: str = "query-1", batch: int = 1, rate: float = 2.5) -> Any:
    progress = SimpleNamespace(
        id=query,
        name=None,
        batchId=batch,
        timestamp="2024-01-01T00:00:00.000Z",
        numInputRows=4,
        processedRowsPerSecond=rate,
        durationMs={"triggerExecution": 1600},
    )
    return SimpleNamespace(progress=progress)


def test_the_listener_tells_its_own_query_only(ledger: Ledger, tmp_path: Path) -> None:
    lines, text = tmp_path / "balance.jsonl", tmp_path / "balance.prom"
    listener = BalanceListener(ledger.folder, json_lines=lines, prometheus=text)
    for batch in (0, 1):
        listener.onQueryProgress(event(batch=batch))
        listener.onQueryProgress(event("query-2", batch=batch))
    assert [batch.balance.batch for batch in listener.history] == [0, 1]
    told = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert [line["batch"] for line in told] == [0, 1]
    assert (told[1]["input_rows"], told[1]["rows_per_second"]) == (4, 2.5)
    assert (told[1]["batch_seconds"], told[1]["replication"]) == (1.6, 4 / 3)
    samples = parsed(text.read_text(encoding="utf-8"))
    assert samples['skewless_batch{query="query-1"}'] == 1
    assert samples['skewless_rows_per_second{query="query-1"}'] == 2.5
    assert samples['skewless_batch_seconds{query="query-1"}'] == 1.6
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "balance.jsonl",
        "balance.prom",
        "ledger",
    ]


def test_the_listener_does_not_bind_a_ledger_that_is_nobodys(tmp_path: Path) -> None:
    listener = BalanceListener(tmp_path / "ledger")
    listener.onQueryProgress(event())
    assert listener.history == []
    assert not (tmp_path / "ledger").exists()


def test_a_rate_that_is_no_number_is_told_as_unknown(ledger: Ledger, tmp_path: Path) -> None:
    listener = BalanceListener(ledger.folder, json_lines=tmp_path / "lines")
    listener.onQueryProgress(event(rate=float("nan")))
    assert json.loads((tmp_path / "lines").read_text())["rows_per_second"] is None


def test_errors_are_logged_once_per_kind_and_break_nothing(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = BalanceListener(
        ledger.folder,
        json_lines=tmp_path / "missing" / "lines",
        prometheus=tmp_path / "balance.prom",
    )
    with caplog.at_level(logging.ERROR):
        listener.onQueryProgress(event(batch=0))
        listener.onQueryProgress(event(batch=1))
        assert [record.message.split(" (")[0] for record in caplog.records] == [
            "cannot write JSON lines"
        ]
        damaged = next(Path(ledger.folder).glob("workers/*1/*/worker-00000.arrow"))
        damaged.write_bytes(damaged.read_bytes()[:-1])
        listener.onQueryProgress(event(batch=1))
        listener.onQueryProgress(event(batch=1))
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        "cannot write JSON lines",
        "cannot read the balance",
    ]
    assert [batch.balance.batch for batch in listener.history] == [0, 1]
    assert 'skewless_batch{query="query-1"} 1' in (tmp_path / "balance.prom").read_text()


def test_people_are_shown_the_run_that_counts(tmp_path: Path) -> None:
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY)
    dead, alive = made.of_run("dead"), made.of_run("alive")
    alive.write_report(0, 0, source(1, 2, 3))
    for number in range(3):
        dead.write_report(0, number, source(9, 9, 9))
        dead.write_worker(0, number, worker(["late"]))
    (batch,) = explain_balance(made.folder).batches
    assert [row.records for row in batch.workers] == [1, 2, 3]
    assert batch.hot_keys is None


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"records": "many"}, "records must be a number"),
        ({"seconds": None}, "seconds must be a number"),
        ({"sampled_by": 0}, "sampled_by must be a number from 1"),
        ({"pairs": -1}, "pairs must be a number"),
        ({"top": 7}, "top must be a list"),
        ({"top": [["a", "b"]]}, "top must have a text"),
    ],
)
def test_a_worker_report_from_a_stranger_is_refused(
    ledger: Ledger, about: dict[str, Any], text: str
) -> None:
    good = worker(["a"])
    ledger.write_worker(1, 0, Entry(good.arrays, good.about | about))
    with pytest.raises(LedgerCorrupt, match=rf"worker-00000\.arrow cannot be used: {text}"):
        explain_balance(ledger.folder)


@pytest.mark.parametrize("workers", ["3", 0, -1, 1 << 40, True, 2.5])
def test_an_identity_with_odd_workers_is_refused(tmp_path: Path, workers: Any) -> None:
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY | {"workers": workers})
    with pytest.raises(LedgerCorrupt, match=r"identity\.json cannot be used: workers must be"):
        explain_balance(made.folder)


# On Spark


class Stream(NamedTuple):
    query: Any
    folder: Path
    files: list[list[str | None]]
    listener: BalanceListener


def read(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema("k string, v bigint").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def run(df: Any, checkpoint: Path) -> Any:
    writer = df.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """Return a stream of three batches that was aggregated while a listener listened."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "in").mkdir()
    rng = np.random.default_rng(0)
    files = []
    for number in range(3):
        keys: list[str | None] = [
            "hôt" if hot else f"key {key}"
            for hot, key in zip(rng.random(3_000) < 0.4, rng.integers(0, 300, 3_000), strict=True)
        ]
        keys[::100] = [None] * len(keys[::100])
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": keys, "v": rng.integers(0, 9, 3_000)}), path)
        os.utime(path, (1_000 + number, 1_000 + number))
        files.append(keys)
    listener = BalanceListener(
        folder / "ledger", json_lines=folder / "lines", prometheus=folder / "text.prom"
    )
    spark.streams.addListener(listener)
    try:
        df = read(spark, folder / "in")
        ledger = str(folder / "ledger")
        options = {"strategy": "cascade", "workers": N_WORKERS, "seed": 0, "ledger": ledger}
        df = aggregate(df, "k", {"n": aggs.count()}, **options)
        query = run(df, folder / "checkpoint")
        run(read(spark, folder / "in"), folder / "other")  # another query: not for this listener
        _wait_for(listener, 3)
    finally:
        spark.streams.removeListener(listener)
    return Stream(query, folder, files, listener)


def _wait_for(listener: BalanceListener, n_batches: int) -> None:
    """Let the events of completed batches arrive: Spark delivers them on a thread of its own."""
    for _ in range(100):
        if len(listener.history) >= n_batches:
            return
        time.sleep(0.1)


@pytest.mark.spark
def test_a_stream_is_told_as_it_was(stream: Stream) -> None:
    balance = explain_balance(stream.query, ledger=stream.folder / "ledger")
    assert [batch.batch for batch in balance.batches] == [0, 1, 2]
    for batch, keys in zip(balance.batches, stream.files, strict=True):
        counts = Counter(keys)
        assert batch.records == len(keys) == sum(row.records for row in batch.workers)
        assert len(batch.workers) == N_WORKERS
        assert batch.keys == len(counts)
        n_pairs = sum(row.pairs or 0 for row in batch.workers)
        assert batch.replication == n_pairs / len(counts)
        assert batch.keys_split is not None
        assert 1 <= batch.keys_split <= n_pairs - len(counts)
        assert batch.hot_keys is not None
        hottest = batch.hot_keys[0]
        # 40 % of the records are more than a worker's fourth, so the key is split, and it is
        # among the five heaviest wherever it is.
        assert (hottest.key, hottest.records) == ("hôt", counts["hôt"])
        assert hottest.workers is not None
        assert 2 <= hottest.workers <= N_WORKERS
        assert all((row.seconds or 0.0) > 0.0 for row in batch.workers if row.records)
    # The ledger alone tells the same.
    assert explain_balance(str(stream.folder / "ledger")).batches == balance.batches


@pytest.mark.spark
def test_the_listener_heard_every_batch_of_its_query(stream: Stream) -> None:
    balance = explain_balance(stream.query, ledger=stream.folder / "ledger")
    history = stream.listener.history
    assert [batch.balance for batch in history] == balance.batches
    assert [batch.input_rows for batch in history] == [3_000] * 3
    assert all((batch.rows_per_second or 0.0) > 0.0 for batch in history)
    assert all((batch.batch_seconds or 0.0) > 0.0 for batch in history)
    lines = (stream.folder / "lines").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["batch"] for line in lines] == [0, 1, 2]
    samples = parsed((stream.folder / "text.prom").read_text(encoding="utf-8"))
    assert samples[f'skewless_input_rows{{query="{stream.query.id}"}}'] == 3_000


@pytest.mark.spark
def test_a_dataframe_has_a_row_per_batch_and_worker(spark: Any, stream: Stream) -> None:
    balance = explain_balance(stream.query, ledger=stream.folder / "ledger")
    rows = balance.to_dataframe(spark).orderBy("batch", "worker").collect()
    assert [(row.batch, row.worker) for row in rows] == [(b, w) for b in range(3) for w in range(4)]
    batch = balance.batches[1]
    row = rows[N_WORKERS]
    assert (row.records, row.seconds, row.pairs) == (
        batch.workers[0].records,
        batch.workers[0].seconds,
        batch.workers[0].pairs,
    )
    assert (row.imbalance, row.replication, row.replication_exact, row.keys_split) == (
        batch.imbalance,
        batch.replication,
        True,
        batch.keys_split,
    )
    assert row.hot_keys[0].key == "hôt"
    assert row.hot_keys[0].workers == (batch.hot_keys or ())[0].workers
    assert Balance([]).to_dataframe(spark).count() == 0


@pytest.mark.spark
def test_route_alone_tells_the_records_of_the_workers(
    spark: Any, stream: Stream, tmp_path: Path
) -> None:
    spark.conf.set("spark.skewless.ledger", str(tmp_path / "ledgers"))
    try:
        df = route(read(spark, stream.folder / "in"), "k", strategy="shuffle", workers=3)
        query = run(df, tmp_path / "checkpoint")
        balance = explain_balance(query)
    finally:
        spark.conf.unset("spark.skewless.ledger")
    assert [batch.records for batch in balance.batches] == [3_000] * 3
    assert all(batch.imbalance < 0.01 for batch in balance.batches)  # it deals them out in turn
    assert all(batch.replication is None for batch in balance.batches)
    rows = balance.to_dataframe(spark).collect()
    assert {(row.seconds, row.pairs, row.hot_keys) for row in rows} == {(None, None, None)}
    with pytest.raises(ValueError, match="a query does not know its ledger: give ledger="):
        explain_balance(query)
    with pytest.raises(ValueError, match=f"belongs to the query {stream.query.id}, not to"):
        explain_balance(query, ledger=stream.folder / "ledger")
