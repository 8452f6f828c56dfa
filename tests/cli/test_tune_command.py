"""`skewless tune`: weights and threshold of PStream for a stream, with what they give."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import refused, run

SMALL = ["--workers", "8", "--window", "2000", "--trials", "4"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "orders.parquet"
    keys = [f"c{number % 40 if number % 3 else 0}" for number in range(12_000)]
    pq.write_table(pa.table({"customer": keys}), path)
    return str(path)


def test_trials_say_what_each_gives_and_which_is_best(trace):
    arguments = ["tune", "--trace", trace, "--key", "customer", *SMALL]
    rows = [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]
    assert 1 < len(rows) <= 5
    assert rows[0]["time_weight"] == 0.5
    (best,) = [row for row in rows if row["best"]]
    assert best["cost"] == min(row["cost"] for row in rows)
    for row in rows:
        assert row["time_weight"] + row["space_weight"] == pytest.approx(1.0)
        assert row["p"] == row["f"] / 2
        assert row["f_lowest"] <= row["f"] <= row["f_highest"]
        # A worker has a third of the records, unless the key is found hot.
        assert 0 <= row["window_imbalance"] < 2.5
        assert 1 <= row["window_replication"] <= 8
    people = run(*arguments).stdout
    assert f"--set time_weight={best['time_weight']:.4g}" in people
    assert "best" in people


def test_partial_results_that_cost_nothing_make_replicas_cheap(trace):
    cost = {}
    for pair_cost in ("0", "100"):
        options = ["--trace", trace, "--key", "customer", *SMALL, "--pair-cost", pair_cost]
        first = json.loads(run("tune", *options, "--json").stdout.splitlines()[0])
        cost[pair_cost] = first["cost"]
        if pair_cost == "0":
            assert first["cost"] == pytest.approx(1 + first["window_imbalance"])
    assert cost["100"] > cost["0"] + 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "say what to route"),
        (["--zipf", "1", "--pair-cost", "-1"], "--pair-cost must be at least 0"),
        (["--zipf", "1", "--trials", "0"], "--trials"),
        (["--zipf", "1", "--key", "k"], "go with --trace"),
        (["--trace", "nowhere.parquet", "--key", "k"], "nowhere.parquet"),
    ],
)
def test_bad_input_is_refused(options, told):
    assert told in refused("tune", *options)
