import os
import stat

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from bokeh.models import Legend, Plot

from dashboard.job_runs import job_run, three_runs
from dashboard.pages import require_alone
from skewless.dashboard.comparison import equality, job_document
from skewless.dashboard.page_style import write_document

AXES = {
    "loads": ("workers, highest load first", "load, 1 = fair share"),
    "throughput": ("micro-batch", "records per second"),
    "seconds": ("micro-batch", "seconds"),
    "imbalance": ("micro-batch", "(max − mean) / mean"),
    "replication": ("micro-batch", "replicas per key"),
}


def test_the_page_needs_no_network_and_says_what_it_shows(tmp_path):
    path = tmp_path / "job.html"
    runs = [job_run("hash", [9, 1]), job_run("cascade", [5, 5], replication=None)]
    write_document(job_document(runs, "12 <b>words</b>"), path)
    html = path.read_text(encoding="utf-8")
    require_alone(html)
    for text in ("the same job under hash and cascade", "Load per worker", "Batch time"):
        assert text in html
    assert "12 &lt;b&gt;words" in html
    assert "12 <b>words" not in html  # text, not HTML
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_plot_has_titles_and_no_legend_over_its_data():
    doc = job_document(three_runs(), "about")
    plots = {plot.name: plot for plot in doc.select({"type": Plot})}
    assert {
        name: (plot.xaxis[0].axis_label, plot.yaxis[0].axis_label) for name, plot in plots.items()
    } == AXES
    assert list(doc.select({"type": Legend})) == []
    assert all(plot.sizing_mode == "stretch_width" for plot in plots.values())
    for section in doc.template_variables["sections"]:
        assert section.title
    for plot in plots.values():
        drawn = {str(r.data_source.data["strategy"][0]) for r in plot.renderers}
        assert drawn == {"hash", "shuffle", "cascade-ahead"}


def test_the_load_of_a_worker_is_in_units_of_its_fair_share():
    doc = job_document([job_run("hash", [1, 7])], "")
    (bars,) = doc.get_model_by_name("loads").renderers
    assert bars.data_source.data["load"] == [1.75, 0.25]


def test_a_difference_is_said_by_name():
    equal, unequal = job_run("hash", [1]), job_run("cascade", [1], differences=3)
    assert equality([equal, job_run("pkg", [1])]) == (
        "The results of hash and pkg equal plain Spark's, record for record: 12 rows."
    )
    said = equality([equal, unequal])
    assert said.startswith("NOT EQUAL")
    assert "cascade: 3 rows" in said
    assert "hash" not in said
    page = job_document([equal, unequal], "")
    assert "NOT EQUAL" in page.get_model_by_name("summary").text


def test_nothing_to_show_is_refused():
    with pytest.raises(ValueError, match="runs must not be empty"):
        job_document([], "")
