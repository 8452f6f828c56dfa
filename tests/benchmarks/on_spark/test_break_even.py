"""The table of break-even costs."""

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark.break_even import PER_PAIR, best_other, costs_that_pay, table


def test_ours_must_be_better_by_more_than_chance_than_the_best_of_the_others():
    def times(hash_, salt):
        return {"cascade-ahead": 1.0, "hash": hash_, "salt-2": salt}

    assert best_other(times(3.0, 2.0)) == ("salt-2", 2.0)
    assert costs_that_pay([times(3.0, 1.1), times(3.0, 1.2), times(1.3, 9.0), times(1.1, 9.0)]) == (
        1,
        2,
    )
    assert costs_that_pay([times(1.1, 9.0)]) is None


def test_a_row_has_the_costs_between_which_it_pays():
    job = {"slots": 8, "per_record": 5e-6, "below": "local", "above": "hash"}
    rows = [
        {**job, "stream": stream, "from": begin, "to": end}
        for stream, begin, end in (("a", 1e-3, 0.1), ("b", None, None), ("c", 2e-3, PER_PAIR[-1]))
    ]
    assert table(rows).splitlines()[2] == (
        "| 5 µs | 8 | 1 ms (local) – 100 ms (hash) | never | from 2 ms (local) on |"
    )
