"""The papers' figures on Spark beside the simulator: settings, claims, table."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark import papers
from skewless import registry

FIGURES = {figure["paper"]: figure for figure in papers.FIGURES}
TINY = {"runs": ["hash", "mixed"], "paper": "Mixed", "number": "14b"}
TINY |= {"keyed_state": {"n_workers": 2, "n_keys": 20, "n_records": 40, "n_batches": 2}}


def made_up(where, seconds):
    """Return records of PStream's figure in which runs take so long."""
    about = {"paper": "PStream", "figure": "13", "where": where, "wall": 10.0}
    return [about | {"run": run, "seconds": took} for run, took in seconds.items()]


@pytest.mark.parametrize("paper", FIGURES)
def test_every_claim_is_about_runs_that_are_measured(paper):
    figure = FIGURES[paper]
    claims = list(papers.claims_of(figure))
    assert claims
    for _, runs, _ in claims:
        assert set(runs) <= set(figure["runs"])
    for run in figure["runs"]:
        registry.make(run.partition("@")[0])
        if "stream" in figure:
            _, job = papers.job_of(figure, run)
            assert job.stream.n_records % job.n_records == 0


def test_all_five_papers_have_a_figure():
    assert list(FIGURES) == ["FISH", "Pd-Stream", "Dalton", "PStream", "Mixed"]


def test_the_table_says_what_contradicts_the_paper():
    records = made_up(papers.SIMULATOR, {"pstream": 1.0, "pkg": 1.21, "dkg": 1.1})
    records += made_up(papers.SPARK, {"pstream": 1.0, "pkg": 0.8, "dkg": 1.32})
    lines = papers.table(records).splitlines()
    assert len(lines) == 4  # only what is measured has a line
    assert lines[2].endswith("| 1.32 | 1.10, direction only | 1.32, reproduced | 1.00 |")
    assert lines[3].endswith("| 1.21 | 1.21, reproduced | 0.80, contradicted | 1.00 |")


def test_a_figure_runs_in_the_simulator():
    figure = FIGURES["Pd-Stream"]
    row = papers.measure(figure, "pd-stream", None)
    assert row["where"] == papers.SIMULATOR
    # 600 records for each of eight workers, in three micro-batches that count, and some merges.
    assert 600 * 0.004 < row["seconds"] < 2 * 600 * 0.004
    assert 1 <= row["replication"] <= 8


def test_mixed_runs_on_both(spark, tmp_path):
    ours, on_spark = (papers.measure(TINY, "mixed", one, tmp_path) for one in (None, spark))
    assert ours["wall"] == 0
    assert on_spark["where"] == papers.SPARK
    assert 0 < on_spark["seconds"] < on_spark["wall"]
