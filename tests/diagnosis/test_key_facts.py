"""Columns of records: which are skewed, how they drift, and what would help."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from skewless.cli import app
from skewless.diagnosis.key_facts import (
    count_keys,
    diagnose_keys,
    first_keys,
    rank_columns,
)
from skewless.metrics import imbalance_by_chance
from skewless.workloads import EvolvingZipf, Trace, Zipf


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """A file with a skewed column, an even one, an identifier, a constant and a price."""
    rng = np.random.default_rng(7)
    n_records = 30_000
    countries = np.where(rng.random(n_records) < 0.6, "Zürich", rng.integers(0, 40, n_records))
    table = pa.table(
        {
            "order": np.arange(n_records),
            "country": countries.astype(str),
            "product": rng.integers(0, 3_000, n_records),
            "shop": ["main"] * n_records,
            "price": rng.random(n_records),
        }
    )
    path = tmp_path_factory.mktemp("orders") / "orders.parquet"
    pq.write_table(table, path)
    return path


def _run(*arguments):
    return CliRunner().invoke(app, ["diagnose", *arguments])


def by_name(report):
    return {one.strategy: one for one in report.found.predictions}


def test_columns_are_ranked_and_what_is_no_key_is_left_out(orders):
    ranked = rank_columns(str(orders), n_workers=8)
    assert [one.column for one in ranked] == ["country", "product"]
    assert ranked[0].top_share == pytest.approx(0.6, abs=0.02)
    assert ranked[0].imbalance > 3.5
    assert ranked[1].imbalance < 0.3


def test_counts_are_exact():
    keys = np.concatenate(list(Zipf(z=1.2, n_keys=50, n_records=9_000).chunks(1)))
    counted = count_keys(iter(np.array_split(keys, 7)))
    expected = dict(zip(*np.unique(keys, return_counts=True), strict=True))
    assert dict(zip(counted.keys, counted.counts, strict=True)) == expected
    assert (counted.n_records, counted.n_keys) == (9_000, len(expected))


def test_identifiers_stay_identifiers_when_light_keys_are_forgotten(monkeypatch):
    monkeypatch.setattr("skewless.diagnosis.key_facts._MOST_KEYS", 1_000)
    keys = np.random.default_rng(1).integers(0, 2**63, 20_000).astype(np.uint64)
    counted = count_keys(iter(np.array_split(keys, 9)))
    assert counted.keys.size <= 1_000
    assert counted.n_keys == pytest.approx(20_000, rel=0.05)


def test_skew_and_drift_are_seen_and_even_keys_need_nothing():
    skewed = diagnose_keys(Zipf(z=1.4, n_keys=10_000, n_records=60_000), n_workers=16)
    assert skewed.found.skewed
    assert by_name(skewed)["cascade-ahead"].imbalance < 0.1
    assert by_name(skewed)["cascade-ahead"].makespan < 1.1
    assert skewed.facts.n_above_fair_share >= 1
    assert "use route, which plans first: " in skewed.found.advice
    assert "A stream cannot be planned first: there, use strategy='cascade" in skewed.found.advice
    even = diagnose_keys(Zipf(z=0.0, n_keys=10_000, n_records=60_000), n_workers=4)
    assert not even.found.skewed
    assert "Plain Spark is the better choice" in even.found.advice
    moving = EvolvingZipf(z=1.4, n_keys=10_000, n_records=60_000, period=15_000)
    still = diagnose_keys(Zipf(z=2.0, n_keys=10_000, n_records=60_000), n_workers=4)
    assert diagnose_keys(moving, n_workers=4).facts.drift > still.facts.drift


def test_chance_in_the_beginning_of_a_file_is_no_skew():
    """There are 234 records per worker: chance leaves up to 1.2 times that on one."""
    keys = Zipf(z=0.0, n_keys=1_000_000, n_records=30_000)
    even = diagnose_keys(keys, n_workers=128, goes_on=True)
    # More than what counts as skew where these are all records. How much more is the hash's luck.
    assert 0.1 < by_name(even)["hash"].imbalance < imbalance_by_chance(30_000, 128)
    assert not even.found.skewed
    assert "Plain Spark is the better choice" in even.found.advice
    # If these are all records, what chance did to them is what the job gets.
    assert diagnose_keys(keys, n_workers=128).found.skewed
    skewed = Zipf(z=1.4, n_keys=10_000, n_records=30_000)
    assert diagnose_keys(skewed, n_workers=128, goes_on=True).found.skewed


def test_the_advice_names_what_plain_spark_can_do():
    report = diagnose_keys(Zipf(z=1.4, n_keys=10_000, n_records=20_000), n_workers=8)
    assert "sum, count, min, max" in report.found.advice
    assert "combines before the shuffle" in report.found.advice
    assert "repartition(8)" in report.found.advice


def test_only_the_first_keys_are_kept():
    keys = Zipf(z=1.4, n_keys=10_000, n_records=20_000)
    whole = np.concatenate(list(keys.chunks(0)))
    assert first_keys(keys, most=7_000).tolist() == whole[:7_000].tolist()
    assert first_keys(keys).tolist() == whole.tolist()


def test_keys_that_matter_to_no_worker_are_no_drift(tmp_path):
    # One country has nine tenths; the others change from one tenth of the file to the next.
    keys = [f"{row // 2_000}-{row % 9}" if row % 10 == 0 else "UK" for row in range(20_000)]
    pq.write_table(pa.table({"k": keys}), tmp_path / "orders.parquet")
    orders = Trace(path=str(tmp_path / "orders.parquet"), key=("k",))
    assert diagnose_keys(orders, n_workers=4).facts.drift == 0.0
    assert diagnose_keys(orders, n_workers=400).facts.drift > 0.8


def test_a_hot_value_among_unique_ones_makes_a_column_a_key(tmp_path):
    customers = ["guest" if row % 5 < 2 else f"c{row}" for row in range(5_000)]
    table = pa.table({"customer": customers, "order": [f"o{row}" for row in range(5_000)]})
    pq.write_table(table, tmp_path / "orders.parquet")
    found = rank_columns(str(tmp_path / "orders.parquet"), n_workers=4)
    assert [(one.column, one.top_share) for one in found] == [("customer", 0.4)]


def test_advice_says_so_where_moving_keys_does_not_help(tmp_path):
    keys = ["hot" if row % 50 else f"k{row}" for row in range(20_000)]
    pq.write_table(pa.table({"k": keys}), tmp_path / "orders.parquet")
    report = diagnose_keys(Trace(path=str(tmp_path / "orders.parquet"), key=("k",)), n_workers=8)
    told = "moving keys does not help, because one key is too heavy for one worker"
    assert told in report.found.advice


def test_advice_says_so_where_moving_keys_helps_a_stream():
    """Twelve keys of equal weight, and hashing puts several of them on one of eight workers."""
    keys = Zipf(z=0.0, n_keys=12, n_records=40_000)
    report = diagnose_keys(keys, n_workers=8)
    assert report.facts.n_above_fair_share == 0
    assert "`process` moves keys, with strategy='mixed'" in report.found.advice


def test_rare_keys_that_come_and_go_are_no_drift(tmp_path):
    """A dozen keys are always the heaviest; one of three more has a record here and there."""
    rng = np.random.default_rng(3)
    keys = rng.choice(12, 40_000).astype(np.uint64)
    places = rng.choice(keys.size, 12, replace=False)
    keys[places] = 100 + rng.integers(0, 3, places.size)
    pq.write_table(pa.table({"k": keys.astype(np.int64)}), tmp_path / "keys.parquet")
    trace = Trace(path=str(tmp_path / "keys.parquet"), key=("k",))
    rare = diagnose_keys(trace, n_workers=4)
    assert rare.facts.n_keys == 15
    assert rare.facts.drift == 0.0


def test_salting_by_hand_splits_every_key_and_cannot_split_a_hot_one_enough():
    report = diagnose_keys(Zipf(z=1.4, n_keys=10_000, n_records=60_000), n_workers=16)
    found = by_name(report)
    few, many, ahead = (found[name] for name in ("salt-4", "salt-16", "cascade-ahead"))
    assert ahead.imbalance < many.imbalance < few.imbalance < found["hash"].imbalance
    assert ahead.replication < few.replication < many.replication
    assert few.replication <= 4


def test_the_curve_falls():
    told = diagnose_keys(Zipf(z=1.1, n_keys=5_000, n_records=30_000), n_workers=4).as_dict()
    ranks, shares = zip(*told["curve"], strict=True)
    assert (ranks[0], shares[0]) == (1, told["top_keys"][0][1])
    assert list(ranks) == sorted(set(ranks))
    assert list(shares) == sorted(shares, reverse=True)
    assert told["n_simulated"] == told["n_records"] == 30_000


def test_the_command_writes_a_page_and_says_when_it_stopped_reading(orders, tmp_path):
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    page = tmp_path / "new" / "page.html"
    result = _run(
        *("key", "--input", str(orders), "--key", "country", "--limit", "5000"),
        *("--page", str(page)),
    )
    assert result.exit_code == 0, result.output
    assert "5,000 records were read, which is --limit." in result.stdout
    assert "salt-4" in result.stdout
    assert "Bokeh" in page.read_text(encoding="utf-8")


def test_the_command_names_keys_and_gives_json(orders):
    people = _run("key", "--input", str(orders), "--key", "country", "--workers", "8")
    assert people.exit_code == 0, people.output
    assert re.search(r"Zürich +1[78],\d+ +(59|60)\.\d %", people.stdout)
    assert "too heavy for one worker" in people.stdout
    found = json.loads(_run("key", "--input", str(orders), "--key", "country", "--json").stdout)
    assert found["skewed"] is True
    assert found["top_key_texts"][0] == "Zürich"
    ranked = _run("columns", "--input", str(orders), "--json").stdout.splitlines()
    assert [json.loads(line)["column"] for line in ranked] == ["country", "product"]


def test_the_command_predicts_times_by_the_costs_that_are_given(orders):
    costs = ["--per-record", "1e-3", "--per-pair", "1e-2", "--slots", "8"]
    told = _run("key", "--input", str(orders), "--key", "country", "--workers", "8", *costs)
    assert told.exit_code == 0, told.output
    assert re.search(r"is the (simplest of the )?fastest", told.stdout)
    assert "As given: 1 ms for each record, and 10 ms for each key" in told.stdout


def test_the_command_reads_csv_files_and_event_logs(tmp_path):
    (tmp_path / "words.csv").write_text("word\n" + "to\nbe\nor\nnot\nto\nbe\n" * 300)
    text = _run("key", "--input", str(tmp_path / "words.csv"), "--key", "word", "--workers", "2")
    assert text.exit_code == 0, text.output
    assert "4 keys;" in text.stdout
    assert "1,800 records, 2 workers" in text.stdout
    assert re.search(r"be +600 +33\.3 %", text.stdout)
    log = tmp_path / "log"
    log.write_text('{"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}\n')
    assert "nothing is known about skew" in _run("log", str(log)).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["columns"], "Missing option '--input'"),
        (["key", "--key", "k"], "Missing option '--input'"),
        (["log"], "Missing argument 'FILE'"),
        (["--input", "x"], "No such option: --input"),
        (["columns", "--input", "missing.parquet"], "--input: there is no file or folder 'missing"),
        (
            ["key", "--input", "missing.csv", "--key", "k"],
            "--input: there is no file or folder 'missing",
        ),
        (
            ["key", "--input", "s3a://orders/2026", "--key", "k"],
            "--input: only Spark can open 's3a://orders/2026'; use `hot_keys`",
        ),
        (["columns", "--input", "s3a://a/b.csv"], "--input: only Spark can open 's3a://a/b.csv'"),
        (["key", "--input", "x", "--key", "k", "--per-record", "-1"], "--per-record must be"),
        (["key", "--input", "x", "--key", "k", "--per-pair", "nan"], "--per-pair must be seconds"),
        (["key", "--input", "x", "--key", "k", "--slots", "0"], "--slots must be"),
        (["columns", "--input", "x", "--key", "k"], "No such option: --key"),
        (["log", "missing"], "there is no file or folder 'missing'"),
        (["log", "missing", "--slow", "1"], "--slow must be above 1"),
        (["log", "x", "--workers", "4"], "No such option: --workers"),
        (["columns", "--input", "x", "--workers", "0"], "--workers must be"),
        (["columns", "--input", "x", "--format", "xml"], "--format must be one of auto, csv"),
        (["key", "--input", "x"], "--key COLUMN is missing"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_few_records_and_files_without_a_known_name(tmp_path):
    (tmp_path / "words.dat").write_text("word\na\nb\na\nc\n")
    words = ["--input", str(tmp_path / "words.dat"), "--format", "csv"]
    words += ["--key", "word", "--workers"]
    assert "4 records are too few for 3 workers" in _run("key", *words, "3").stdout


def test_empty_files_of_a_folder_are_passed_over_and_broken_ones_named(tmp_path):
    (tmp_path / "a.csv").touch()
    refused = _run("key", "--input", str(tmp_path), "--key", "user")
    assert refused.exit_code == 2
    assert "a.csv' cannot be read as csv: Empty CSV file" in refused.stderr
    (tmp_path / "b.csv").write_text("user,n\n" + "x,1\ny,2\n" * 50)
    found = _run("key", "--input", str(tmp_path), "--key", "user", "--workers", "2")
    assert "2 keys;" in found.stdout
    (tmp_path / "c.parquet").touch()
    broken = _run("key", "--input", str(tmp_path), "--key", "user")
    assert "c.parquet' cannot be read as parquet" in broken.stderr


@pytest.mark.parametrize(
    "arguments", [["--key", "land"], ["--key", "country", "--workers", "0"], ["--key", ""], []]
)
def test_a_refused_command_makes_no_folder_for_its_page(orders, tmp_path, arguments):
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    page = tmp_path / "new" / "page.html"
    assert _run("key", "--input", str(orders), *arguments, "--page", str(page)).exit_code == 2
    assert not page.parent.exists()


def test_records_need_a_key(orders):
    result = _run("key", "--input", str(orders))
    assert result.exit_code == 2
    assert "--key COLUMN is missing; `skewless diagnose columns` ranks" in result.stderr


def test_a_missing_column_names_those_that_are_there(orders):
    result = _run("key", "--input", str(orders), "--key", "land")
    assert result.exit_code == 2
    assert "it has order, country, product, shop, price" in result.stderr
