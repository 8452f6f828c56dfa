"""The table of sources that learn together."""

from skewless.experiments import learning_together
from skewless.workloads import Zipf


def test_every_system_that_merges_has_a_row():
    stream = Zipf(z=1.4, n_keys=1_000, n_records=40_000)
    names = learning_together.systems()
    assert {"fish", "dalton", "pstream", "pd-stream", "cascade", "cascade-ahead"} == set(names)
    records = list(learning_together.measure(["fish", "cascade-ahead"], stream))
    assert [r["variant"] for r in records] == [
        *("one source", "alone", "merged", "with delay"),
        *("one source", "alone", "merged"),
    ]
    table = learning_together.table(records).splitlines()
    assert len(table) == 4
    assert table[2].startswith("| `fish` |")
    assert table[2].count("/") == 4  # replicas per key of all but Spark
