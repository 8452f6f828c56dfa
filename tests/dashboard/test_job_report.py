import os
import re
import stat

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from skewless.dashboard.job_report import equality, write_job_report


def run(strategy, loads, differences=0, replication=1.0):
    batches = [
        {"batch": i, "records": 10, "seconds": 1.5, "imbalance": 0.1, "replication": replication}
        for i in range(3)
    ]
    return {
        "strategy": strategy,
        "loads": loads,
        "rows": 12,
        "differences": differences,
        "batches": batches,
    }


def test_the_page_needs_no_network_and_says_what_it_shows(tmp_path):
    path = tmp_path / "job.html"
    runs = [run("hash", [9, 1]), run("cascade", [5, 5], replication=None)]
    write_job_report(runs, "12 <b>words</b>", path)
    html = path.read_text(encoding="utf-8")
    assert not re.search(r"<(script|link)[^>]+(src|href)=[\"']https?:", html)
    for text in ("hash: load per worker", "cascade: load per worker", "Seconds per micro-batch"):
        assert text in html
    assert "12 <b>words" not in html  # text, not HTML
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_difference_is_said_by_name():
    equal, unequal = run("hash", [1]), run("cascade", [1], differences=3)
    assert equality([equal, run("pkg", [1])]) == (
        "The results of hash and pkg equal plain Spark's, record for record: 12 rows."
    )
    said = equality([equal, unequal])
    assert said.startswith("NOT EQUAL")
    assert "cascade: 3 rows" in said
    assert "hash" not in said


def test_nothing_to_show_is_refused(tmp_path):
    with pytest.raises(ValueError, match="runs must be at least one, not 0"):
        write_job_report([], "", tmp_path / "x.html")
