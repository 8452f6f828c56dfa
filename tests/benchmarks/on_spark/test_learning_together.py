"""The table of sources that learn together."""

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")

from benchmarks.on_spark import learning_together
from skewless.keys import hash_keys
from skewless.workloads import Zipf


def test_every_system_that_merges_has_a_row():
    stream = Zipf(z=1.4, n_keys=1_000, n_records=40_000)
    names = learning_together.systems()
    assert {"fish", "dalton", "pstream", "pd-stream", "cascade", "cascade-ahead"} == set(names)
    records = list(learning_together.measure(["fish", "cascade-ahead"], stream))
    of_batches = ["alone", *learning_together.MERGED, learning_together.RESCALED]
    assert [r["variant"] for r in records] == [*of_batches, "with delay", *of_batches]
    table = learning_together.table(records).splitlines()
    assert len(table) == 4
    assert table[2].startswith("| `fish` |")
    assert table[2].count("/") == 8  # replicas per key
    assert "256 sources" in table[0]


def test_mixed_stands_beside_spark_only():
    """Its sources share one plan, so there is nothing that they could learn together."""
    stream = Zipf(z=1.4, n_keys=1_000, n_records=41_000)
    records = list(learning_together.measure(["mixed"], stream))
    assert [r["variant"] for r in records] == list(learning_together.BOTH)
    assert all(r["merged"] == 0 for r in records)
    assert len(learning_together.table(records).splitlines()) == 2


def test_fish_is_told_which_workers_are_slow():
    told, not_told = learning_together.measure_slow(["fish"])
    assert told["variant"] == learning_together.HALF_SLOW
    assert not_told["variant"] == learning_together.NOT_TOLD
    assert not_told["imbalance"] > 0.4  # equal numbers of records: the slow ones take 1.5 times
    assert told["imbalance"] < 0.8 * not_told["imbalance"]  # not known in half of the stream


def test_spark_stands_beside_the_simulator():
    stream = Zipf(z=1.4, n_keys=1_000, n_records=40_000)
    records = list(learning_together.measure(["fish"], stream))
    assert len(learning_together.table_of_both(records).splitlines()) == 2
    on_spark = [
        row | {"variant": row["variant"] + learning_together.ON_SPARK, "seconds": 7.2}
        for row in records
        if row["variant"] in learning_together.BOTH
    ]
    table = learning_together.table_of_both([*records, *on_spark]).splitlines()
    assert len(table) == 2 + len(learning_together.BOTH)
    assert table[2].startswith("| 8 sources | `fish` |")
    assert table[2].endswith("| 7 |")


def test_spark_and_the_simulator_have_the_same_keys():
    """Spark got hashes for keys once, and hashed them again: other cold keys shared a worker."""
    stream = Zipf(z=1.4, n_keys=1_000, n_records=50_001)
    batches = list(learning_together.micro_batches(stream))
    expected = np.concatenate(list(stream.chunks(learning_together.SEED)))
    begin = 0
    for sources, size in zip(batches, learning_together.UNEVEN, strict=False):
        size = min(size, 50_001 - begin)
        assert len(sources) == learning_together.N_SOURCES
        found = np.empty(size, np.uint64)
        for source, keys in enumerate(sources):
            found[source :: learning_together.N_SOURCES] = hash_keys(keys)
        np.testing.assert_array_equal(found, expected[begin : begin + size])
        begin += size
    assert begin == 50_001


def test_workers_that_are_overloaded_in_turn_are_not_balanced():
    """Over the whole stream they are, which hid that Dalton's sources overshoot together."""
    n = learning_together.N_WORKERS
    batches = np.repeat(np.arange(n), 10)
    row = learning_together.measured("any", "merged", batches, batches, batches)
    assert row["imbalance"] == n - 1
    assert row["merged"] == 0


def test_partial_results_of_split_keys_are_to_be_merged():
    keys, workers = np.array([1, 1, 1, 2, 3]), np.array([0, 0, 1, 1, 0])
    row = learning_together.measured("any", "merged", keys, workers, np.zeros(5, int), n_workers=2)
    assert row["merged"] == 0.5
    apart = learning_together.measured("any", "merged", keys, workers, np.arange(5), n_workers=2)
    assert apart["merged"] == 0


def test_a_worker_that_has_left_gets_no_record():
    keys = np.zeros(2, int)
    with pytest.raises(AssertionError, match="has left"):
        learning_together.measured(
            "any", "merged", keys, np.arange(2), np.arange(2), n_workers=2, changes={1: 1}
        )
