"""Columns of records: which are skewed, how they drift, and what would help."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from skewless.cli import app
from skewless.cli.diagnosing.keys import Asked
from skewless.diagnosis.key_candidates import rank_columns
from skewless.diagnosis.key_column import diagnose_keys
from skewless.diagnosis.key_facts import count_keys
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
    assert skewed.skewed
    assert skewed.of("cascade-ahead").slowest < 1.1
    assert skewed.n_above_fair_share >= 1
    assert "cascade-ahead" in skewed.advice
    even = diagnose_keys(Zipf(z=0.0, n_keys=10_000, n_records=60_000), n_workers=4)
    assert not even.skewed
    assert "Keep plain Spark" in even.advice
    moving = EvolvingZipf(z=1.4, n_keys=10_000, n_records=60_000, period=15_000)
    still = diagnose_keys(Zipf(z=2.0, n_keys=10_000, n_records=60_000), n_workers=4)
    assert diagnose_keys(moving, n_workers=4).drift > still.drift


def test_chance_is_no_skew():
    """A window has 78 records per worker: even keys leave 1.3 times the mean on the fullest."""
    keys = Zipf(z=0.0, n_keys=1_000_000, n_records=30_000)
    even = diagnose_keys(keys, n_workers=128)
    assert even.of("hash").slowest > 1.25
    assert not even.skewed
    assert "Keep plain Spark" in even.advice
    assert diagnose_keys(Zipf(z=1.4, n_keys=10_000, n_records=30_000), n_workers=128).skewed


def test_the_advice_names_what_plain_spark_can_do():
    advice = diagnose_keys(Zipf(z=1.4, n_keys=10_000, n_records=20_000), n_workers=8).advice
    assert "sum, count, min, max" in advice
    assert "combines before the shuffle" in advice
    assert "repartition(8)" in advice


def test_keys_that_matter_to_no_worker_are_no_drift(tmp_path):
    # One country has nine tenths; the others change from one tenth of the file to the next.
    keys = [f"{row // 2_000}-{row % 9}" if row % 10 == 0 else "UK" for row in range(20_000)]
    pq.write_table(pa.table({"k": keys}), tmp_path / "orders.parquet")
    orders = Trace(path=str(tmp_path / "orders.parquet"), key=("k",))
    assert diagnose_keys(orders, n_workers=4).drift == 0.0
    assert diagnose_keys(orders, n_workers=400).drift > 0.8


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
    assert "because one key is too heavy for one worker" in report.advice


def test_rare_keys_that_come_and_go_are_no_drift(tmp_path):
    """A dozen keys are always the heaviest; one of three more has a record here and there."""
    rng = np.random.default_rng(3)
    keys = rng.choice(12, 40_000).astype(np.uint64)
    places = rng.choice(keys.size, 12, replace=False)
    keys[places] = 100 + rng.integers(0, 3, places.size)
    pq.write_table(pa.table({"k": keys.astype(np.int64)}), tmp_path / "keys.parquet")
    trace = Trace(path=str(tmp_path / "keys.parquet"), key=("k",))
    rare = diagnose_keys(trace, n_workers=4)
    assert rare.n_keys == 15
    assert rare.drift == 0.0


def test_salting_by_hand_splits_every_key_and_cannot_split_a_hot_one_enough():
    report = diagnose_keys(Zipf(z=1.4, n_keys=10_000, n_records=60_000), n_workers=16)
    few, many, ahead = (report.of(name) for name in ("salt-4", "salt-16", "cascade-ahead"))
    assert ahead.slowest < many.slowest < few.slowest < report.of("hash").slowest
    assert ahead.replicas_in_all < few.replicas_in_all < many.replicas_in_all
    assert few.replicas_in_all <= 4


def test_the_curve_falls_and_drift_is_the_mean_of_its_steps():
    report = diagnose_keys(Zipf(z=1.1, n_keys=5_000, n_records=30_000), n_workers=4)
    ranks, shares = zip(*report.curve, strict=True)
    assert (ranks[0], shares[0]) == (1, report.top_keys[0][1])
    assert list(ranks) == sorted(set(ranks))
    assert list(shares) == sorted(shares, reverse=True)
    assert len(report.drifts) == 9
    assert report.drift == pytest.approx(np.mean(report.drifts))
    assert report.n_simulated == report.n_records == 30_000


def test_the_command_writes_a_page_and_says_when_it_stopped_reading(orders, tmp_path):
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    page = tmp_path / "new" / "page.html"
    result = _run(
        "--input", str(orders), "--key", "country", "--limit", "5000", "--page", str(page)
    )
    assert result.exit_code == 0, result.output
    assert "5,000 records were read, which is --limit; --spark counts all" in result.stdout
    assert "salt-4" in result.stdout
    assert "Bokeh" in page.read_text(encoding="utf-8")


def test_the_command_names_keys_and_gives_json(orders):
    people = _run("--input", str(orders), "--key", "country", "--workers", "8")
    assert people.exit_code == 0, people.output
    assert "Zürich 59." in people.stdout or "Zürich 60." in people.stdout
    assert "too heavy for one worker" in people.stdout
    found = json.loads(_run("--input", str(orders), "--key", "country", "--json").stdout)
    assert found["skewed"] is True
    assert found["top_key_texts"][0] == "Zürich"
    ranked = _run("--input", str(orders), "--json").stdout.splitlines()
    assert [json.loads(line)["column"] for line in ranked] == ["country", "product"]


def test_the_command_reads_texts_and_event_logs(tmp_path):
    (tmp_path / "words.txt").write_text("to be or not to be " * 300)
    text = _run("--input", str(tmp_path / "words.txt"), "--workers", "2")
    assert text.exit_code == 0, text.output
    assert "1,800 records, 4 keys" in text.stdout
    assert "be 33.3%" in text.stdout
    log = tmp_path / "log"
    log.write_text('{"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}\n')
    assert "nothing is known about skew" in _run("--event-log", str(log)).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --input PATH"),
        (["--input", "a", "--event-log", "b"], "give --input PATH"),
        (["--input", "missing.parquet"], "--input: there is no file or folder 'missing.parquet'"),
        (["--input", "missing.csv", "--key", "k"], "--input: there is no file or folder 'missing"),
        (
            ["--input", "s3a://orders/2026", "--key", "k"],
            "--input: only Spark can open 's3a://orders/2026'; add --spark",
        ),
        (["--input", "s3a://a/b.txt"], "--input: only Spark can open 's3a://a/b.txt'; add --spark"),
        (["--input", "x", "--key", "k", "--master", "local[2]"], "--master goes with --spark"),
        (["--event-log", "x", "--key", "k"], "--key goes with --input, not with --event-log"),
        (["--event-log", "missing"], "there is no file or folder 'missing'"),
        (["--event-log", "missing", "--slow", "1"], "--slow must be above 1"),
        (["--event-log", "x", "--workers", "4"], "--workers goes with --input"),
        (["--event-log", "x", "--limit", "9"], "--limit goes with --input"),
        (["--event-log", "x", "--window", "9"], "--window goes with --input"),
        (["--event-log", "x", "--format", "csv"], "--format goes with --input"),
        (["--input", "x", "--slow", "2"], "--slow goes with --event-log"),
        (["--input", "x", "--workers", "0"], "--workers must be"),
        (["--input", "x", "--format", "xml"], "--format must be one of auto, csv"),
        (["--event-log", "x", "--page", "y"], "--page goes with --input"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_few_records_and_files_without_a_known_name(tmp_path):
    (tmp_path / "words.dat").write_text("a b a c")
    result = _run("--input", str(tmp_path / "words.dat"), "--format", "text", "--workers", "2")
    assert "4 records are too few for 2 workers" in result.stdout


def test_empty_files_of_a_folder_are_passed_over_and_broken_ones_named(tmp_path):
    (tmp_path / "a.csv").touch()
    refused = _run("--input", str(tmp_path), "--key", "user")
    assert refused.exit_code == 2
    assert "a.csv' cannot be read as csv: Empty CSV file" in refused.stderr
    (tmp_path / "b.csv").write_text("user,n\n" + "x,1\ny,2\n" * 50)
    found = _run("--input", str(tmp_path), "--key", "user", "--workers", "2")
    assert "100 records, 2 keys" in found.stdout
    (tmp_path / "c.parquet").touch()
    broken = _run("--input", str(tmp_path), "--key", "user")
    assert "c.parquet' cannot be read as parquet" in broken.stderr


@pytest.mark.parametrize(
    "arguments", [["--key", "land"], ["--key", "country", "--workers", "0"], ["--key", ""], []]
)
def test_a_refused_command_makes_no_folder_for_its_page(orders, tmp_path, arguments):
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    page = tmp_path / "new" / "page.html"
    assert _run("--input", str(orders), *arguments, "--page", str(page)).exit_code == 2
    assert not page.parent.exists()


@pytest.mark.parametrize(
    ("path", "format", "is_text"),
    [
        ("s3a://bucket/words.txt", "auto", True),
        ("s3a://bucket/WORDS.TXT.gz", "auto", True),
        ("s3a://bucket/words.txt", "csv", False),
        ("s3a://bucket/words", "text", True),
        ("s3a://bucket/words.txt.parquet", "auto", False),
    ],
)
def test_a_text_that_only_spark_can_open_is_known_by_its_name(path, format, is_text):
    asked = Asked(path, format, None, n_workers=2, limit=10, window=10)
    assert asked.is_text() is is_text


def test_a_page_needs_a_key(orders, tmp_path):
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    result = _run("--input", str(orders), "--page", str(tmp_path / "page.html"))
    assert result.exit_code == 2
    assert "--page goes with --key COLUMN" in result.stderr


def test_a_missing_column_names_those_that_are_there(orders):
    result = _run("--input", str(orders), "--key", "land")
    assert result.exit_code == 2
    assert "it has order, country, product, shop, price" in result.stderr
