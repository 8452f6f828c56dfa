import re
from types import SimpleNamespace

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from bokeh.models import Plot

from dashboard.pages import require_alone
from skewless.dashboard.comparison import comparison_document
from skewless.dashboard.page_style import write_document


def run(strategy, loads, imbalance):
    """Build the part of a simulated run that the page needs."""
    told = {
        "strategy": strategy,
        "window_imbalance_mean": imbalance,
        "window_replication_mean": 1.25,
        "makespan_ratio": 1.1,
        "workload": "zipf & co",
        "records": 12_000,
        "keys": 300,
        "sources": 1,
        "workers": 2,
        "window": 1_000,
    }
    return SimpleNamespace(strategy=strategy, loads=loads, capacities=None, summary=lambda: told)


RUNS = [run("hash", [6, 2], 0.5), run("<b>own</b>", [4, 4], 0.0)]


def test_each_run_has_its_bars_and_all_are_in_one_picture():
    doc = comparison_document(RUNS)
    plots = {plot.name: plot for plot in doc.select({"type": Plot})}
    assert set(plots) == {"trade_off", "loads-0", "loads-1"}
    assert all(plot.xaxis[0].axis_label and plot.yaxis[0].axis_label for plot in plots.values())
    assert plots["loads-0"].renderers[0].data_source.data["load"] == [1.5, 0.5]
    assert {plots[f"loads-{n}"].y_range.end for n in range(2)} == {1.5 * 1.08}
    points = plots["trade_off"].renderers[0].data_source.data
    assert points["strategy"] == ["hash", "<b>own</b>"]
    assert points["imbalance"][1] > 0  # a logarithmic axis has no 0
    titles = [section.title for section in doc.template_variables["sections"]]
    assert titles == ["The numbers", "Balance against replicas", "hash", "<b>own</b>"]


def test_the_page_has_the_numbers_and_says_what_the_stream_is():
    doc = comparison_document(RUNS)
    heading = doc.template_variables["heading"]
    assert "zipf &amp; co: 12,000 records, 300 keys, 1 source, 2 workers" in heading
    cells = re.findall("<td[^>]*>([^<]*)</td>", doc.get_model_by_name("numbers").text)
    assert cells == [
        "hash",
        "0.5000",
        "1.250",
        "1.10",
        "&lt;b&gt;own&lt;/b&gt;",
        "0.0000",
        "1.250",
        "1.10",
    ]


def test_the_page_needs_no_network_and_names_are_text(tmp_path):
    write_document(comparison_document(RUNS), tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    require_alone(html)
    assert "<h2>&lt;b&gt;own&lt;/b&gt;</h2>" in html
    assert "<b>own" not in html
